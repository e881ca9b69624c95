"""What each request measured: TTFT, E2E, gaps, tokens, TPOT. The definitions are those of METRICS, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions, TokenSource


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Figures of n requests and of their m ticks. Times are nanoseconds; floats are NaN and integers UNKNOWN: missing.

    Attributes:
        ok: Whether the outcome is ok. sent: whether it was sent. ticks: how many ticks it has.
        first_ns, last_ns: Stamps of its first and last tick.
        total: Best known count of its output tokens; 0 when nothing came.
        is_counted: Whether every tick of it says its tokens: running usage, token ids, re-tokenised pieces.
        tpot_ns: (last tick - first tick) / (tokens at last - tokens at first).
        owner: (m) Row that each tick belongs to. is_gap: (m) whether a tick of the same request came before it.
        gap_ns: (m) Time since that tick (0 where there is none).
        step: (m) Tokens of the tick; UNKNOWN for requests that are not counted.
        weight: (m) Tokens of the tick, spread evenly over the ticks where only a total is known. Sums to `total`
            for every request with a tick.
    """

    ok: NDArray[np.bool_]
    sent: NDArray[np.bool_]
    ticks: NDArray[np.int64]
    first_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]
    total: NDArray[np.int64]
    is_counted: NDArray[np.bool_]
    tpot_ns: NDArray[np.float64]
    owner: NDArray[np.int64]
    is_gap: NDArray[np.bool_]
    gap_ns: NDArray[np.int64]
    step: NDArray[np.int64]
    weight: NDArray[np.float64]


def per_request(sessions: Sessions) -> Requests:
    """Return the figures of every request of a run, whatever its outcome."""
    n, m = len(sessions.index), len(sessions.tick_ns)
    ticks = np.diff(sessions.tick_start)
    rows = np.flatnonzero(ticks)
    first_at, last_at = sessions.tick_start[:-1][rows], sessions.tick_start[1:][rows] - 1
    owner = np.repeat(np.arange(n), ticks)

    first_ns, last_ns = np.full(n, UNKNOWN), np.full(n, UNKNOWN)
    first_ns[rows], last_ns[rows] = sessions.tick_ns[first_at], sessions.tick_ns[last_at]

    is_gap = np.ones(m, dtype=np.bool_)
    is_gap[first_at] = False
    gap_ns = np.diff(sessions.tick_ns, prepend=0)
    gap_ns[first_at] = 0

    untold = np.bincount(owner[sessions.tick_tokens == UNKNOWN], minlength=n)
    is_counted = (ticks > 0) & (untold == 0) & (sessions.token_source != TokenSource.CHUNKS)
    step = np.diff(sessions.tick_tokens, prepend=0)
    step[first_at] = sessions.tick_tokens[first_at]
    step[~is_counted[owner]] = UNKNOWN

    at_first, at_last = np.ones(n, dtype=np.int64), ticks.copy()
    most = np.maximum.reduceat(sessions.tick_tokens, first_at) if len(rows) else np.empty(0, np.int64)
    at_last[rows] = np.maximum(most, ticks[rows])
    at_first[is_counted] = sessions.tick_tokens[sessions.tick_start[:-1][is_counted]]
    at_last[is_counted] = sessions.tick_tokens[sessions.tick_start[1:][is_counted] - 1]
    told = sessions.output_tokens != UNKNOWN
    total = np.where(told, sessions.output_tokens, at_last)
    at_last = np.where(told & ~is_counted, sessions.output_tokens, at_last)

    tpot_ns = np.full(n, np.nan)
    has_tpot = (ticks > 1) & (at_last > at_first)
    tpot_ns[has_tpot] = (last_ns - first_ns)[has_tpot] / (at_last - at_first)[has_tpot]

    return Requests(
        ok=sessions.outcome == Outcome.OK,
        sent=sessions.sent_ns != UNKNOWN,
        ticks=ticks,
        first_ns=first_ns,
        last_ns=last_ns,
        total=total,
        is_counted=is_counted,
        tpot_ns=tpot_ns,
        owner=owner,
        is_gap=is_gap,
        gap_ns=gap_ns,
        step=step,
        weight=_weights(total, ticks, is_counted, owner, step, last_at),
    )


def _weights(
    total: NDArray[np.int64],
    ticks: NDArray[np.int64],
    is_counted: NDArray[np.bool_],
    owner: NDArray[np.int64],
    step: NDArray[np.int64],
    last_at: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return tokens per tick that sum to each request's total, also where the ticks do not say theirs."""
    weight = np.where(is_counted[owner], step, (total / np.maximum(ticks, 1))[owner])
    rows = owner[last_at]
    # A server may count tokens that carry no text (an end mark) after the last tick: they belong to it.
    weight[last_at] += total[rows] - np.bincount(owner, weights=weight, minlength=len(total))[rows]
    return weight
