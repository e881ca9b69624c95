"""The embedded default model: a tiny Llama with random weights, made once under the cache folder by a fixed recipe."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from lmtui import paths
from lmtui.workload import tiny_tokenizer

NAME = "tiny-llama-2"
"""Its folder and its name in results. Count up when the recipe changes."""

_WEIGHTS_SEED = 20


def path() -> Path:
    """Return the folder of the model with its tokenizer, made when it is missing; loads PyTorch only then.

    The folder's name holds the tokenizer's too, so that a new vocabulary makes a new model. Two processes may ask at
    once: each makes its own, and the first to finish gives the final folder its name.
    """
    tokenizer = tiny_tokenizer.path()
    final = paths.cache() / f"{NAME}-{tokenizer.name}"
    if final.is_dir():
        return final
    draft = Path(tempfile.mkdtemp(prefix=f"{final.name}-", dir=paths.cache()))
    try:
        _make(draft, tokenizer)
        try:
            os.rename(draft, final)
        except OSError:
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return final


def _make(folder: Path, tokenizer: Path) -> None:
    import tokenizers
    import torch
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    vocabulary = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    config = LlamaConfig(
        vocab_size=vocabulary.get_vocab_size(),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        bos_token_id=vocabulary.token_to_id(tiny_tokenizer.BOS),
        eos_token_id=vocabulary.token_to_id(tiny_tokenizer.EOS),
        pad_token_id=vocabulary.token_to_id(tiny_tokenizer.EOS),
        # Larger than usual, so that greedy outputs do not fall into one repeated token at once.
        initializer_range=0.4,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_WEIGHTS_SEED)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
