"""The listing of the history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui.cli import main
from lmtui.results import history, remarks
from tests.results.made_results import result


def test_the_listing_leaves_the_trash_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    kept = tmp_path / "history.csv"
    for run_id in ("a", "b"):
        history.append(kept, result(run_id))
    remarks.change(kept, {"b": remarks.Remark(trashed_at="2026-01-01T00:00:00Z")})
    assert main(["results", "--json"]) == 0
    said = capsys.readouterr()
    assert [row["run_id"] for row in json.loads(said.out)] == ["a"]
    assert "1 in the trash, left out; --trash lists it" in said.err
    assert main(["results", "--trash"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["run", "a", "b"]
    assert said.err == ""
