"""One row per request of a run, for files that other programs read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from lmtui.metrics.requests import Requests, per_request
from lmtui.metrics.result import Number
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions, TokenSource


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was sent or is known to the tick log; null is missing.

    Figures are there for every outcome: results take those of `ok` requests only.

    Attributes:
        index: Place in the plan. outcome: how it ended. error: what went wrong with it.
        due_s, sent_s, end_s: Since the run's start, the earliest due or sent.
        queue_ms: sent − due. connect_ms: how long opening its connection took. itl_max_ms: its longest gap.
        ticks: Arrivals of output. output_tokens: as `token_source` counted them.
        input_tokens: As drawn or tokenised here; server_input_tokens: as the target counted them.
        let_go_ms: From the cut until the target let go. wasted_tokens: those that came after the cut.
        tick_s: When each output arrived, since the run's start. tick_tokens: tokens that had come by then (null where
            the target does not say). Both only when asked for.
    """

    index: int
    outcome: str
    due_s: Number
    sent_s: Number
    end_s: Number
    connect_ms: Number
    queue_ms: Number
    ttft_ms: Number
    tpot_ms: Number
    itl_max_ms: Number
    e2e_ms: Number
    ticks: int
    output_tokens: int
    asked_output_tokens: int
    token_source: str | None
    input_tokens: int | None
    server_input_tokens: int | None
    cached_tokens: int | None
    cancel_planned: bool
    let_go_ms: Number
    wasted_tokens: int | None
    error: str | None
    tick_s: list[float] | UnsetType = UNSET
    tick_tokens: list[int | None] | UnsetType = UNSET


def request_rows(sessions: Sessions, errors: Mapping[int, str], *, with_ticks: bool = False) -> list[RequestRow]:
    """Return the requests in the order of the plan; `errors`: index of a request → what went wrong with it."""
    requests = per_request(sessions)
    zero_ns = _start_ns(sessions)
    first_ms = _between(sessions.sent_ns, requests.first_ns)
    last_ms = _between(sessions.sent_ns, requests.last_ns)
    queue_ms = _between(sessions.due_ns, sessions.sent_ns)
    longest_ns = _longest_gaps(requests)
    return [
        RequestRow(
            index=index,
            outcome=Outcome(outcome).label,
            due_s=_since(sessions.due_ns[row], zero_ns),
            sent_s=_since(sessions.sent_ns[row], zero_ns),
            end_s=_since(sessions.end_ns[row], zero_ns),
            connect_ms=_ms(sessions.connect_ns[row]),
            queue_ms=_number(queue_ms[row]),
            ttft_ms=_number(first_ms[row]),
            tpot_ms=_number(requests.tpot_ns[row] / 1e6),
            itl_max_ms=_ms(longest_ns[row]),
            e2e_ms=_number(last_ms[row]),
            ticks=int(requests.ticks[row]),
            output_tokens=int(requests.total[row]),
            asked_output_tokens=int(sessions.asked_len[row]),
            token_source=TokenSource(int(sessions.token_source[row])).label,
            input_tokens=_count(sessions.input_len[row]),
            server_input_tokens=_count(sessions.prompt_tokens[row]),
            cached_tokens=_count(sessions.cached_tokens[row]),
            cancel_planned=bool(sessions.cancel_planned[row]),
            let_go_ms=_ms(sessions.let_go_ns[row]),
            wasted_tokens=_count(sessions.wasted_tokens[row]),
            error=errors.get(index),
            tick_s=_tick_s(sessions, row, zero_ns) if with_ticks else UNSET,
            tick_tokens=_tick_tokens(sessions, row) if with_ticks else UNSET,
        )
        for row, (index, outcome) in enumerate(zip(sessions.index.tolist(), sessions.outcome.tolist(), strict=True))
    ]


def _start_ns(sessions: Sessions) -> int:
    known = np.concatenate((sessions.due_ns, sessions.sent_ns))
    known = known[known != UNKNOWN]
    return int(known.min()) if len(known) else 0


def _between(begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return milliseconds from one stamp to another; NaN where either is missing."""
    return np.where((begin_ns == UNKNOWN) | (end_ns == UNKNOWN), np.nan, (end_ns - begin_ns) / 1e6)


def _longest_gaps(requests: Requests) -> NDArray[np.int64]:
    longest = np.full(len(requests.ok), UNKNOWN)
    np.maximum.at(longest, requests.owner[requests.is_gap], requests.gap_ns[requests.is_gap])
    return longest


def _tick_s(sessions: Sessions, row: int, zero_ns: int) -> list[float]:
    start, end = sessions.tick_start[row : row + 2]
    return [(stamp - zero_ns) / 1e9 for stamp in sessions.tick_ns[start:end].tolist()]


def _tick_tokens(sessions: Sessions, row: int) -> list[int | None]:
    start, end = sessions.tick_start[row : row + 2]
    return [_count(tokens) for tokens in sessions.tick_tokens[start:end]]


def _since(stamp_ns: np.int64, zero_ns: int) -> Number:
    return None if stamp_ns == UNKNOWN else (int(stamp_ns) - zero_ns) / 1e9


def _ms(span_ns: np.int64) -> Number:
    return None if span_ns == UNKNOWN else int(span_ns) / 1e6


def _number(value: np.float64) -> Number:
    return None if np.isnan(value) else float(value)


def _count(value: np.int64) -> int | None:
    return None if value == UNKNOWN else int(value)
