"""Server-sent events as the standard says: bytes, cut anywhere, become the data of whole events.

A line ends with LF, CRLF or a lone CR (at once, without waiting for a possible LF); a blank line ends an event; `data`
lines are joined with LF; comments and other fields are skipped; a byte-order mark at the start is dropped.
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

from lmtui.wire.limits import MAX_EVENT_BYTES

BOM = b"\xef\xbb\xbf"
FIELDS = (b"data", b"event", b"id", b"retry")
DATA_LINE_BYTES = 16
"""What a data line counts besides its bytes, so that empty ones without end are noticed too."""


class EventTooLargeError(Exception):
    """One event, or one line, is larger than any that a server has reason to send."""


class EventSplitter:
    """Splits one body into events. Events without data, or with blank data, are not given.

    Attributes:
        saw_field: Whether any field of the standard has come: the body is an event stream.
        said: Grows with everything that comes but comments and blank lines; 0 as long as nothing else has.
    """

    __slots__ = (
        "_after_cr",
        "_begun",
        "_clean",
        "_data",
        "_data_bytes",
        "_line",
        "_line_bytes",
        "said",
        "saw_field",
    )

    def __init__(self) -> None:
        self.saw_field = False
        self.said = 0
        self._begun = False
        self._clean = True
        """No line and no event is open, so that the next bytes can take the short way."""
        self._after_cr = False
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of the events that these bytes complete.

        Raises:
            EventTooLargeError: The open event is over the limit.
        """
        if (
            self._clean
            and data.startswith(b"data: ")
            and data.endswith(b"}\n\n")
            and data.count(b"\n") == 2
            and b"\r" not in data
        ):
            # The common form, a third of the work: exactly one event of one line, in whole.
            self._begun = self.saw_field = True
            self.said += 1
            return [data[6:-2]]
        return self._feed_lines(data)

    def finish(self) -> list[bytes]:
        """Return the event that the end of a complete body ends, if one is open."""
        return self._lines([b"".join(self._line), b""]) if self._line or self._data else []

    def _feed_lines(self, data: bytes) -> list[bytes]:
        if not self._begun:
            data = b"".join([*self._line, data])
            self._line.clear()
            if len(data) < len(BOM) and BOM.startswith(data):
                self._line.append(data)
                self._clean = False
                return []
            self._begun = True
            data = data.removeprefix(BOM)
        if self._after_cr:
            if not data:
                return []
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = data.split(b"\n")
        events: list[bytes] = []
        if lines:
            if self._line:
                lines[0] = b"".join([*self._line, lines[0]])
                self._line.clear()
                self._line_bytes = 0
            events = self._lines(lines)
        if rest:
            self._line.append(rest)
            self._line_bytes += len(rest)
            self.said += not self._line[0].startswith(b":")
            if self._line_bytes > MAX_EVENT_BYTES:
                raise EventTooLargeError
        self._clean = not (self._line or self._data or self._after_cr)
        return events

    def _lines(self, lines: list[bytes]) -> list[bytes]:
        """Take whole lines, without their ends; return the data of the events that they complete."""
        events: list[bytes] = []
        for line in lines:
            if not line:
                if self._data:
                    event = b"\n".join(self._data)
                    self._data.clear()
                    self._data_bytes = 0
                    if event.strip():
                        events.append(event)
                continue
            name, _, value = line.partition(b":")
            if not name:
                continue  # A comment.
            self.said += 1
            if name not in FIELDS:
                continue
            self.saw_field = True
            if name == b"data":
                value = value.removeprefix(b" ")
                self._data.append(value)
                self._data_bytes += len(value) + DATA_LINE_BYTES
                if self._data_bytes > MAX_EVENT_BYTES:
                    raise EventTooLargeError
        return events
