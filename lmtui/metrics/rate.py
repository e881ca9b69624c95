"""Lateness of the client: when each request could have gone, when it went, and the rates that follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.flight import ends
from lmtui.metrics.requests import Requests
from lmtui.metrics.sessions import UNKNOWN, Sessions


def ready_ns(sessions: Sessions, requests: Requests, max_in_flight: int | None) -> NDArray[np.int64]:
    """Return when each request (n) could have gone: when due and, under a cap, once a place was free.

    Waiting for a place is the load's doing, not the client's. Places are given in the order of sending: the k-th
    request goes once k - cap + 1 others have ended. UNKNOWN for requests that were not sent or have no due time.
    """
    ready: NDArray[np.int64] = np.where(requests.sent, sessions.due_ns, UNKNOWN)
    rows = np.flatnonzero(ready != UNKNOWN)
    if max_in_flight is None or len(rows) <= max_in_flight:
        return ready
    in_order = rows[np.argsort(sessions.sent_ns[rows], kind="stable")]
    freed = np.sort(ends(sessions, requests)[rows])[: len(rows) - max_in_flight]
    capped = in_order[max_in_flight:]
    ready[capped] = np.maximum(ready[capped], np.minimum(freed, sessions.sent_ns[capped]))
    return ready


def send_lag_ns(sessions: Sessions, ready: NDArray[np.int64], *, closed_load: bool) -> NDArray[np.int64]:
    """Return how late the client sent each request that was sent.

    A closed load fills all its places at the release, one after another: that burst is the load's shape, not the
    client's lateness, and is left out.
    """
    known = ready != UNKNOWN
    if closed_load:
        known &= ready > sessions.start_ns
    lag: NDArray[np.int64] = np.maximum(sessions.sent_ns[known] - ready[known], 0)
    return lag


def rate_of(times_ns: NDArray[np.int64]) -> float | None:
    """Return events per second between the first and the last; None for fewer than two or no time between them."""
    if len(times_ns) < 2:
        return None
    length = int(times_ns.max() - times_ns.min())
    return (len(times_ns) - 1) / (length / 1e9) if length else None
