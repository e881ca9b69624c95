"""Counts and cuts prompts: in tokens where there is a tokenizer, in words where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmtui.workload import prose
from lmtui.workload.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A prompt of known size.

    Attributes:
        text: What is sent.
        length: Its tokens; None when only its words are known.
        token_ids: The ids that `text` was decoded from or encodes to, int32; None without a tokenizer.
    """

    text: str
    length: int | None
    token_ids: NDArray[np.int32] | None = None


class Cutter(Protocol):
    """One way to count and cut. `size` and `length` are in its unit."""

    unit: str
    knows_tokens: bool
    """Whether a count is one of tokens (of words where words stand for tokens), fit to be an output length."""

    def size(self, text: str) -> int:
        """Count a text."""

    def whole(self, text: str) -> Prompt:
        """Return the text as a prompt."""

    def fit(self, text: str, length: int, prefix: Prompt | None = None) -> Prompt | None:
        """Cut the text to `length`, or repeat it up to there; then put `prefix` before it. None: the text is empty."""

    def passage(self, place: int, length: int, prefix: Prompt | None = None) -> Prompt:
        """Cut a prompt from the shipped text, every place another one; then put `prefix` before it."""

    def blocks(self, places: list[int], block: int, length: int) -> Prompt:
        """Chain passages of `block` from the given places, cut to `length`; the last one goes on as far as it must."""

    def places(self) -> int:
        """Return the number of pieces of the shipped text: one lap of places."""


class TokenCutter:
    """Cuts by token ids, as LMDeploy's scripts do: encode, cut or repeat the ids, decode."""

    unit = "tokens"
    knows_tokens = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._plain = tokenizer.encode(prose.text(), special_tokens=False)
        first = tokenizer.encode(prose.words()[0])
        self._lead = first[:1] if first[:1] != self._plain[:1] else []

    def size(self, text: str) -> int:
        """See Cutter; with the tokenizer's special tokens, as the scripts count."""
        return len(self._tokenizer.encode(text))

    def whole(self, text: str) -> Prompt:
        """See Cutter."""
        ids = self._tokenizer.encode(text)
        return Prompt(text, len(ids), np.array(ids, dtype=np.int32))

    def fit(self, text: str, length: int, prefix: Prompt | None = None) -> Prompt | None:
        """See Cutter. Behind a prefix, the text is encoded without a BOS of its own."""
        ids = self._tokenizer.encode(text, special_tokens=prefix is None)
        if not ids:
            return None
        ids = (ids * -(-length // len(ids)))[:length]
        if prefix is not None and prefix.token_ids is not None:
            ids = prefix.token_ids.tolist() + ids
        return self._of(ids)

    def passage(self, place: int, length: int, prefix: Prompt | None = None) -> Prompt:
        """See Cutter. Without a prefix it begins with the tokenizer's BOS, where the tokenizer puts one."""
        if prefix is not None and prefix.token_ids is not None:
            return self._of(prefix.token_ids.tolist() + prose.passage(self._plain, place, length))
        lead = self._lead if length > len(self._lead) else []
        return self._of(lead + prose.passage(self._plain, place, length - len(lead)))

    def blocks(self, places: list[int], block: int, length: int) -> Prompt:
        """See Cutter."""
        return self._of(prose.chain(self._plain, places, block, length))

    def places(self) -> int:
        """See Cutter."""
        return len(self._plain)

    def _of(self, ids: list[int]) -> Prompt:
        return Prompt(self._tokenizer.decode(ids), len(ids), np.array(ids, dtype=np.int32))


class WordCutter:
    """Cuts by words. Where words stand for tokens (the simulated engine), they are counted as such."""

    unit = "words"

    def __init__(self, words_are_tokens: bool) -> None:
        self.knows_tokens = words_are_tokens

    def size(self, text: str) -> int:
        """See Cutter."""
        return len(text.split())

    def whole(self, text: str) -> Prompt:
        """See Cutter."""
        return Prompt(text, self.size(text) if self.knows_tokens else None)

    def fit(self, text: str, length: int, prefix: Prompt | None = None) -> Prompt | None:
        """See Cutter."""
        words = text.split()
        if not words:
            return None
        cut = " ".join((words * -(-length // len(words)))[:length])
        return self.whole(cut if prefix is None else f"{prefix.text} {cut}")

    def passage(self, place: int, length: int, prefix: Prompt | None = None) -> Prompt:
        """See Cutter."""
        cut = " ".join(prose.passage(prose.words(), place, length))
        return self.whole(cut if prefix is None else f"{prefix.text} {cut}")

    def blocks(self, places: list[int], block: int, length: int) -> Prompt:
        """See Cutter."""
        return self.whole(" ".join(prose.chain(prose.words(), places, block, length)))

    def places(self) -> int:
        """See Cutter."""
        return len(prose.words())
