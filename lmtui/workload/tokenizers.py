"""Tokenizers: the fast library alone where that gives the same ids, transformers' loader everywhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from lmtui.errors import ConfigError

# Classes of tokenizer_config.json that take a folder's tokenizer.json as it is. Every other class may rebuild it.
_PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Keys of tokenizer_config.json that change what encode or decode give.
_CHANGING_KEYS = ("add_bos_token", "add_eos_token", "clean_up_tokenization_spaces", "auto_map", "add_prefix_space")
_SPECIAL_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Tokenizer(Protocol):
    """Text to token ids and back, as LMDeploy's scripts call it."""

    def encode(self, text: str, special_tokens: bool = True) -> list[int]:
        """Return the ids of `text`; the scripts let the tokenizer add its special tokens (a leading BOS, usually)."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of `ids`; special tokens stay in it, as the scripts leave them."""


class FastTokenizer:
    """A `tokenizer.json`, read by the tokenizers library alone (milliseconds; transformers takes seconds)."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        backend.no_truncation()
        backend.no_padding()

    def encode(self, text: str, special_tokens: bool = True) -> list[int]:
        """See Tokenizer."""
        # As a batch, as transformers does: `encode` would hold the interpreter, 20 ms for a text of 30,000 tokens.
        ids: list[int] = self._backend.encode_batch([text], add_special_tokens=special_tokens)[0].ids
        return ids

    def decode(self, ids: list[int]) -> str:
        """See Tokenizer."""
        decoded: str = self._backend.decode(ids, skip_special_tokens=False)
        return decoded


class TransformersTokenizer:
    """Whatever `transformers.AutoTokenizer` loads."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def encode(self, text: str, special_tokens: bool = True) -> list[int]:
        """See Tokenizer."""
        # verbose=False: a text beyond model_max_length is none of the tokenizer's business here.
        return list(self._backend.encode(text, add_special_tokens=special_tokens, verbose=False))

    def decode(self, ids: list[int]) -> str:
        """See Tokenizer."""
        decoded: str = self._backend.decode(ids)
        return decoded


def load(path_or_id: str, trust_remote_code: bool = False) -> Tokenizer:
    """Load a tokenizer.

    Args:
        path_or_id: A folder that holds one, or a name on the hub (read from its cache when there is no network).
        trust_remote_code: Whether code that comes with it may run.

    Raises:
        ConfigError: There is none, or it cannot be loaded.
    """
    path = Path(path_or_id).expanduser()
    if path.is_dir():
        if (fast := _load_fast(path)) is not None:
            return fast
    elif path.exists():
        raise ConfigError(f"The tokenizer '{path_or_id}' is a file: give the folder that holds it.")
    elif path_or_id.startswith(("/", ".", "~")) or path_or_id.count("/") > 1:
        raise ConfigError(f"The tokenizer's folder '{path_or_id}' does not exist: correct the path.")
    return _load_transformers(str(path) if path.is_dir() else path_or_id, path.is_dir(), trust_remote_code)


def _load_fast(folder: Path) -> FastTokenizer | None:
    """Load tokenizer.json alone when transformers would give exactly the same ids; None: let transformers decide."""
    file, settings_file = folder / "tokenizer.json", folder / "tokenizer_config.json"
    if not (file.is_file() and settings_file.is_file()):
        return None
    try:
        settings = json.loads(settings_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"The tokenizer's '{settings_file}' cannot be read: {error}.") from error
    if not isinstance(settings, dict) or settings.get("tokenizer_class") not in _PLAIN_CLASSES:
        return None
    if any(settings.get(key) for key in _CHANGING_KEYS):
        return None
    import tokenizers

    try:
        backend = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # The library raises plain Exception for every fault of the file.
        raise ConfigError(f"The tokenizer's '{file}' cannot be read: {error}.") from error
    if any(backend.token_to_id(token) is None for token in _declared_tokens(settings)):
        return None
    return FastTokenizer(backend)


def _declared_tokens(settings: dict[str, Any]) -> list[str]:
    """List the tokens that tokenizer_config.json would add to the vocabulary if they were missing there."""
    entries = [settings.get(key) for key in _SPECIAL_KEYS]
    added = settings.get("added_tokens_decoder")
    if isinstance(added, dict):
        entries += added.values()
    return [
        token
        for entry in entries
        if isinstance(token := entry.get("content") if isinstance(entry, dict) else entry, str)
    ]


def _load_transformers(name: str, is_folder: bool, trust_remote_code: bool) -> TransformersTokenizer:
    # Nothing here computes: without this, transformers says on stderr that it found no framework.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import AutoTokenizer

    try:
        backend = AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code, local_files_only=is_folder)
    except Exception as error:  # Code that comes with a tokenizer may raise anything.
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ConfigError(
            f"The tokenizer '{name}' cannot be loaded ({type(error).__name__}: {reason}): "
            "set target.tokenizer to a folder or a hub name that holds one."
        ) from error
    return TransformersTokenizer(backend)
