"""Reads a JSON file of any size element by element: a top-level array, or values one after the other (JSON Lines)."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from lmtui.errors import DatasetError

CHUNK_BYTES = 1 << 21
LONGEST_ELEMENT = 1 << 25
"""Characters of one element at most: what bounds the memory, also on a file that is damaged at its start."""

_SPACE = " \t\r\n"


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
                    raise self._fault("the array goes on with something else than a comma or its end", back=1)
        if self._next_char():
            raise self._fault("something follows the end of the array")

    def _element(self) -> object:
        while True:
            try:
                self._next_char()
                value: object
                value, end = self._parse(self._buffer, self._at)
            except RecursionError:
                raise self._fault("an element is nested too deeply") from None
            except ValueError as error:
                if self._is_over or len(self._buffer) - self._at > LONGEST_ELEMENT:
                    raise self._fault(str(error)) from None
            else:
                # A number at the very end of the buffer may go on in the next chunk.
                if end < len(self._buffer) or self._is_over:
                    self._at = end
                    return value
            self._read(max(self._chunk_bytes, len(self._buffer) - self._at))

    def _next_char(self) -> str:
        """Skip white space and return the character there, without taking it; "" at the end of the file."""
        while True:
            while self._at < len(self._buffer):
                char = self._buffer[self._at]
                if char not in _SPACE:
                    return char
                self._at += 1
            if self._is_over:
                return ""
            self._read(self._chunk_bytes)

    def _read(self, size: int) -> None:
        try:
            chunk = self._source.read(size)
            text = self._decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            raise self._fault(f"the text is not UTF-8 ({error.reason})") from None
        except OSError as error:
            raise DatasetError(f"The dataset '{self._path}' cannot be read: {error.strerror or error}.") from error
        self._read_bytes += len(chunk)
        self._is_over = not chunk
        self._buffer = self._buffer[self._at :] + text
        self._at = 0

    def _fault(self, what: str, back: int = 0) -> DatasetError:
        position = self._read_bytes - len(self._buffer[self._at - back :].encode("utf-8", "surrogatepass"))
        if self._is_over and not self._buffer[self._at :].strip():
            what = "the file ends too early"
        return DatasetError(
            f"The dataset '{self._path}' is not the JSON it should be near byte {max(position, 0)}: {what}. "
            "Download it again, or correct it there."
        )
