"""What is kept of a run, found by name: in the runs folder, else in the history; never a guess between several."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtui import paths
from lmtui.errors import LmtuiError, RunNotFoundError
from lmtui.results import history
from lmtui.runner import kept, runs
from lmtui.runner.rundir import RunDirectory
from tests.metrics.made_sessions import config
from tests.results.made_results import result


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))


def test_a_run_that_has_not_ended_has_no_result() -> None:
    run = RunDirectory.create(config())
    for name in (run.run_id, run.run_id[:12], "last"):
        with pytest.raises(RunNotFoundError, match=f"{run.run_id} has no result yet: it is queued"):
            kept.to_compare(name)


def test_a_run_has_its_requests_only_with_its_tick_log() -> None:
    run = RunDirectory.create(config())
    run.write_result(result(run.run_id))
    found = kept.to_compare("last")
    assert found.row.text("run_id") == run.run_id
    assert found.sessions is None
    assert kept.record(run) is None
    run.ticks_path(0).write_bytes(b"")
    held = kept.record(run)
    assert held is not None
    assert len(held.sessions.index) == 0
    assert kept.to_compare(run.run_id).sessions is not None


def test_a_row_of_the_history_stands_for_a_run_that_is_gone() -> None:
    for run_id in ("20260101T000000Z-a-111111", "20260101T000000Z-b-222222", "import-33"):
        history.append(paths.history(), result(run_id))
    assert kept.to_compare("20260101T000000Z-b").row.text("run_id") == "20260101T000000Z-b-222222"
    assert kept.to_compare("import-33").sessions is None
    for name in ("20260101T000000Z", "import-4", "last"):
        with pytest.raises(RunNotFoundError, match=name):
            kept.to_compare(name)


def test_an_exact_name_wins_and_the_runs_folder_before_the_history() -> None:
    run = RunDirectory.create(config())
    run.write_result(result(run.run_id))
    history.append(paths.history(), result(run.run_id + "7"))
    assert kept.to_compare(run.run_id).row.text("run_id") == run.run_id
    assert kept.to_compare(run.run_id + "7").row.text("run_id") == run.run_id + "7"
    other = RunDirectory.create(config())
    with pytest.raises(LmtuiError, match="2 runs begin with 20"):
        kept.to_compare("20")
    assert runs.find(other.run_id).path == other.path
