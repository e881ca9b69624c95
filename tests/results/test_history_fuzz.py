"""Whatever stands in the file: reading it tells or counts, writing to it loses nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.errors import LmtuiError
from lmtui.results import history
from lmtui.results.csvtext import encode, scan
from tests.results.made_results import result

HEADER = b"run_id,name,phase,started_at,source,x\n"
PIECES = st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"a", b"=", b"\xff", b"1,2,3,4,5,6\n", b'"q\n",2,3,4,5,6\n'])
CELLS = st.lists(st.text(max_size=8), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.lists(PIECES, max_size=20).map(b"".join), st.booleans())
def test_arbitrary_bytes_raise_nothing_but_our_error(folder: Path, content: bytes, with_header: bool) -> None:
    path = folder / "history.csv"
    path.write_bytes((HEADER if with_header else b"") + content)
    with contextlib.suppress(LmtuiError):
        found = history.load(path)
        assert all(len(row) == len(set(found.columns)) for row in found.rows)
    history.has_run(path, "x") if with_header else None


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=120) | st.lists(PIECES, max_size=20).map(b"".join))
def test_an_append_after_arbitrary_bytes_keeps_every_row_and_line(folder: Path, content: bytes) -> None:
    path = folder / "history.csv"
    path.write_bytes(HEADER + content)
    before = history.load(path)
    history.append(path, result("appended"))
    history.append(path, result("and-grown", environment={"gpu": "x"}))
    after = history.load(path)
    kept = [dict(row) for row in before.rows]
    assert [{column: row[column] for column in before.columns} for row in after.rows[: len(kept)]] == kept
    assert [row.text("run_id") for row in after.rows[-2:]] == ["appended", "and-grown"]
    assert len(after.rows) == len(kept) + 2


@given(st.lists(CELLS, min_size=1, max_size=5))
def test_what_is_encoded_is_scanned_back(rows: list[list[str]]) -> None:
    rows = [["head", *cells] for cells in rows]
    records = scan("".join(map(encode, rows)), any_width=True)
    assert [record.cells for record in records] == rows
    assert "".join(record.raw for record in records) == "".join(map(encode, rows))


@given(st.lists(st.text(alphabet='a,"\n', max_size=30), min_size=1, max_size=6))
def test_every_line_with_something_in_it_is_in_some_record(lines: list[str]) -> None:
    text = "\n".join(lines)
    raws = "".join(record.raw for record in scan(text))
    assert [line for line in raws.split("\n") if line.strip()] == [line for line in text.split("\n") if line.strip()]
