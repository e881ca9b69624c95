"""The latencies of the `ok` requests as samples that know their requests: what a bootstrap resamples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.requests import per_request
from lmtui.metrics.sessions import UNKNOWN, Sessions


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """m values in milliseconds, and the request that each came from: `owner` (m), any numbers that tell them apart."""

    values_ms: NDArray[np.float64]
    owner: NDArray[np.int64]


def latencies(sessions: Sessions, *, closed_load: bool) -> dict[str, Latency]:
    """Return the samples behind a result's latencies, under their names there: `ttft_ms`, `cancel.survivors.itl_ms`.

    Those from `due` are there for an open load, those of survivors when the plan picked requests to cancel.
    """
    requests = per_request(sessions)
    ticked = requests.ok & (requests.ticks > 0)
    gaps = requests.ok[requests.owner] & requests.is_gap
    apart = gaps & requests.is_counted[requests.owner] & (requests.step > 0)
    first_ns, last_ns = requests.first_ns, requests.last_ns
    of_all = {
        "ttft_ms": _of_requests(first_ns - sessions.sent_ns, ticked),
        "tpot_ms": _of_requests(requests.tpot_ns, requests.ok & ~np.isnan(requests.tpot_ns)),
        "itl_ms": Latency(requests.gap_ns[gaps] / 1e6, requests.owner[gaps]),
        "e2e_ms": _of_requests(last_ns - sessions.sent_ns, ticked),
    }
    found = {
        **of_all,
        "token_gap_ms": Latency(requests.gap_ns[apart] / requests.step[apart] / 1e6, requests.owner[apart]),
    }
    if not closed_load:
        due = ticked & (sessions.due_ns != UNKNOWN)
        found["queue_ms"] = _of_requests(sessions.sent_ns - sessions.due_ns, due)
        found["ttft_from_due_ms"] = _of_requests(first_ns - sessions.due_ns, due)
        found["e2e_from_due_ms"] = _of_requests(last_ns - sessions.due_ns, due)
    if sessions.cancel_planned.any():
        for name, latency in of_all.items():
            survives = ~sessions.cancel_planned[latency.owner]
            found[f"cancel.survivors.{name}"] = Latency(latency.values_ms[survives], latency.owner[survives])
    return found


def _of_requests(values_ns: NDArray[np.int64] | NDArray[np.float64], chosen: NDArray[np.bool_]) -> Latency:
    rows = np.flatnonzero(chosen)
    return Latency(values_ns[rows] / 1e6, rows)
