"""What one response has said so far, whatever its API: events, counts, finish reasons, errors, text."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from lmtui.metrics.sessions import UNKNOWN
from lmtui.wire.limits import EXCERPT_CHARS

MAX_COUNT = 2**31 - 1
BAD_FINISHES = frozenset({"error", "abort", "parse_error"})


class NotJsonError(Exception):
    """The data of an event is not JSON."""


class Answer(ABC):
    """Reads the events of one response in order.

    Attributes:
        content_events: Events that carried output. n: choices that were asked for.
        tokens: Cumulative output tokens after the last content event; UNKNOWN when the server did not tell.
        output_tokens, prompt_tokens, cached_tokens: The server's last counts; UNKNOWN when it sent none.
        finish: Choice → its finish reason.
        error: The server's own error, quoted; None while there is none.
        done: Whether the end marker has come.
        text, reasoning: Pieces of choice 0, kept only when `keep_text` is set.
    """

    __slots__ = (
        "_ids",
        "_others",
        "cached_tokens",
        "content_events",
        "done",
        "error",
        "finish",
        "keep_text",
        "n",
        "output_tokens",
        "prompt_tokens",
        "reasoning",
        "text",
        "tokens",
    )

    def __init__(self, n: int = 1, keep_text: bool = False) -> None:
        self.n = n
        self.keep_text = keep_text
        self.content_events = 0
        self.tokens = UNKNOWN
        self.output_tokens = UNKNOWN
        self.prompt_tokens = UNKNOWN
        self.cached_tokens = UNKNOWN
        self.finish: dict[int, str] = {}
        self.error: str | None = None
        self.done = False
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self._others: set[int] = set()
        self._ids = 0
        """Token ids so far; UNKNOWN once a content event came without any."""

    @abstractmethod
    def take(self, data: bytes) -> bool:
        """Read the data of one event (or a whole body that is one JSON object); whether it carried output.

        Raises:
            NotJsonError: It is not JSON.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the end marker or the finish reason of every choice has come."""
        return self.done or (len(self.finish) >= self.n and 0 in self.finish and self._others <= self.finish.keys())

    @property
    def ends_with_body(self) -> bool:
        """Whether the end of the HTTP body is this API's only end marker."""
        return False

    @property
    def counted_tokens(self) -> int:
        """The server's own count of output tokens: its usage, else the token ids it sent; UNKNOWN without either."""
        if self.output_tokens != UNKNOWN:
            return self.output_tokens
        return self._ids if self._ids > 0 else UNKNOWN

    def _content(self, new_ids: int, running: int) -> None:
        """Count a content event that brought `new_ids` token ids (0: none) and this running usage (UNKNOWN: none)."""
        self.content_events += 1
        if self._ids >= 0:
            self._ids = self._ids + new_ids if new_ids else UNKNOWN
        self.tokens = running if running != UNKNOWN else self._ids


def parse(data: bytes) -> Any:
    """Return any JSON value as leniently as a server may write it: NaN, lone surrogates, broken UTF-8.

    Raises:
        NotJsonError: It is not JSON.
    """
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise NotJsonError from error


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def count(value: object) -> int:
    """Return a server's count; UNKNOWN for whatever cannot be one."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else UNKNOWN


def string(value: object) -> str | None:
    """Return a text, or None for any other value."""
    return value if isinstance(value, str) else None


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """Return a JSON array, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def reported_error(value: object) -> str | None:
    """Return the server's error in the JSON value of an event or body, quoted; None when it is no error.

    An error is an object with an `error` (object or text), with `object: "error"`, or with LMDeploy's `error_code`.
    """
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if not isinstance(error, dict | str) and value.get("object") != "error" and value.get("error_code") is None:
        return None
    source = mapping(error) or value
    own = error if isinstance(error, str) else None
    words = own or next(filter(None, map(source.get, ("message", "detail", "text"))), value)
    told = words if isinstance(words, str) else json.dumps(words)
    code = source.get("code", value.get("error_code"))
    return excerpt(f"{told} (code {code})" if code is not None else told)


def excerpt(words: str | bytes) -> str:
    """Return the start of a server's words on one line, of bounded length."""
    start = words[: 4 * EXCERPT_CHARS]
    text = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    cut = len(text) > EXCERPT_CHARS or len(words) > len(start)
    return text[:EXCERPT_CHARS] + ("…" if cut else "")
