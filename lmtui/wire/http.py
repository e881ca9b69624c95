"""The framing of one HTTP response: status, header fields, and where the body begins and ends."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import httptools

from lmtui.wire.limits import MAX_FRAMING_BYTES, MAX_HEAD_BYTES


class BrokenHttpError(Exception):
    """What came is not HTTP, or not HTTP that this client can read; the text says what."""


def _ignore(data: bytes) -> None:
    """Take a piece of a body that nobody reads."""


class HttpResponse:
    """Parses one response; its body goes to `on_body` piece by piece, without the framing.

    Attributes:
        status: Status of the final response; None until its head is complete (interim ones are skipped).
        headers: Its fields, names in lower case; trailers are added to them.
        is_whole: Whether the body has ended as its framing says it should.
        bytes_in: Bytes that have come, framing and all.
    """

    __slots__ = (
        "_interim",
        "_may_keep",
        "_more_came",
        "_parser",
        "bytes_in",
        "headers",
        "is_whole",
        "on_body",
        "status",
    )

    def __init__(self, on_body: Callable[[bytes], None]) -> None:
        self.on_body = on_body
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.is_whole = False
        self._interim = False
        self._may_keep = False
        self._more_came = False
        self.bytes_in = 0
        self._parser = httptools.HttpResponseParser(self)
        # What other clients forgive too: a lone LF for CRLF in the head, spaces after a chunk's size.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)

    def feed(self, data: bytes, body_bytes: int) -> None:
        """Take bytes from the connection; `body_bytes` is how many of the body came before them.

        Raises:
            BrokenHttpError: They are not HTTP. After the body's end nothing is an error; the connection is then unfit.
        """
        self.bytes_in += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise BrokenHttpError("broken HTTP: the server wants to switch protocols (HTTP 101)") from error
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            self._more_came = True
            if not self.is_whole:
                raise BrokenHttpError(f"broken HTTP: {error}") from error
        if self.status is None:
            if self.bytes_in > MAX_HEAD_BYTES:
                raise BrokenHttpError(f"broken HTTP: a head of more than {MAX_HEAD_BYTES} bytes")
        elif self.bytes_in - MAX_HEAD_BYTES > 64 * body_bytes + MAX_FRAMING_BYTES and not self.is_whole:
            raise BrokenHttpError("broken HTTP: framing without end")

    def end_of_connection(self) -> bool:
        """Take the connection's end; whether the body is whole with it."""
        if not self.is_whole and self.status is not None:
            self.is_whole = "content-length" not in self.headers and "transfer-encoding" not in self.headers
        return self.is_whole

    @property
    def keeps_connection(self) -> bool:
        """Whether the connection can carry another request after this whole response."""
        return self._may_keep and not self._more_came

    def on_message_begin(self) -> None:
        """Take the start of a message: after a whole one it is an answer to nothing."""
        self._more_came = self.is_whole

    def release(self) -> None:
        """Let go of the parser, with which this object is a cycle: the garbage collector is off during a run."""
        self.on_body = _ignore
        del self._parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header field, as the parser found it."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """Take the end of a head; that of an interim response is forgotten."""
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200
        if self._interim:
            self.headers.clear()
        else:
            self.status = status
            if (coding := self.headers.get("transfer-encoding", "chunked").lower()) != "chunked":
                raise BrokenHttpError(f"the body has transfer-encoding {coding!r}, which is not read")

    def on_message_complete(self) -> None:
        """Take the end of a message."""
        if self._interim:
            self._interim = False
        else:
            self.is_whole = True
            self._may_keep = self._parser.should_keep_alive()


class ContentDecoder:
    """Undoes a content coding piece by piece, whatever the server had been asked for."""

    __slots__ = ("_inflate", "_name", "_raw_allowed", "_wbits")

    def __init__(self, coding: str) -> None:
        """Raise BrokenHttpError for a coding that cannot be undone here."""
        self._name = coding
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise BrokenHttpError(f"the body has content-encoding {coding!r}, which was not asked for and is not read")
        self._wbits = zlib.MAX_WBITS | 32
        self._inflate = zlib.decompressobj(wbits=self._wbits)
        self._raw_allowed = coding == "deflate"

    def decode(self, data: bytes, most: int) -> bytes:
        """Return the decoded bytes, at most about `most`.

        Raises:
            BrokenHttpError: It is not in this coding, or it decodes to more than `most` bytes.
        """
        parts = []
        while data:
            if self._inflate.eof:  # one gzip stream after another, as a server writes that compresses each event
                self._inflate = zlib.decompressobj(wbits=self._wbits)
            try:
                parts.append(self._inflate.decompress(data, most))
            except zlib.error as error:
                if not self._raw_allowed:
                    raise BrokenHttpError(f"the body is not in its content-encoding {self._name}: {error}") from error
                # Some servers send deflate without the wrapper that the standard asks for.
                self._wbits = -zlib.MAX_WBITS
                self._inflate = zlib.decompressobj(wbits=self._wbits)
                self._raw_allowed = False
                continue
            self._raw_allowed = False
            if self._inflate.unconsumed_tail:
                raise BrokenHttpError(f"the {self._name} body decodes to too many bytes")
            data = self._inflate.unused_data
        return b"".join(parts)
