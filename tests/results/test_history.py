"""One row per finished point: columns by name, appended whole, grown without a loss."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from lmtui.errors import LmtuiError
from lmtui.results import history
from tests.results.made_results import result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.csv"


def ids(path: Path) -> list[str]:
    return [row.text("run_id") for row in history.read(path)]


def test_a_row_has_identity_config_figures_outcomes_and_grade_under_their_paths(path: Path) -> None:
    given = result(
        target={"kind": "simulated", "model": "tiny", "versions": {"lmtui": "1"}}, environment={"gpu": ["H200"]}
    )
    history.append(path, given)
    (row,) = history.read(path)
    assert row.text("run_id") == given.run_id
    assert (row.text("phase"), row.text("source"), row.text("grade")) == ("done", "lmtui", "suspect")
    assert row.number("load.concurrency") == 64
    assert row.number("load.rate") == math.inf
    assert row.text("target.model") == "tiny"
    assert row.text("target.versions.lmtui") == "1"
    assert row.text("environment.gpu") == '["H200"]'
    assert row.number("ttft_ms.p99") == given.metrics.ttft_ms.p99
    assert row.number("output_throughput") == given.metrics.output_throughput
    assert (row.count("outcomes.ok"), row.count("outcomes.timeout"), row.count("outcomes.short")) == (2, 1, 0)
    assert row.flag("simulated") is True
    assert row.text("reasons") == "; ".join(given.client.reasons)
    assert '"count":1' in row.text("errors")
    assert row.text("client.clock") == "user"


def test_missing_is_an_empty_cell_under_a_column_that_stays(path: Path) -> None:
    history.append(path, result())
    (row,) = history.read(path)
    for column in ("queue_ms.mean", "goodput", "cancel.planned", "cancel.survivors.ttft_ms.p50", "connect_ms.p99"):
        assert row[column] == ""
        assert row.number(column) is None
    assert row.text("no.such.column") == ""
    assert row.number("no.such.column") is None
    assert "no.such.column" not in row


def test_numbers_come_back_exactly(path: Path) -> None:
    given = result()
    history.append(path, given)
    (row,) = history.read(path)
    assert row.number("tpot_ms.mean") == given.metrics.tpot_ms.mean
    assert row.number("duration_s") == given.metrics.duration_s


def test_every_config_key_is_a_column(path: Path) -> None:
    history.append(path, result())
    columns = history.load(path).columns
    assert len(columns) == len(set(columns))
    for key in (
        "schema",
        "name",
        "seed",
        "target.kind",
        "dataset.input_len",
        "limits.grace_s",
        "sweep.over",
        "cancel.rate",
    ):
        assert key in columns


@pytest.mark.parametrize(
    "name",
    ['a,"b"', "two\nlines", "cr\rlf\r\n", "nul\0", "=1+1", "+x", "@cmd", " spaced ", "ünï 漢字", "'", '"', ""],
)
def test_names_come_back_exactly(path: Path, name: str) -> None:
    history.append(path, result("one", name=name))
    history.append(path, result("two", name=name))
    assert [row.text("name") for row in history.read(path)] == [name, name]
    assert history.load(path).bad == ()


def test_the_file_is_plain_csv_for_other_readers(path: Path) -> None:
    history.append(path, result("one", name='x,"y"\nz'))
    history.append(path, result("two"))
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert [row["name"] for row in rows] == ['x,"y"\nz', "t"]


def test_no_file_is_no_rows(path: Path) -> None:
    assert history.read(path) == []
    assert not history.has_run(path, "x")


def test_a_run_gets_its_row_once(path: Path) -> None:
    for run_id in ("a", "a", "b", "a"):
        assert history.append(path, result(run_id)) == ()
    assert ids(path) == ["a", "b"]
    assert history.has_run(path, "a")
    assert not history.has_run(path, "c")


def test_new_columns_grow_the_header_and_old_rows_get_empty_cells(path: Path) -> None:
    history.append(path, result("old"))
    before = path.read_text().splitlines()[1]
    path.chmod(0o640)
    history.append(path, result("new", environment={"gpu": "H200"}))
    history.append(path, result("other", environment={"host": "a"}))
    old, new, other = history.read(path)
    assert (old["environment.gpu"], new["environment.gpu"], other["environment.gpu"]) == ("", "H200", "")
    assert other["environment.host"] == "a"
    assert path.read_text().splitlines()[1] == before + ",,"
    assert path.stat().st_mode & 0o777 == 0o640
    assert not [entry for entry in path.parent.iterdir() if entry.suffix == ".new"]


def test_a_newer_versions_columns_are_kept_and_left_empty(path: Path) -> None:
    path.write_text("later,run_id,name,phase,started_at,source\nx,a,n,done,2026,lmtui\n")
    history.append(path, result("b"))
    old, new = history.read(path)
    assert (old["later"], old["run_id"], old.number("ttft_ms.p50")) == ("x", "a", None)
    assert (new["later"], new["run_id"]) == ("", "b")


@pytest.mark.parametrize(
    ("tail", "bad"),
    [("torn,half a ro", 1), ('torn,"an open quote', 1), ('torn,"x""', 1), ('torn,"first line\nsecond', 2)],
)
def test_a_torn_last_line_costs_only_itself(path: Path, tail: str, bad: int) -> None:
    history.append(path, result("a"))
    with path.open("a") as file:
        file.write(tail)
    assert ids(path) == ["a"]
    assert len(history.load(path).bad) == bad
    history.append(path, result("b"))
    history.append(path, result("c", environment={"new": 1}))
    found = history.load(path)
    assert [row.text("run_id") for row in found.rows] == ["a", "b", "c"]
    assert found.bad[0].line == 3
    assert found.bad[0].text.startswith(tail.splitlines()[0])
    with path.open(encoding="utf-8", newline="") as file:
        assert [row[1] for row in csv.reader(file)][-1] == "t"  # another reader too finds the row after it


def test_a_row_that_only_lacks_its_line_end_is_a_row(path: Path) -> None:
    history.append(path, result("a", name="two\nlines"))
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert ids(path) == ["a"]
    history.append(path, result("b"))
    assert ids(path) == ["a", "b"]
    assert history.load(path).bad == ()


def test_a_line_torn_inside_a_quoted_line_end_does_not_swallow_the_next_row(path: Path) -> None:
    history.append(path, result("a"))
    with path.open("a") as file:
        file.write('torn,"first line\n')
    history.append(path, result("b", name="with, comma"))
    assert ids(path) == ["a", "b"]


def test_a_torn_header_loses_nothing(path: Path) -> None:
    history.append(path, result("a"))
    path.write_bytes(path.read_bytes()[:60])
    history.append(path, result("b"))
    assert ids(path) == ["b"]


@pytest.mark.parametrize(
    "content",
    [
        b"date,result\n2026,42\n",
        b"\xff\xfer\x00u\x00n\x00",
        b"run_id;name;phase\n",
        b"\0\0\0",
        b'"open',
        b"run_id\rname\r",
    ],
)
def test_a_foreign_file_is_set_aside_whole(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LmtuiError, match="not a history of lmtui"):
        history.read(path)
    (note,) = history.append(path, result("a"))
    assert ids(path) == ["a"]
    (aside,) = path.parent.glob("history-foreign-*.csv")
    assert aside.read_bytes() == content
    assert aside.name in note
    path.write_bytes(content)
    assert len(history.append(path, result("b"))) == 1
    assert len(list(path.parent.glob("history-foreign-*.csv"))) == 2


def test_an_empty_file_is_begun(path: Path) -> None:
    path.touch()
    assert history.read(path) == []
    assert history.append(path, result("a")) == ()
    assert ids(path) == ["a"]


def test_a_file_that_a_spreadsheet_saved_is_still_ours(path: Path) -> None:
    history.append(path, result("a"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert ids(path) == ["a"]
    history.append(path, result("b"))
    history.append(path, result("c", environment={"gpu": "x"}))
    assert ids(path) == ["a", "b", "c"]


def test_a_linked_history_is_grown_where_it_is(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "shared.csv"
    real.parent.mkdir()
    history.append(real, result("a"))
    path.symlink_to(real)
    history.append(path, result("b", environment={"gpu": "x"}))
    assert path.is_symlink()
    assert ids(real) == ["a", "b"]


def test_bytes_that_are_no_text_survive_the_growing_of_the_header(path: Path) -> None:
    history.append(path, result("a", name="NAME"))
    path.write_bytes(path.read_bytes().replace(b"NAME", b"\xff\xfe"))
    history.append(path, result("b", environment={"gpu": "x"}))
    assert b"\xff\xfe" in path.read_bytes()
    assert history.read(path)[0].text("name") == "\ufffd\ufffd"


def test_a_folder_in_its_place_is_said(path: Path) -> None:
    path.mkdir()
    with pytest.raises(LmtuiError, match="cannot be read"):
        history.read(path)
    with pytest.raises(LmtuiError, match="cannot be read"):
        history.append(path, result())


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LmtuiError, match="cannot be made"):
        history.append(tmp_path / "missing" / "history.csv", result())


def test_a_row_is_a_mapping(path: Path) -> None:
    history.append(path, result("a"))
    (row,) = history.read(path)
    assert dict(row)["run_id"] == "a"
    assert len(row) == len(history.load(path).columns)
    assert repr(row) == "Row(a)"
    assert row.count("duration_s") is None
    assert row.flag("run_id") is None
    assert row.get("nothing") is None
