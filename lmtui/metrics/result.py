"""The result of one point: what `summary.json` holds, and `run --json` and `show --json` print, field for field."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Number = float | None
"""A number, or null where it does not exist."""


class Distribution(msgspec.Struct, frozen=True):
    """A sample's figures; percentiles by linear interpolation as NumPy. All null when n is 0.

    `unresolved` names the percentiles that a sample of n cannot resolve (n < 1 / (1 - q)).
    """

    mean: Number = None
    std: Number = None
    min: Number = None
    p50: Number = None
    p75: Number = None
    p90: Number = None
    p95: Number = None
    p99: Number = None
    p99_9: Number = None
    max: Number = None
    n: int = 0
    unresolved: tuple[str, ...] = ()


class ErrorGroup(msgspec.Struct, frozen=True):
    """Failures with one cause: outcome, a sample message, how many."""

    outcome: str
    message: str
    count: int


class Survivors(msgspec.Struct, frozen=True):
    """Latencies of the `ok` requests that the plan did not pick, to stand beside a run with rate 0."""

    n: int
    ttft_ms: Distribution
    tpot_ms: Distribution
    itl_ms: Distribution
    e2e_ms: Distribution


class Cancel(msgspec.Struct, frozen=True):
    """The cancel experiment.

    planned: picked by the plan. done: cut. missed: finished first. let_go_ms: from the cut until the target let go.
    wasted_tokens: made for requests that were then cut, before and (where the target says) after the cut;
    wasted_share: of all tokens made. tokens_after_cut: the part after the cut; null when the target does not say.
    """

    planned: int
    done: int
    missed: int
    tokens_at_cancel: Distribution
    let_go_ms: Distribution
    wasted_tokens: int
    wasted_share: Number
    tokens_after_cut: int | None
    survivors: Survivors


class Steady(msgspec.Struct, frozen=True):
    """The steady window's own figures, beside the whole run's. Seconds are from the run's start."""

    start_s: float
    end_s: float
    output_throughput: Number
    request_throughput: Number
    ttft_ms: Distribution
    itl_ms: Distribution


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Every number of METRICS for one run; latencies of `ok` requests only."""

    duration_s: Number
    completed: int
    request_throughput: Number
    input_throughput: Number
    output_throughput: Number
    total_input_tokens: int | None
    total_output_tokens: int | None
    all_output_tokens: int | None
    all_output_throughput: Number
    peak_output_throughput: Number
    peak_in_flight: int | None
    mean_in_flight: Number
    achieved_rate: Number
    asked_rate: float | Literal["inf"] | None
    ttft_ms: Distribution
    tpot_ms: Distribution
    itl_ms: Distribution
    token_gap_ms: Distribution
    e2e_ms: Distribution
    tokens_per_tick: Distribution
    queue_ms: Distribution
    connect_ms: Distribution
    ttft_from_due_ms: Distribution
    e2e_from_due_ms: Distribution
    asked_input_tokens: int | None
    server_input_tokens: int | None
    cached_tokens: int | None
    goodput: Number
    goodput_share: Number
    cancel: Cancel | None
    steady: Steady | None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """How much the client itself may have disturbed the measurement, and the run's grade with its reasons."""

    clock: str
    send_lag_ms: Distribution
    loop_lag_ms: Distribution
    read_lag_ms: Distribution
    coalesced_share: Number
    cpu_s: Number
    grade: Literal["good", "suspect", "invalid"]
    reasons: tuple[str, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One finished point. `simulated` marks figures that no real engine or server gave."""

    run_id: str
    name: str
    phase: str
    started_at: str
    target: dict[str, Any]
    config: dict[str, Any]
    outcomes: dict[str, int]
    errors: tuple[ErrorGroup, ...]
    metrics: Metrics
    client: Client
    tokens_from: str | None
    notes: tuple[str, ...]
    environment: dict[str, Any]
    simulated: bool = False
