"""Tags, notes and the trash stand beside the history and never change it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.errors import LmtuiError
from lmtui.results.remarks import Remark, applied, change, place, read, tags
from lmtui.results.rows import Row

NAMES = ("run_id", "tags", "notes")


def rows(*cells: tuple[str, str, str]) -> list[Row]:
    return [Row({name: at for at, name in enumerate(NAMES)}, one) for one in cells]


def test_what_is_added_stands_for_the_rows_own_and_the_trash_is_not_shown() -> None:
    held = rows(("a", '["x"]', "old"), ("b", "", ""), ("c", "", "kept"))
    added = {
        "a": Remark(tags=("y", "z"), note=""),
        "b": Remark(trashed_at="2026-01-01T00:00:00Z"),
        "other": Remark(note="of no row"),
    }
    found = applied(held, added)
    assert [row.text("run_id") for row in found] == ["a", "c"]
    assert tags(found[0]) == ("y", "z")
    assert found[0].text("notes") == ""
    assert found[1].text("notes") == "kept"
    assert tags(held[0]) == ("x",), "the row itself is as it was"


def test_changes_add_up_and_nothing_added_is_nothing_kept(tmp_path: Path) -> None:
    history = tmp_path / "history.csv"
    assert read(history) == {}
    change(history, {"a": Remark(note="one"), "b": Remark(tags=("t",))})
    change(history, {"a": Remark(), "c": Remark(trashed_at="now")})
    assert read(history) == {"b": Remark(tags=("t",)), "c": Remark(trashed_at="now")}
    assert not list(tmp_path.glob(".*.new"))
    assert not history.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 1}', '{"schema": 2, "runs": {}}', '{"schema": 1, "runs": {"a": 3}}']
)
def test_a_file_that_cannot_be_understood_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    history = tmp_path / "history.csv"
    place(history).write_text(text)
    with pytest.raises(LmtuiError, match=r"annotations\.json"):
        change(history, {"a": Remark(note="x")})
    assert place(history).read_text() == text


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = tmp_path / "history.csv"
    change(history, {"a": Remark(note="kept")})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LmtuiError, match="No space left"):
        change(history, {"b": Remark(note="x")})
    assert read(history) == {"a": Remark(note="kept")}
    assert not list(tmp_path.glob(".*.new"))


@given(st.dictionaries(st.text(), st.builds(Remark, st.none() | st.lists(st.text()).map(tuple), st.none() | st.text())))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text_comes_back(tmp_path: Path, added: dict[str, Remark]) -> None:
    history = tmp_path / "history.csv"
    place(history).unlink(missing_ok=True)
    change(history, added)
    assert read(history) == {run_id: one for run_id, one in added.items() if one != Remark()}
