"""Sessions written out by hand, in milliseconds, for tests of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmtui.config.model import Config
from lmtui.metrics.result import Result
from lmtui.metrics.sessions import UNKNOWN, ClientSamples, Outcome, Sessions, TokenSource
from lmtui.metrics.summary import summarise

MS = 1_000_000


@dataclass
class Made:
    """One request; times in ms (None: unknown), ticks as (ms, cumulative tokens or None)."""

    sent: float | None
    ticks: Sequence[tuple[float, int | None]] = ()
    end: float | None = None
    due: float | None = None
    outcome: Outcome = Outcome.OK
    source: TokenSource = TokenSource.ENGINE
    tokens: int | None = None
    asked: int = 4
    input_len: int | None = 10
    prompt: int | None = None
    cached: int | None = None
    cancel_planned: bool = False
    let_go: float | None = None
    wasted: int | None = None
    connect: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def ns(ms: float | None) -> int:
    return UNKNOWN if ms is None else round(ms * MS)


def count(value: int | None) -> int:
    return UNKNOWN if value is None else value


def made(requests: Sequence[Made], *, planned: int | None = None, start: float = 0) -> Sessions:
    def column(values: list[int], dtype: Any = np.int64) -> Any:
        return np.array(values, dtype=dtype)

    ticks = [tick for request in requests for tick in request.ticks]
    ends = [
        request.end if request.end is not None else (request.ticks[-1][0] if request.ticks else None)
        for request in requests
    ]
    return Sessions(
        index=np.arange(len(requests)),
        due_ns=column([ns(request.sent if request.due is None else request.due) for request in requests]),
        sent_ns=column([ns(request.sent) for request in requests]),
        end_ns=column([ns(end) for end in ends]),
        input_len=column([count(request.input_len) for request in requests]),
        prompt_tokens=column([count(request.prompt) for request in requests]),
        cached_tokens=column([count(request.cached) for request in requests]),
        asked_len=column([request.asked for request in requests]),
        output_tokens=column([count(request.tokens) for request in requests]),
        token_source=column([request.source for request in requests], np.uint8),
        outcome=column([request.outcome for request in requests], np.uint8),
        cancel_planned=column([request.cancel_planned for request in requests], np.bool_),
        connect_ns=column([ns(request.connect) for request in requests]),
        let_go_ns=column([ns(request.let_go) for request in requests]),
        wasted_tokens=column([count(request.wasted) for request in requests]),
        tick_start=np.concatenate(([0], np.cumsum([len(request.ticks) for request in requests]))).astype(np.int64),
        tick_ns=column([ns(at) for at, _ in ticks]),
        tick_tokens=column([count(tokens) for _, tokens in ticks]),
        planned=len(requests) if planned is None else planned,
        start_ns=round(start * MS),
    )


def config(**sections: Mapping[str, Any]) -> Config:
    base: dict[str, Any] = {"name": "t", "target": {"kind": "simulated"}, "dataset": {"input_len": 8, "output_len": 4}}
    return Config.model_validate({**base, **sections})


def samples(**changes: Any) -> ClientSamples:
    none = np.empty(0, np.int64)
    return ClientSamples(**{"clock": "user", "loop_lag_ns": none, "read_lag_ns": none, **changes})


def summary(
    sessions: Sessions,
    given: Config | None = None,
    errors: Mapping[int, str] | None = None,
    client: ClientSamples | None = None,
) -> Result:
    return summarise(
        given or config(),
        sessions,
        client or samples(),
        errors or {},
        run_id="20260101T000000Z-t-abcdef",
        phase="done",
        started_at="2026-01-01T00:00:00+00:00",
        target={"kind": "simulated"},
        notes=(),
        environment={},
        simulated=True,
    )
