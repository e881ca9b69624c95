"""The end of a run: its summary is written and its row appended, once, whoever does it."""

from __future__ import annotations

import msgspec

from lmtui.errors import LmtuiError
from lmtui.metrics.result import Result
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.metrics.summary import summarise
from lmtui.results import history
from lmtui.results.lock import locked
from lmtui.runner import recorded
from lmtui.runner.rundir import RunDirectory, Status


def conclude(run: RunDirectory, status: Status, phase: str) -> Result:
    """Summarise what a run recorded, unless that was done before, and see to it that the history has its row.

    A history that does not take the row is told by a note of the result: what was measured is kept all the same.

    Args:
        run: The run.
        status: Its last status: what answered, notes, environment.
        phase: How it ended.

    Raises:
        LmtuiError: Its config cannot be read, or its folder takes nothing.
        OSError: The summary cannot be written.
    """
    run.free_reserve()
    with locked(run.summary_path):
        result = run.result()
        if result is None:
            result = figures(run, status, phase)
            run.write_result(result)
        try:
            notes = history.append(run.history_path, result)
        except LmtuiError as error:
            notes = (f"This run has no row in the history: {error}",)
        if new := tuple(note for note in notes if note not in result.notes):
            result = msgspec.structs.replace(result, notes=(*result.notes, *new))
            run.write_result(result)
        return result


def rebuilt(run: RunDirectory, status: Status) -> Result:
    """Return the result of a run that ended and has no readable summary, and keep it where its folder takes it.

    Raises:
        LmtuiError: Its config cannot be read.
    """
    note = "No readable summary was there: the figures were computed again from the tick log."
    status = msgspec.structs.replace(status, notes=(*status.notes, note))
    try:
        return conclude(run, status, status.phase)
    except (LmtuiError, OSError):  # a folder that takes nothing can be read all the same
        return figures(run, status, status.phase)


def figures(run: RunDirectory, status: Status, phase: str) -> Result:
    """Return the result of what a run recorded; nothing is written. See `conclude`."""
    found = recorded.read(run.path, status.counts.planned)
    return summarise(
        run.config(),
        found.sessions,
        found.samples,
        found.errors,
        run_id=run.run_id,
        phase=phase,
        started_at=status.started_at,
        target=status.target,
        notes=(*status.notes, *_encoded_again(found)),
        environment=status.environment,
        simulated=status.simulated,
    )


def _encoded_again(found: recorded.Recorded) -> tuple[str, ...]:
    """Return a sentence that holds the tokens of the ok requests' texts against those that the server counted."""
    if not found.text_tokens:
        return ()
    sessions = found.sessions
    both = [
        (found.text_tokens[index], tokens)
        for index, outcome, source, tokens in zip(
            sessions.index.tolist(),
            sessions.outcome.tolist(),
            sessions.token_source.tolist(),
            sessions.output_tokens.tolist(),
            strict=True,
        )
        if outcome == Outcome.OK and source == TokenSource.USAGE and index in found.text_tokens
    ]
    if not both:
        return ()
    texts, counted = (sum(column) for column in zip(*both, strict=True))
    return (
        f"The texts of {len(both)} ok requests have {texts} tokens when encoded again; the server counted {counted}.",
    )
