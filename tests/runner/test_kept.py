"""What is kept of a run, found by name: in the runs folder, else in the history; never a guess between several."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtui import paths
from lmtui.errors import LmtuiError, RunNotFoundError
from lmtui.results import history
from lmtui.runner import kept, runs
from lmtui.runner.conclude import conclude
from lmtui.runner.rundir import Counts, RunDirectory
from lmtui.runner.ticklog import Kind, encode
from tests.metrics.made_sessions import config
from tests.results.made_results import result
from tests.runner.harness import status


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


@pytest.mark.parametrize("spoil", ["missing", "damaged", "of another version"])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_summary_that_is_gone_is_made_again_from_the_ticks(
    spoil: str, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, phase="done", counts=Counts(planned=2), exit_code=0))
    log = encode(Kind.SENT, [(0, 10**6, 10**6, 5, 1, 0)]) + encode(Kind.TICKS, [(0, 2 * 10**6, 1)])
    run.ticks_path(0).write_bytes(log + encode(Kind.END, [(0, 2 * 10**6, 0, 1, 1, -1, -1, -1, -1, -1)]))
    before = kept.result(run)
    run.summary_path.unlink()
    if spoil != "missing":
        run.summary_path.write_text("{" if spoil == "damaged" else '{"run_id": 7}')
    if is_full:

        def full(path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("lmtui.runner.rundir.write_whole", full)
    again = kept.result(run)
    assert (again.outcomes["ok"], again.outcomes["dropped"], again.phase) == (1, 1, "done")
    assert again.metrics == before.metrics
    assert any("computed again from the tick log" in note for note in again.notes)
    assert (run.result() is None) == is_full
    assert [row.text("run_id") for row in history.read(paths.history())] == [run.run_id]


def test_a_run_that_never_sent_has_no_figures_to_make_again() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, phase="failed", message="no engine here"))
    with pytest.raises(RunNotFoundError, match="failed no engine here"):
        kept.result(run)


def test_a_history_that_takes_no_row_is_a_note() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run))
    paths.history().mkdir()
    found = conclude(run, status(run), "done")
    assert found.phase == "done"
    assert (
        sum(
            "no row in the history: " in note and "history.csv: the history cannot be read: Is a directory" in note
            for note in found.notes
        )
        == 1
    )
    assert conclude(run, status(run), "done") == found == run.result()


def test_a_history_of_something_else_is_set_aside_and_the_result_says_where() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run))
    paths.history().write_text("date;temperature\n")
    found = conclude(run, status(run), "done")
    (note,) = [one for one in found.notes if "was not a history of lmtui" in one]
    (aside,) = paths.history().parent.glob("history-foreign-*.csv")
    assert aside.name in note
    assert conclude(run, status(run), "done") == found == run.result()
    assert [row.text("run_id") for row in history.read(paths.history())] == [run.run_id]
