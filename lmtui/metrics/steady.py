"""The steady window: from when the in-flight count first reaches its plateau to when it first leaves it."""

from __future__ import annotations

import numpy as np

from lmtui.metrics.distribution import of_ns
from lmtui.metrics.flight import InFlight, Span, ends
from lmtui.metrics.requests import Requests
from lmtui.metrics.result import Steady
from lmtui.metrics.sessions import Sessions

STILL_RISING = 1.25
"""An open load whose in-flight count grew by more than this from the third to the fourth quarter has no plateau."""


def window(sessions: Sessions, requests: Requests, flight: InFlight, *, closed_load: bool) -> Span | None:
    """Return the steady window; None when the load never settled.

    The plateau of a closed load is the most that it had in flight; it leaves it with the first end after the last
    send, when no request takes the freed slot (the moment between an end and the next send is not leaving). The
    plateau of an open load is the median of its in-flight count while requests arrive; it leaves it with the last
    arrival. A count that still rises at the end has no plateau: the target cannot keep up.
    """
    sent_ns = sessions.sent_ns[requests.sent]
    first_sent, last_sent = int(sent_ns.min()), int(sent_ns.max())
    if closed_load:
        level = float(flight.peak)
        over = ends(sessions, requests)[requests.sent]
        after = over[over > last_sent]
        leaves = int(after.min()) if len(after) else last_sent
    else:
        if last_sent == first_sent or _is_rising(flight, first_sent, last_sent):
            return None
        level = _median(flight, first_sent, last_sent)
        leaves = last_sent
    reached = int(flight.at_ns[np.argmax(flight.count >= level)])
    return Span(reached, leaves) if leaves > reached else None


def _is_rising(flight: InFlight, start_ns: int, end_ns: int) -> bool:
    quarter = (end_ns - start_ns) / 4
    third = flight.mean(end_ns - 2 * quarter, end_ns - quarter)
    return flight.mean(end_ns - quarter, end_ns) > STILL_RISING * third + 1


def _median(flight: InFlight, start_ns: int, end_ns: int) -> float:
    """Return the count that in-flight was at or under for half of the time."""
    lengths = np.diff(np.clip(flight.at_ns, start_ns, end_ns), append=end_ns)
    order = np.argsort(flight.count, kind="stable")
    half = np.searchsorted(np.cumsum(lengths[order]), (end_ns - start_ns) / 2)
    return float(flight.count[order][min(int(half), len(order) - 1)])


def steady(sessions: Sessions, requests: Requests, run: Span, held: Span) -> Steady | None:
    """Return the figures of `ok` requests inside the window: sent in it (TTFT), ended in it, ticks in it.

    None when no tick of an `ok` request is in it.
    """

    def inside(times_ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return (times_ns >= held.start_ns) & (times_ns <= held.end_ns)

    ok_tick = requests.ok[requests.owner] & inside(sessions.tick_ns)
    if not ok_tick.any():
        return None
    started = requests.ok & (requests.ticks > 0) & inside(sessions.sent_ns)
    return Steady(
        start_s=(held.start_ns - run.start_ns) / 1e9,
        end_s=(held.end_ns - run.start_ns) / 1e9,
        output_throughput=float(requests.weight[ok_tick].sum()) / held.seconds,
        request_throughput=int((requests.ok & inside(ends(sessions, requests))).sum()) / held.seconds,
        ttft_ms=of_ns((requests.first_ns - sessions.sent_ns)[started]),
        itl_ms=of_ns(requests.gap_ns[ok_tick & requests.is_gap]),
    )
