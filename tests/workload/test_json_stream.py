from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.errors import DatasetError
from lmtui.workload import json_stream
from lmtui.workload.json_stream import JsonStream

PATH = Path("data.json")

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def read(content: bytes, chunk_bytes: int = 64) -> list[object]:
    return list(JsonStream(io.BytesIO(content), PATH, chunk_bytes))


@settings(max_examples=60, deadline=None)
@given(items=st.lists(values, max_size=5), chunk=st.integers(1, 40), indent=st.none() | st.integers(0, 2))
def test_an_array_reads_as_the_parser_reads_it(items: list[Any], chunk: int, indent: int | None) -> None:
    content = json.dumps(items, ensure_ascii=False, indent=indent).encode("utf-8", "surrogatepass")
    assert read(content, chunk) == json.loads(content)


@settings(max_examples=40, deadline=None)
@given(items=st.lists(st.dictionaries(st.text(max_size=4), values, max_size=3), max_size=5), chunk=st.integers(1, 40))
def test_lines_read_as_the_parser_reads_them(items: list[Any], chunk: int) -> None:
    content = "\r\n".join(json.dumps(item) for item in items).encode()
    assert read(content, chunk) == items


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=60) | st.text('[]{}",:\\u0d8e1 tfn\n', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused_in_words(content: bytes) -> None:
    def parsed() -> object:
        return json.loads(content.decode("utf-8-sig"))

    def is_well_formed() -> bool:
        try:
            return isinstance(parsed(), list)
        except ValueError:
            return False

    if is_well_formed():
        assert repr(read(content, 7)) == repr(parsed())
        return
    try:
        read(content, 7)  # Values one after the other are fine too.
    except DatasetError as error:
        fault = str(error)
    else:
        return
    assert fault.startswith("The dataset 'data.json' is not the JSON it should be near byte ")


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b'\xef\xbb\xbf[{"a": 1}]') == [{"a": 1}]


@pytest.mark.parametrize(
    ("content", "near", "what"),
    [
        (b'[{"a": 1}, {"b": *2}]', 17, "Expecting value"),
        (b'[{"a": 1} {"b": 2}]', 10, "comma"),
        (b'[{"a": 1}] x', 11, "follows the end"),
        (b'[{"a": 1}, {"b": "cut off he', 28, "ends too early"),
        (b'[{"a": 1}, ', 11, "ends too early"),
        (b'[{"a": 1}, {"b": "\xff\xfe"}]', 18, "not UTF-8"),
        ('[{"é": 1}, {"b" 2}]'.encode(), 17, "Expecting ':'"),
    ],
)
@pytest.mark.parametrize("chunk", [3, 1000])
def test_a_fault_is_told_with_its_place(content: bytes, near: int, what: str, chunk: int) -> None:
    with pytest.raises(DatasetError) as caught:
        read(content, chunk)
    assert f"near byte {near}:" in str(caught.value)
    assert what in str(caught.value)


def test_deep_nesting_is_told() -> None:
    with pytest.raises(DatasetError, match="nested too deeply"):
        read(b"[" * 200_000, 1 << 20)


def test_a_number_of_endless_digits_is_told() -> None:
    with pytest.raises(DatasetError, match="digits"):
        read(b"[" + b"9" * 5000 + b"]", 1 << 20)


def test_an_element_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "LONGEST_ELEMENT", 1000)
    source = io.BytesIO(b'[{"a": "' + b"x" * 100_000)
    with pytest.raises(DatasetError, match="Unterminated string"):
        list(JsonStream(source, PATH, 64))
    assert source.tell() < 5000


def test_a_damaged_element_is_told_at_once() -> None:
    source = io.BytesIO(b'[{"a" 1}, ' + b'{"a": 1}, ' * 10_000)
    with pytest.raises(DatasetError, match="near byte 6:"):
        list(JsonStream(source, PATH, 64))
    assert source.tell() < 500
