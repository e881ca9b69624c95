"""What a run comes to: its final phase, one line about it, and the exit code."""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.errors import BUG, INTERRUPTED, NO_RESULT, USAGE, LmtuiError
from lmtui.metrics.sessions import Outcome

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.metrics.result import Result
    from lmtui.runner.load import Control


class Stopped(Exception):  # noqa: N818 - it is no error
    """The run was told to stop before anything was sent."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    phase: str
    message: str
    exit_code: int

    def and_incomplete(self, problem: str) -> Verdict:
        """Return the verdict of a run whose tick log could not be written to its end because of `problem` ("": it was).

        The figures are those of a part then, so the run is no success.
        """
        if not problem:
            return self
        message = f"only a part of what was measured is kept: {problem.partition(';')[0]}. Make room and run it again"
        message = "; ".join(line for line in (self.message, message) if line)
        return Verdict("failed" if self.phase == "done" else self.phase, message, self.exit_code or USAGE)

    def and_not_kept(self, why: Verdict) -> Verdict:
        """Return the verdict of a run whose summary or row could not be written."""
        message = "; ".join(line for line in (self.message, f"its summary could not be kept: {why.message}") if line)
        return Verdict("failed", message, self.exit_code or why.exit_code)


def of_error(error: BaseException, log: Path) -> Verdict:
    """Return the verdict of a run that an error ended; a bug's traceback goes to the log (stderr)."""
    if isinstance(error, Stopped):
        return Verdict("stopped", "before the first request", INTERRUPTED)
    if isinstance(error, LmtuiError):
        return Verdict("failed", str(error), error.exit_code)
    with contextlib.suppress(OSError):  # a full disk must not take the verdict too
        traceback.print_exception(error)
    return Verdict("failed", f"a bug: {type(error).__name__}: {error}; traceback in {log}", BUG)


def of_load(control: Control, last_error: str, config: Config, log: Path) -> Verdict:
    """Return the verdict of a load that has ended, before its figures are known."""
    from lmtui.runner.load import EndedBy

    if control.error is not None:
        return of_error(control.error, log)
    if control.ended_by is EndedBy.STOP:
        return Verdict("stopped", "aborted" if control.is_aborting else "", INTERRUPTED)
    if control.ended_by is EndedBy.ERRORS:
        limit = config.limits.max_errors
        return Verdict(
            "failed", f"more requests failed than limits.max_errors = {limit} allows, the last: {last_error}", NO_RESULT
        )
    return Verdict("done", "", 0)


def of_result(verdict: Verdict, result: Result, config: Config) -> Verdict:
    """Return the verdict with what the figures say: no `ok` request, or too many that failed, is no success."""
    if verdict.phase != "done":
        return verdict
    cause = f": {result.errors[0].message}" if result.errors else ""
    if not result.outcomes[Outcome.OK.label]:
        return replace(verdict, message=f"no request was ok{cause}", exit_code=NO_RESULT)
    failed = sum(result.outcomes[outcome.label] for outcome in Outcome if outcome.is_failure)
    ended = failed + result.outcomes[Outcome.OK.label] + result.outcomes[Outcome.CANCELLED.label]
    if failed > config.limits.max_error_rate * ended:
        limit = f"limits.max_error_rate = {config.limits.max_error_rate:g}"
        message = f"{failed} of {ended} requests failed, more than {limit} allows{cause}"
        return replace(verdict, message=message, exit_code=NO_RESULT)
    return verdict
