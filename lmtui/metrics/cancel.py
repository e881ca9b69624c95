"""The cancel experiment: what was cut, how long the target took to let go, what was made for nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lmtui.metrics.distribution import distribution, of_ns
from lmtui.metrics.latencies import has_cancel
from lmtui.metrics.requests import Requests
from lmtui.metrics.result import Cancel, Distribution, Survivors
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions


def cancel(sessions: Sessions, requests: Requests, figures: Mapping[str, Distribution]) -> Cancel | None:
    """Return the figures of a run that cancels requests; None when its plan picked none.

    Wasted are all tokens made for requests that were then cancelled: those that came before the cut, and those after
    it where the target says. Their share is of all tokens made. `figures` has the survivors' latencies, under their
    names in a result.
    """
    planned = sessions.cancel_planned
    done = sessions.outcome == Outcome.CANCELLED
    if not has_cancel(sessions):
        return None
    after = sessions.wasted_tokens[done & (sessions.wasted_tokens != UNKNOWN)]
    late = int(after.sum()) if len(after) else None
    wasted = int(requests.total[done].sum()) + (late or 0)
    made = int(requests.total.sum()) + (late or 0)
    return Cancel(
        planned=int(planned.sum()),
        done=int(done.sum()),
        missed=int((planned & requests.ok).sum()),
        tokens_at_cancel=distribution(requests.total[done].astype(np.float64)),
        let_go_ms=of_ns(sessions.let_go_ns[done & (sessions.let_go_ns != UNKNOWN)]),
        wasted_tokens=wasted,
        wasted_share=wasted / made if made else None,
        tokens_after_cut=late,
        survivors=Survivors(
            n=int((requests.ok & ~planned).sum()),
            ttft_ms=figures["cancel.survivors.ttft_ms"],
            tpot_ms=figures["cancel.survivors.tpot_ms"],
            itl_ms=figures["cancel.survivors.itl_ms"],
            e2e_ms=figures["cancel.survivors.e2e_ms"],
        ),
    )
