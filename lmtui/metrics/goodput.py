"""Goodput: requests that meet every objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.flight import Span
from lmtui.metrics.requests import Requests
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions


@dataclass(frozen=True, slots=True)
class Objectives:
    """Limits in milliseconds; None: not an objective. `itl_ms` holds for every gap of a request."""

    ttft_ms: float | None
    tpot_ms: float | None
    itl_ms: float | None
    e2e_ms: float | None

    @property
    def any(self) -> bool:
        """Whether there is an objective at all."""
        return any(limit is not None for limit in (self.ttft_ms, self.tpot_ms, self.itl_ms, self.e2e_ms))


def meets(sessions: Sessions, requests: Requests, objectives: Objectives) -> NDArray[np.bool_]:
    """Return which requests (n) are `ok` and meet every objective.

    A request without a gap or without a TPOT (all its output in one tick) meets the objective on it: nothing was late.
    """
    met = requests.ok & (requests.ticks > 0)
    if objectives.ttft_ms is not None:
        met &= (requests.first_ns - sessions.sent_ns) / 1e6 <= objectives.ttft_ms
    if objectives.e2e_ms is not None:
        met &= (requests.last_ns - sessions.sent_ns) / 1e6 <= objectives.e2e_ms
    if objectives.tpot_ms is not None:
        met &= ~(requests.tpot_ns / 1e6 > objectives.tpot_ms)
    if objectives.itl_ms is not None:
        late = requests.is_gap & (requests.gap_ns / 1e6 > objectives.itl_ms)
        met[requests.owner[late]] = False
    return met


def goodput(
    sessions: Sessions, requests: Requests, objectives: Objectives, run: Span
) -> tuple[float, float | None] | None:
    """Return good requests per second, and their share of all that were due; None without an objective.

    Due are the requests whose time came before the run was over: failures and those cut or dropped by the run's end
    count as missed, those that the plan cancelled are left out, and those that a stopped run never came to as well.
    """
    if not objectives.any:
        return None
    met = meets(sessions, requests, objectives)
    was_due = (sessions.due_ns != UNKNOWN) & (sessions.due_ns <= run.end_ns)
    counted = (requests.sent | was_due) & (sessions.outcome != Outcome.CANCELLED)
    due = int(counted.sum())
    return int(met.sum()) / run.seconds, int(met.sum()) / due if due else None
