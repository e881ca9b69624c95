"""A share: all that one load worker needs to know of plan and config, small enough to go through a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from lmtui.runner.turns import take_turn
from lmtui.workload.plan import Plan, PlannedRequest

if TYPE_CHECKING:
    from lmtui.config.model import Config


LEAST_CONNECTIONS = 64
MOST_CONNECTIONS = 4096
"""Connections opened ahead of an open load: those of its first second, within these limits."""


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one load worker sends, and how. With one worker it is the whole plan.

    Attributes:
        requests: Its requests, in the order they are sent: those of the plan whose index is `first` modulo `stride`
            (or all, see `turns_fd`).
        warmup: Requests to send before the start, not measured. warmup_pause_s: how long the start waits after them.
        is_closed: Whether a request goes when a slot is free; else each goes when it is due.
        concurrency: Slots of a closed load; also how many warm-up requests go at once.
        max_in_flight: Most requests in flight of an open load; None: no limit.
        duration_s: End sending after this time; None: when all were sent.
        is_cycled: Whether the requests are sent again in turn until then.
        period_s: How long one turn of a cycled schedule takes.
        grace_s: How long requests in flight may go on after a stop.
        timeout_s: Time limit of a request from when it was sent; None: no limit.
        connections: How many connections to a server are opened before the start.
        max_errors: Stop when more requests than this have failed; None: no limit.
        first, stride: The indexes of its requests: first, first + stride, ...
        turns_fd: Where it takes turns with other workers (`runner.turns`), of whom each has all requests; None: what
            it has is its own.
        places_fds: Where it takes places in flight that it shares with other workers, and where it gives them back;
            None: `max_in_flight` is its own.
    """

    requests: tuple[PlannedRequest, ...]
    warmup: tuple[PlannedRequest, ...]
    is_closed: bool
    concurrency: int
    max_in_flight: int | None
    duration_s: float | None
    is_cycled: bool
    period_s: float
    grace_s: float
    timeout_s: float | None
    connections: int
    max_errors: int | None
    first: int = 0
    stride: int = 1
    warmup_pause_s: float = 0.0
    turns_fd: int | None = None
    places_fds: tuple[int, int] | None = None

    def sequence(self) -> Iterator[PlannedRequest]:
        """Yield the requests in order; without end, under new indexes and due times, when they are cycled.

        With one worker these are `workload.plan.cycled`'s; with several, each repeats its own.
        """
        if self.turns_fd is not None:
            while (place := take_turn(self.turns_fd)) is not None:
                yield self.requests[place]
            return
        yield from self.requests
        if not self.is_cycled:
            return
        for turn in count(1):
            for place, request in enumerate(self.requests):
                yield replace(
                    request,
                    index=self.first + (turn * len(self.requests) + place) * self.stride,
                    due_s=None if request.due_s is None else request.due_s + turn * self.period_s,
                )


def whole(plan: Plan, config: Config) -> Share:
    """Return the share of a single worker."""
    load = config.load
    is_closed = load.mode == "closed"
    period_s = _period_s(plan.requests)
    return Share(
        requests=plan.requests,
        warmup=plan.warmup,
        is_closed=is_closed,
        concurrency=load.concurrency,
        max_in_flight=None if is_closed else load.max_in_flight,
        duration_s=load.duration_s,
        # An open load's plan has all its requests; a trace that lies at one instant would repeat without end.
        is_cycled=load.duration_s is not None and (is_closed or (load.mode == "trace" and period_s > 0)),
        period_s=period_s,
        grace_s=config.limits.grace_s,
        timeout_s=config.target.timeout_s,
        connections=_connections(config, len(plan.requests)),
        max_errors=config.limits.max_errors,
        warmup_pause_s=load.warmup_pause_s if plan.warmup else 0.0,
    )


def split(share: Share, workers: int) -> list[Share]:
    """Divide a share: request i goes to worker i modulo `workers`, slots are spread evenly.

    The limit on errors is one on the sum. There are at most as many parts as slots or requests.
    """
    slots = share.concurrency if share.is_closed else share.max_in_flight or workers
    workers = max(1, min(workers, slots, len(share.requests)))
    return [
        replace(
            share,
            requests=share.requests[k::workers],
            warmup=share.warmup[k::workers],
            concurrency=max(1, _part(share.concurrency, k, workers)),
            max_in_flight=None if share.max_in_flight is None else _part(share.max_in_flight, k, workers),
            connections=_part(share.connections, k, workers),
            first=k,
            stride=workers,
        )
        for k in range(workers)
    ]


def _connections(config: Config, requests: int) -> int:
    """Return how many connections a load is sure to need; those that it needs besides are opened when they are due."""
    load = config.load
    if load.mode == "closed":
        return min(load.concurrency, requests)
    second = LEAST_CONNECTIONS if load.mode == "trace" else max(load.rate, LEAST_CONNECTIONS)
    return int(min(second, load.max_in_flight or MOST_CONNECTIONS, requests, MOST_CONNECTIONS))


def _part(total: int, k: int, workers: int) -> int:
    return total // workers + (k < total % workers)


def _period_s(requests: tuple[PlannedRequest, ...]) -> float:
    """Return how long one turn of the schedule takes: to the last due time and one mean gap more."""
    last = requests[-1].due_s if requests else None
    if not last:
        return 0.0
    return last * len(requests) / (len(requests) - 1)
