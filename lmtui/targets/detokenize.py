"""Token ids to text as they come, at the cost that a client of an engine pays: LMDeploy's scripts do so too."""

from __future__ import annotations

from lmtui.workload.tokenizers import Tokenizer

UNFINISHED = "�"


class IncrementalText:
    """The text of one request's outputs. Only the last few tokens are decoded each time.

    Attributes:
        text: What is certain so far: bytes of a character that is not complete are held back.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.text = ""
        self._tokenizer = tokenizer
        self._prefix_at = 0
        self._read_at = 0

    def add(self, ids: list[int]) -> None:
        """Take all output ids so far, and append the text of those that are new."""
        known = self._tokenizer.decode(ids[self._prefix_at : self._read_at])
        longer = self._tokenizer.decode(ids[self._prefix_at :])
        if len(longer) > len(known) and not longer.endswith(UNFINISHED):
            self.text += longer[len(known) :]
            self._prefix_at, self._read_at = self._read_at, len(ids)
