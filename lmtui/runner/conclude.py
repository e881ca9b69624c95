"""The end of a run: its summary is written and its row appended, once, whoever does it."""

from __future__ import annotations

from lmtui.metrics.result import Result
from lmtui.metrics.summary import summarise
from lmtui.results import history
from lmtui.results.lock import locked
from lmtui.runner import recorded
from lmtui.runner.rundir import RunDirectory, Status


def conclude(run: RunDirectory, status: Status, phase: str) -> Result:
    """Summarise what a run recorded, unless that was done before, and see to it that the history has its row.

    Args:
        run: The run.
        status: Its last status: what answered, notes, environment.
        phase: How it ended.

    Raises:
        LmtuiError: Its config cannot be read, or the row cannot be written.
        OSError: The summary cannot be written.
    """
    with locked(run.summary_path):
        result = run.result()
        if result is None:
            found = recorded.read(run.path, status.counts.planned)
            result = summarise(
                run.config(),
                found.sessions,
                found.samples,
                found.errors,
                run_id=run.run_id,
                phase=phase,
                started_at=status.started_at,
                target=status.target,
                notes=status.notes,
                environment=status.environment,
                simulated=status.simulated,
            )
            run.write_result(result)
        history.append_once(run.history_path, result)
        return result
