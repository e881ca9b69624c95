"""The run's time span, requests in flight over it, and the largest one-second output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.requests import Requests
from lmtui.metrics.sessions import UNKNOWN, Sessions

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """From the first `sent` (or the release of the closed load) to the last `end`, in the clock's nanoseconds."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


def span(sessions: Sessions, requests: Requests, *, closed_load: bool) -> Span | None:
    """Return the time that the run's throughputs are over; None when nothing was sent or no time passed.

    A request without an end (a killed run) counts up to its last tick.
    """
    sent = requests.sent
    if not sent.any():
        return None
    start = int(sessions.sent_ns[sent].min())
    if closed_load and sessions.start_ns:
        start = min(start, sessions.start_ns)
    end = int(np.maximum(ends(sessions, requests)[sent], sessions.sent_ns[sent]).max())
    return Span(start, end) if end > start else None


def ends(sessions: Sessions, requests: Requests) -> NDArray[np.int64]:
    """Return each request's end (n); for those that have none, their last tick (UNKNOWN without one)."""
    return np.where(sessions.end_ns == UNKNOWN, requests.last_ns, sessions.end_ns)


@dataclass(frozen=True, slots=True, eq=False)
class InFlight:
    """Requests in flight as steps: `count[i]` holds from `at_ns[i]` until `at_ns[i + 1]`; the last count is 0."""

    at_ns: NDArray[np.int64]
    count: NDArray[np.int64]

    @property
    def peak(self) -> int:
        """The most at once."""
        return int(self.count.max())

    def mean(self, start_ns: float, end_ns: float) -> float:
        """Return the time-weighted mean between two times, end_ns > start_ns."""
        begins = np.clip(self.at_ns, start_ns, end_ns)
        lengths = np.diff(begins, append=end_ns)
        return float((self.count * lengths).sum() / (end_ns - start_ns))


def in_flight(sessions: Sessions, requests: Requests, end_ns: int) -> InFlight:
    """Return how many requests were between `sent` and `end`; those without an end count until `end_ns`.

    One that ends just when another is sent frees its place first.
    """
    sent_ns = sessions.sent_ns[requests.sent]
    over_ns = np.where(sessions.end_ns == UNKNOWN, end_ns, sessions.end_ns)[requests.sent]
    times = np.concatenate((over_ns, sent_ns))
    change = np.repeat(np.array([-1, 1]), len(sent_ns))
    order = np.argsort(times, kind="stable")
    at_ns, count = times[order], np.cumsum(change[order])
    last_of_time = np.append(at_ns[1:] != at_ns[:-1], True)
    return InFlight(at_ns[last_of_time], count[last_of_time])


def peak_output(sessions: Sessions, requests: Requests, run: Span) -> float:
    """Return the largest output of any one second [t, t + 1 s), in tokens per second.

    Where no second beats the run's mean (one shorter than a second, or whose length cuts a burst off), the mean is
    the largest rate that was held for at least a second or the whole run.
    """
    order = np.argsort(sessions.tick_ns, kind="stable")
    at_ns = sessions.tick_ns[order]
    tokens_before = np.concatenate(([0.0], np.cumsum(requests.weight[order])))
    past = np.searchsorted(at_ns, at_ns + SECOND_NS, side="left")
    seconds = tokens_before[past] - tokens_before[:-1]
    mean = float(requests.total.sum()) / run.seconds
    return max(float(seconds.max(initial=0.0)), mean)
