"""The latencies of the `ok` requests as samples that know their requests: what figures and bootstraps are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.requests import Requests, per_request
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """m values in milliseconds, and the request that each came from: `owner` (m), any numbers that tell them apart."""

    values_ms: NDArray[np.float64]
    owner: NDArray[np.int64]


def latencies(sessions: Sessions, *, closed_load: bool) -> dict[str, Latency]:
    """Return the samples behind a result's latencies, under their names there: `ttft_ms`, `cancel.survivors.itl_ms`.

    Those from `due` are there for an open load, those of survivors when requests were picked or cancelled.
    """
    return dict(each_latency(sessions, per_request(sessions), closed_load=closed_load))


def each_latency(sessions: Sessions, requests: Requests, *, closed_load: bool) -> Iterator[tuple[str, Latency]]:
    """Yield what `latencies` returns one by one: the gaps of a large run are large."""
    has_cancels = has_cancel(sessions)
    for name, latency in _of_all(sessions, requests):
        yield name, latency
        if has_cancels:
            survives = ~sessions.cancel_planned[latency.owner]
            yield f"cancel.survivors.{name}", Latency(latency.values_ms[survives], latency.owner[survives])
    gaps = requests.ok[requests.owner] & requests.is_gap
    apart = gaps & requests.is_counted[requests.owner] & (requests.step > 0)
    yield "token_gap_ms", Latency(requests.gap_ns[apart] / requests.step[apart] / 1e6, requests.owner[apart])
    if not closed_load:
        due = requests.ok & (requests.ticks > 0) & (sessions.due_ns != UNKNOWN)
        yield "queue_ms", _of_requests(sessions.sent_ns - sessions.due_ns, due)
        yield "ttft_from_due_ms", _of_requests(requests.first_ns - sessions.due_ns, due)
        yield "e2e_from_due_ms", _of_requests(requests.last_ns - sessions.due_ns, due)


def has_cancel(sessions: Sessions) -> bool:
    """Return whether the plan picked a request to be cancelled, or one was."""
    return bool(sessions.cancel_planned.any() or (sessions.outcome == Outcome.CANCELLED).any())


def _of_all(sessions: Sessions, requests: Requests) -> Iterator[tuple[str, Latency]]:
    ticked = requests.ok & (requests.ticks > 0)
    gaps = requests.ok[requests.owner] & requests.is_gap
    yield "ttft_ms", _of_requests(requests.first_ns - sessions.sent_ns, ticked)
    yield "tpot_ms", _of_requests(requests.tpot_ns, requests.ok & ~np.isnan(requests.tpot_ns))
    yield "itl_ms", Latency(requests.gap_ns[gaps] / 1e6, requests.owner[gaps])
    yield "e2e_ms", _of_requests(requests.last_ns - sessions.sent_ns, ticked)


def _of_requests(values_ns: NDArray[np.int64] | NDArray[np.float64], chosen: NDArray[np.bool_]) -> Latency:
    rows = np.flatnonzero(chosen)
    return Latency(values_ns[rows] / 1e6, rows)
