"""The event stream format, against its standard."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.wire.sse import EventSplitter, EventTooLargeError


def events(*reads: bytes, ends: bool = True) -> list[bytes]:
    """Return the data of all events of a body that came in these reads."""
    splitter = EventSplitter()
    found = [event for read in reads for event in splitter.feed(read)]
    return found + (splitter.finish() if ends else [])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: {}\n\n", [b"{}"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data: a\ndata: b\ndata\ndata:c\n\n", [b"a\nb\n\nc"]),
        (b"data\n\ndata:\n\ndata: \n\ndata:  \n\n", []),
        (b": data: a\n\n:\n\n", []),
        (b"event: x\nid: 1\nretry: 5\nunknown: y\nnothing\ndata: a\n\n", [b"a"]),
        (b"event: ping\n\nid\n\n", []),
        (b"Data: a\ndatax: b\n data: c\n\n", []),
        (b"data: a\n:comment\ndata: b\n\n", [b"a\nb"]),
        (b"\n\n\r\r\n\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: \xef\xbb\xbfa\n\n", [b"\xef\xbb\xbfa"]),
        ("data: a\u2028b\u0085c\x0bd\x0ce\n\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce".encode()]),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data: a\r", [b"a"]),
        (b"data: a:b: c\n\n", [b"a:b: c"]),
        (b"data: {\"x\": \"data: {}\\n\\n\"}\n\n", [b"{\"x\": \"data: {}\\n\\n\"}"]),
        (b"", []),
    ],
)  # fmt: skip
def test_bodies(body: bytes, expected: list[bytes]) -> None:
    assert events(body) == expected
    assert events(*(body[i : i + 1] for i in range(len(body)))) == expected


def test_an_event_is_given_at_once() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\r") == [b"a"]
    assert splitter.feed(b"\ndata: {}\n\n") == [b"{}"]
    assert splitter.feed(b"data: {}\n\n") == [b"{}"]
    assert splitter.feed(b"data: c\n") == []
    assert splitter.feed(b"\n") == [b"c"]


def test_the_short_way_is_taken_only_between_events() -> None:
    assert events(b"data: a\n", b"data: {}\n\n") == [b"a\n{}"]
    assert events(b"dat", b"data: {}\n\n") == []
    assert events(b"\xef\xbb", b"data: {}\n\n") == []
    assert events(b": c", b"data: {}\n\n", b"data: {}\n\n") == [b"{}"]


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (b"", False, False),
        (b"\n\n: c\n\n", False, False),
        (b": not finished", False, False),
        (b"<html>", False, True),
        (b"event: ping\n\n", True, True),
        (b"data: {}\n\n", True, True),
    ],
)
def test_what_kind_of_body_it_was(body: bytes, field: bool, says: bool) -> None:
    splitter = EventSplitter()
    splitter.feed(body)
    splitter.finish()
    assert (splitter.saw_field, splitter.said > 0) == (field, says)


def test_all_but_comments_and_blank_lines_says_something() -> None:
    splitter = EventSplitter()
    for read, says in ((b"data: {}\n\n", True), (b": c", False), (b"d\n\n", False), (b"da", True), (b"ta", True)):
        before = splitter.said
        splitter.feed(read)
        assert (splitter.said > before) == says, read


@pytest.mark.parametrize("endless", [b"data: xxxxxxxx\n", b"data\n", b"xxxxxxxx"])
def test_an_endless_event_is_given_up(endless: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.wire.sse.MAX_EVENT_BYTES", 1000)
    splitter = EventSplitter()

    def feed() -> None:
        for _ in range(1000):
            splitter.feed(endless)

    with pytest.raises(EventTooLargeError):
        feed()


def test_endless_comments_and_small_events_are_no_large_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.wire.sse.MAX_EVENT_BYTES", 1000)
    splitter = EventSplitter()
    for _ in range(1000):
        assert splitter.feed(b": keep-al") == []
        assert splitter.feed(b"ive\ndata: a\n\n") == [b"a"]


ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1).filter(str.strip)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=4), ENDS, st.lists(st.integers(0, 400), max_size=8))
def test_what_is_written_is_read(written: list[list[str]], end: bytes, cuts: list[int]) -> None:
    lines = [b"".join(b"data: " + line.encode() + end for line in event) for event in written]
    body = b"".join(event + end for event in lines)
    places = sorted(min(cut, len(body)) for cut in cuts)
    reads = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]
    assert events(*reads, ends=False) == ["\n".join(event).encode() for event in written]
