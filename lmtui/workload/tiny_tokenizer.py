"""The tokenizer of the embedded tiny model: trained on the shipped text, once, under the cache folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from lmtui import paths
from lmtui.workload import prose

VOCAB_SIZE = 1024
BOS, EOS = "<|begin|>", "<|end|>"
_FOLDER = "tiny-tokenizer-1"  # Count up when the recipe or the text changes.

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|begin|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}"
)


def path() -> Path:
    """Return the folder of the tokenizer (tokenizer.json, tokenizer_config.json), made when it is missing.

    The recipe is fixed, so that every machine gets the same ids. Two processes may ask at once: each trains in a folder
    of its own, and the first to finish gives the final folder its name.
    """
    final = paths.cache() / _FOLDER
    if final.is_dir():
        return final
    draft = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-", dir=paths.cache()))
    try:
        _train(draft)
        try:
            os.rename(draft, final)
        except OSError:
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return final


def _train(folder: Path) -> None:
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[BOS, EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(prose.text().splitlines(keepends=True), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "chat_template": _CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
