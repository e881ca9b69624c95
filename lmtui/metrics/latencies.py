"""The latencies of the `ok` requests as samples that know their requests: what a bootstrap resamples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.requests import per_request
from lmtui.metrics.sessions import Sessions


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """m values in milliseconds, and the request that each came from: `owner` (m), any numbers that tell them apart."""

    values_ms: NDArray[np.float64]
    owner: NDArray[np.int64]


def latencies(sessions: Sessions) -> dict[str, Latency]:
    """Return the samples behind `ttft_ms`, `tpot_ms`, `itl_ms` and `e2e_ms` of a result, under these names."""
    requests = per_request(sessions)
    ticked = np.flatnonzero(requests.ok & (requests.ticks > 0))
    timed = np.flatnonzero(requests.ok & ~np.isnan(requests.tpot_ns))
    gaps = requests.ok[requests.owner] & requests.is_gap
    sent_ns = sessions.sent_ns[ticked]
    return {
        "ttft_ms": Latency((requests.first_ns[ticked] - sent_ns) / 1e6, ticked),
        "tpot_ms": Latency(requests.tpot_ns[timed] / 1e6, timed),
        "itl_ms": Latency(requests.gap_ns[gaps] / 1e6, requests.owner[gaps]),
        "e2e_ms": Latency((requests.last_ns[ticked] - sent_ns) / 1e6, ticked),
    }
