"""Reads a JSON file of any size element by element: a top-level array, or values one after the other (JSON Lines)."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from lmtui.errors import DatasetError

CHUNK_BYTES = 1 << 21
LONGEST_ELEMENT = 1 << 24
"""Characters of one element at most: what bounds the memory, also on a file that is damaged at its start."""

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_LITERAL = 16  # More than the characters of any keyword or escape that the buffer's end may cut.


class Source(Protocol):
    """Where the bytes come from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; b"" at the end."""


class JsonStream:
    """Iterates over the elements of one file.

    Memory is bounded by one chunk and one element. Each element is parsed by the standard parser as soon as its end is
    in the buffer; when it is not, at least as much again is read before the next try, so that the work stays linear.
    """

    def __init__(self, source: Source, path: Path, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._source = source
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._parse = json.JSONDecoder().raw_decode
        self._buffer = ""
        self._at = 0
        self._read_bytes = 0
        self._is_over = False

    def __iter__(self) -> Iterator[object]:
        """Yield the elements in order.

        Raises:
            DatasetError: The file is not JSON, is cut short, or one element is too large; with the byte position.
        """
        if self._next_char() != "[":
            while self._next_char():
                yield self._element()
            return
        self._at += 1
        if self._next_char() == "]":
            self._at += 1
        else:
            while True:
                yield self._element()
                separator = self._next_char()
                self._at += 1
                if separator == "]":
                    break
                if separator != ",":
                    raise self._fault("the array goes on with something else than a comma or its end", self._at - 1)
        if self._next_char():
            raise self._fault("something follows the end of the array", self._at)

    def _element(self) -> object:
        while True:
            try:
                self._next_char()
                value: object
                value, end = self._parse(self._buffer, self._at)
            except RecursionError:
                raise self._fault("an element is nested too deeply", self._at) from None
            except json.JSONDecodeError as error:
                if self._is_over or not self._may_be_cut(error):
                    raise self._fault(error.msg, error.pos) from None
            except ValueError as error:  # A number of thousands of digits.
                raise self._fault(str(error), self._at) from None
            else:
                # A number may go on in the next chunk: of "1e+5" the parser takes the 1 while only "1e+" is there.
                if end + 2 < len(self._buffer) or self._is_over:
                    self._at = end
                    return value
            self._read(max(self._chunk_bytes, len(self._buffer) - self._at))

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether more of the file could mend the error: it is where the buffer ends, or a text that began before."""
        if len(self._buffer) - self._at > LONGEST_ELEMENT:
            return False
        return error.pos > len(self._buffer) - _LONGEST_LITERAL or error.msg.startswith("Unterminated string")

    def _next_char(self) -> str:
        """Skip white space and return the character there, without taking it; "" at the end of the file."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            assert space is not None
            self._at = space.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._is_over:
                return ""
            self._read(self._chunk_bytes)

    def _read(self, size: int) -> None:
        try:
            chunk = self._source.read(size)
        except OSError as error:
            raise DatasetError(f"The dataset '{self._path}' cannot be read: {error.strerror or error}.") from error
        self._read_bytes += len(chunk)
        try:
            text = self._decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            # What was decoded ends with the chunk, and may begin before it.
            position = self._read_bytes - len(error.object) + error.start
            raise self._fault_at(f"the text is not UTF-8 ({error.reason})", position) from None
        self._is_over = not chunk
        self._buffer = self._buffer[self._at :] + text
        self._at = 0

    def _fault(self, what: str, at: int) -> DatasetError:
        """Make the error for index `at` of the buffer."""
        rest = self._buffer[at:]
        if self._is_over and (not rest.strip() or what.startswith("Unterminated string")):
            what, rest = "the file ends too early", ""
        return self._fault_at(what, self._read_bytes - len(rest.encode("utf-8", "surrogatepass")))

    def _fault_at(self, what: str, position: int) -> DatasetError:
        return DatasetError(
            f"The dataset '{self._path}' is not the JSON it should be near byte {position}: {what}. "
            "Download it again, or correct it there."
        )
