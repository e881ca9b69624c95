"""What is kept of a run, by the name a person gives it: for comparing, exporting, and showing all its figures."""

from __future__ import annotations

from lmtui import paths
from lmtui.errors import RunNotFoundError
from lmtui.metrics.result import Result
from lmtui.results import history
from lmtui.results.compare import Subject, subject
from lmtui.results.export import Exported
from lmtui.results.rows import Row
from lmtui.runner import recorded, runs
from lmtui.runner.conclude import rebuilt
from lmtui.runner.recorded import Recorded
from lmtui.runner.rundir import RunDirectory


def result(run: RunDirectory) -> Result:
    """Return the result of a run; one whose process is gone, or whose summary is, is summarised first.

    Raises:
        RunNotFoundError: It has none yet, or never will.
    """
    status = runs.current(run)
    found = run.result()
    if found is None and status.is_final and run.has_ticks:
        found = rebuilt(run, status)
    if found is None:
        raise RunNotFoundError(
            f"{run.run_id} has no result yet: it is {status.phase} {status.message}".rstrip()
            + f". Watch it with `lmtui attach {run.run_id}`"
        )
    return found


def record(run: RunDirectory) -> Recorded | None:
    """Return what a run's tick logs hold; None when it has none: they were removed, or it never came to send."""
    return recorded.read(run.path) if run.has_ticks else None


def to_export(name: str) -> Exported:
    """Return the run that `name` means, to be written to a file.

    Raises:
        RunNotFoundError: No run, or more than one, answers to the name, or it has no result yet.
    """
    run = runs.find(name)
    found, held = result(run), record(run)
    return Exported(found, None, {}) if held is None else Exported(found, held.sessions, held.errors)


def to_compare(name: str) -> Subject:
    """Return the run that `name` means: one of this machine, else a row of the history (an imported one has no run).

    Raises:
        RunNotFoundError: Nothing, or more than one, answers to the name.
    """
    is_run = name == "last" or any(run.run_id.startswith(name) for run in runs.all_runs())
    if not is_run and (row := _row(name)) is not None:
        return Subject(row)
    run = runs.find(name)
    held = record(run)
    return subject(result(run), None if held is None else held.sessions)


def _row(name: str) -> Row | None:
    """Return the newest row with that run_id, else the only one whose run_id begins so; None: none, or several."""
    matching = {row.text("run_id"): row for row in history.read(paths.history()) if row.text("run_id").startswith(name)}
    if name in matching:
        return matching[name]
    return next(iter(matching.values())) if len(matching) == 1 else None
