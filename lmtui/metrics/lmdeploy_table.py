"""The table and the CSV row of LMDeploy's profiler (lmdeploy/profiler.py), from the same stamps.

Its definitions, not METRICS': `success` is a request whose last count reached what was asked, whatever its outcome;
TPOT falls back to E2E per token when no token came after the first tick; ITL leaves out the first gap, tokens per tick
does not; the duration is the run's. Where the script would crash or print `inf` and `nan`, the cell is `-` and a
sentence says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics import script_columns
from lmtui.metrics.flight import span
from lmtui.metrics.requests import Requests, per_request
from lmtui.metrics.sessions import UNKNOWN, Sessions

PERCENTAGES = (50, 75, 95, 99)
NONE = "-"
_LABEL, _DIGITS = 40, 10

Hyperparams = Sequence[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class Line:
    """One latency of the table: mean and percentiles, in seconds (tokens per tick: tokens); None without a sample."""

    mean: float | None
    percentiles: tuple[float | int | None, ...]


@dataclass(frozen=True, slots=True)
class LmdeployFigures:
    """What `Profiler.compute_metrics` computes. Throughputs are None when no time passed.

    `total_input` is None when the length of a successful prompt is not known, here or at the server.

    Attributes:
        messages: What the script would have crashed on, or printed as `inf`, and what stands there instead.
    """

    stream_output: bool
    percentages: tuple[int, ...]
    elapsed_s: float
    total: int
    success: int
    total_input: int | None
    total_output: int
    input_throughput: float | None
    output_throughput: float | None
    rps: float | None
    e2e: Line
    ttft: Line
    tpot: Line
    itl: Line
    tokens_per_tick: Line
    messages: tuple[str, ...]


def figures(
    sessions: Sessions, *, stream_output: bool, closed_load: bool, percentages: Sequence[int] = PERCENTAGES
) -> LmdeployFigures:
    """Return the profiler's figures of a run.

    A request's stamps are those that the scripts take: `sent` with 0 tokens, then every tick with its count. Where
    the target tells only a total, every tick before the last counts as one token. Planned requests that were never
    sent count among `Total requests`.
    """
    requests = per_request(sessions)
    run = span(sessions, requests, closed_load=closed_load)
    start_ns = 0 if run is None else run.start_ns
    elapsed = 0.0 if run is None else run.end_ns / 1e9 - start_ns / 1e9
    counts, last = _counts(sessions, requests)
    success = requests.sent & (requests.ticks > 0) & (last >= sessions.asked_len)
    rows = np.flatnonzero(success)
    first_at, last_at = sessions.tick_start[:-1][rows], sessions.tick_start[1:][rows] - 1
    # Seconds as floats before subtracting, as the profiler's clock gives them, so that the last digit agrees too.
    tick_s, sent_s = sessions.tick_ns / 1e9, sessions.sent_ns[rows] / 1e9
    n_first, n_last = counts[first_at], counts[last_at]
    e2es = tick_s[last_at] - sent_s
    tpots, without_tpot = _tpots(tick_s[first_at], tick_s[last_at], sent_s, n_first, n_last)
    in_success = success[requests.owner]
    itls = np.diff(tick_s, prepend=0.0)[in_success & requests.is_gap]
    steps = np.diff(counts, prepend=0)
    steps[sessions.tick_start[:-1][requests.ticks > 0]] = counts[sessions.tick_start[:-1][requests.ticks > 0]]
    inputs = np.where(sessions.input_len != UNKNOWN, sessions.input_len, sessions.prompt_tokens)[rows]
    total_input = int(inputs.sum()) if (inputs != UNKNOWN).all() else None
    total_output = int(n_last.sum())
    return LmdeployFigures(
        stream_output=stream_output,
        percentages=tuple(percentages),
        elapsed_s=elapsed,
        total=max(sessions.planned, len(sessions.index)),
        success=len(rows),
        total_input=total_input,
        total_output=total_output,
        input_throughput=total_input / elapsed if elapsed and total_input is not None else None,
        output_throughput=total_output / elapsed if elapsed else None,
        rps=len(rows) / elapsed if elapsed else None,
        e2e=_line(e2es, percentages),
        ttft=_line(tick_s[first_at] - sent_s, percentages),
        tpot=_line(tpots, percentages),
        itl=_line(itls, percentages),
        tokens_per_tick=_tokens_line(steps[in_success], percentages),
        messages=_messages(len(rows), without_tpot, len(itls), elapsed, stream_output),
    )


def _counts(sessions: Sessions, requests: Requests) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cumulative count of every tick, and of every request's last one (0 without ticks)."""
    n = len(sessions.index)
    start = sessions.tick_start[:-1]
    place = np.arange(len(sessions.tick_ns)) - start[requests.owner] + 1
    counts = np.where(requests.is_counted[requests.owner], sessions.tick_tokens, place)
    rows = np.flatnonzero(requests.ticks)
    last_at = sessions.tick_start[1:][rows] - 1
    only_total = ~requests.is_counted[rows]
    counts[last_at[only_total]] = requests.total[rows[only_total]]
    last = np.zeros(n, dtype=np.int64)
    last[rows] = counts[last_at]
    return counts, last


def _tpots(
    first_s: NDArray[np.float64],
    last_s: NDArray[np.float64],
    sent_s: NDArray[np.float64],
    n_first: NDArray[np.int64],
    n_last: NDArray[np.int64],
) -> tuple[NDArray[np.float64], int]:
    """Return TPOT of every success that has one, and how many have none (no token at all)."""
    has_more = n_last > n_first
    tokens = np.where(has_more, n_last - n_first, n_last)
    seconds = last_s - np.where(has_more, first_s, sent_s)
    told = tokens != 0
    return seconds[told] / tokens[told], int((~told).sum())


def _line(values: NDArray[np.float64], percentages: Sequence[int]) -> Line:
    if len(values) == 0:
        return Line(None, (None,) * len(percentages))
    return Line(float(np.mean(values)), tuple(float(cut) for cut in np.percentile(values, percentages)))


def _tokens_line(values: NDArray[np.int64], percentages: Sequence[int]) -> Line:
    if len(values) == 0:
        return Line(None, (None,) * len(percentages))
    cuts = np.percentile(values, percentages).astype(int)
    return Line(float(np.mean(values)), tuple(int(cut) for cut in cuts))


def _messages(success: int, without_tpot: int, itls: int, elapsed: float, stream_output: bool) -> tuple[str, ...]:
    messages = []
    if success == 0:
        messages.append("no request reached the tokens that were asked for: the latencies have no data (-)")
    elif stream_output and itls == 0:
        messages.append("no request had two ticks: the inter-token latency has no data (-)")
    if without_tpot:
        messages.append(f"{without_tpot} requests made no token and were asked for none: they are left out of TPOT")
    if elapsed == 0:
        messages.append("no time passed between the first send and the last end: the throughputs have no data (-)")
    return tuple(messages)


def table(figures: LmdeployFigures, title: str, hyperparams: Hyperparams) -> str:
    """Return the lines that `Profiler.summarize` prints, the blank one before the title included.

    `hyperparams`: label and value of the rows after the successful requests.
    """
    width = _LABEL + _DIGITS * (1 + len(figures.percentages))
    lines = ["", f"{f' {title} ':=^{width}}"]

    def row(name: str, *cells: object) -> None:
        lines.append(f"{name:<{_LABEL}}" + "".join(map(_cell, cells)))

    def latency(name: str, line: Line) -> None:
        row(name, line.mean, *line.percentiles)

    row("Benchmark duration", figures.elapsed_s)
    row("Total requests", figures.total)
    row("Successful requests", figures.success)
    for name, value in hyperparams:
        row(name, value)
    row("Total input tokens", figures.total_input)
    row("Total generated tokens", figures.total_output)
    row("Input throughput (tok/s)", figures.input_throughput)
    row("Output throughput (tok/s)", figures.output_throughput)
    row("Request throughput (req/s)", figures.rps)
    lines.append("-" * width)
    row("", "mean", *(f"P{q}" for q in figures.percentages))
    latency("End-to-end Latency", figures.e2e)
    if figures.stream_output:
        latency("Time to First Token (TTFT)", figures.ttft)
    latency("Time per Output Token (TPOT)", figures.tpot)
    if figures.stream_output:
        latency("Inter-token Latency (ITL)", figures.itl)
        latency("Tokens per Tick", figures.tokens_per_tick)
    lines.append("=" * width)
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        value = NONE
    return f"{value:>{_DIGITS}.3f}" if isinstance(value, float) else f"{value:>{_DIGITS}}"


def csv_row(figures: LmdeployFigures, hyperparams: Sequence[object]) -> bytes:
    """Return the row that `Profiler.save_csv` appends; `hyperparams`: the values of the columns up to the figures."""
    return script_columns.line(
        [
            *hyperparams,
            figures.success,
            figures.total_input,
            figures.total_output,
            figures.elapsed_s,
            _fixed(figures.rps),
            _fixed(figures.input_throughput),
            _fixed(figures.output_throughput),
            _fixed_ms(figures.e2e),
            _fixed_ms(figures.ttft) if figures.stream_output else NONE,
            _fixed_ms(figures.tpot),
            _fixed_ms(figures.itl) if figures.stream_output else NONE,
        ]
    )


def _fixed(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _fixed_ms(line: Line) -> str:
    return NONE if line.mean is None else f"{line.mean * 1000:.3f}"
