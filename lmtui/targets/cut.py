"""What the log says of requests that were cut."""

from __future__ import annotations

from lmtui.metrics.sessions import Outcome

_ERRORS = {
    Outcome.ABORTED: "cut by the end of the run",
    Outcome.TIMEOUT: "not finished within its time limit",
}


def cut_error(outcome: Outcome) -> str:
    """Return the error text of a request that was cut as `outcome`: "" for a planned cancel, which is no error."""
    return _ERRORS.get(outcome, "")
