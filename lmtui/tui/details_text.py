"""All numbers of one run in groups, as plain text. No Textual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lmtui.charts.ticks import MISSING, clock, milliseconds
from lmtui.metrics.result import Distribution, Result
from lmtui.results.baseline import latency
from lmtui.results.rows import Row
from lmtui.tui.plain import cell, line

SURVIVORS = (("TTFT ms", "ttft_ms"), ("TPOT ms", "tpot_ms"), ("ITL ms", "itl_ms"), ("E2E ms", "e2e_ms"))
LATENCIES = (
    ("TTFT ms", "ttft_ms"),
    ("TPOT ms", "tpot_ms"),
    ("ITL ms", "itl_ms"),
    ("token gap ms", "token_gap_ms"),
    ("E2E ms", "e2e_ms"),
    ("tokens/tick", "tokens_per_tick"),
    ("queue ms", "queue_ms"),
    ("connect ms", "connect_ms"),
    ("TTFT from due", "ttft_from_due_ms"),
    ("E2E from due", "e2e_from_due_ms"),
)
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
FIGURES = (
    ("duration", "duration_s", "s"),
    ("completed", "completed", "requests"),
    ("request throughput", "request_throughput", "req/s"),
    ("input throughput", "input_throughput", "tok/s"),
    ("output throughput", "output_throughput", "tok/s"),
    ("all output throughput", "all_output_throughput", "tok/s"),
    ("peak output", "peak_output_throughput", "tok/s"),
    ("goodput", "goodput", "req/s"),
    ("goodput share", "goodput_share", ""),
    ("mean in flight", "mean_in_flight", ""),
    ("peak in flight", "peak_in_flight", ""),
    ("asked rate", "asked_rate", "req/s"),
    ("achieved rate", "achieved_rate", "req/s"),
    ("input tokens", "total_input_tokens", ""),
    ("output tokens", "total_output_tokens", ""),
    ("all output tokens", "all_output_tokens", ""),
    ("input tokens (asked)", "asked_input_tokens", ""),
    ("input tokens (server)", "server_input_tokens", ""),
    ("cached tokens", "cached_tokens", ""),
)


def result_text(result: Result, at_rate_0: Row | None = None) -> str:
    """Return the text of a result; `at_rate_0` is the row of the run without cancels that it stands beside."""
    return "\n".join(_result_lines(result, at_rate_0))


def _result_lines(result: Result, at_rate_0: Row | None) -> Iterator[str]:
    yield f"{line(result.name)}   {result.phase}   grade {result.client.grade}"
    if result.simulated:
        yield "  SIMULATED: no real engine or server gave these figures"
    yield from (f"  {line(reason)}" for reason in result.client.reasons)
    yield _fact("started", result.started_at)
    yield _fact("tokens from", result.tokens_from or MISSING)
    yield ""
    yield cell("Latencies", 15) + "".join(f"{name:>8}" for name in COLUMNS) + f"{'n':>8}"
    for words, name in LATENCIES:
        yield _distribution(words, getattr(result.metrics, name))
    if any(name in getattr(result.metrics, key).unresolved for _, key in LATENCIES for name in COLUMNS):
        yield "  ~ the sample is too small to resolve this percentile"
    yield ""
    yield "Figures"
    for words, name, unit in FIGURES:
        yield _fact(words, _value(getattr(result.metrics, name)), unit)
    yield ""
    yield "Outcomes"
    yield from (_fact(outcome, str(count)) for outcome, count in result.outcomes.items() if count or outcome == "ok")
    for group in result.errors:
        yield f"  {group.count} × {group.outcome}: {line(group.message)}"
    yield from _cancel(result, at_rate_0)
    yield from _steady(result)
    yield ""
    yield "Client"
    for name in ("send_lag_ms", "loop_lag_ms", "read_lag_ms"):
        yield _distribution(name.replace("_", " "), getattr(result.client, name))
    yield _fact("clock", result.client.clock)
    yield _fact("coalesced share", _value(result.client.coalesced_share))
    yield _fact("CPU", _value(result.client.cpu_s), "s")
    if result.notes:
        yield from ("", "Notes", *(f"  {line(note)}" for note in result.notes))
    for title, tree in (("Target", result.target), ("Config", result.config), ("Environment", result.environment)):
        yield from ("", title, *(_fact(key, _value(value)) for key, value in _flat(tree)))


def _cancel(result: Result, at_rate_0: Row | None) -> Iterator[str]:
    if (cancel := result.metrics.cancel) is not None:
        yield from ("", "Cancel")
        yield _fact("planned / done / missed", f"{cancel.planned} / {cancel.done} / {cancel.missed}")
        yield _fact("wasted tokens", _value(cancel.wasted_tokens))
        yield _fact("wasted share", _value(cancel.wasted_share))
        yield _distribution("tokens at cut", cancel.tokens_at_cancel)
        yield _distribution("let go ms", cancel.let_go_ms)
        yield "  survivors: ok requests that the plan did not pick"
        for words, name in SURVIVORS:
            yield _distribution(words, getattr(cancel.survivors, name))
        if at_rate_0 is None:
            yield "  no run of this config with cancel.rate = 0 to stand beside them"
            return
        yield f"  the same with cancel.rate = 0: {at_rate_0.text('run_id')}"
        for words, name in SURVIVORS:
            yield _distribution(words, latency(at_rate_0, name))


def _steady(result: Result) -> Iterator[str]:
    if (steady := result.metrics.steady) is not None:
        yield from ("", f"Steady window {clock(steady.start_s)} to {clock(steady.end_s)}")
        yield _fact("output throughput", _value(steady.output_throughput), "tok/s")
        yield _fact("request throughput", _value(steady.request_throughput), "req/s")
        yield _distribution("TTFT ms", steady.ttft_ms)
        yield _distribution("ITL ms", steady.itl_ms)


def row_text(row: Row) -> str:
    """Return every cell of a row that is not empty, by group; for rows whose run is not on this machine."""
    groups: dict[str, list[str]] = {}
    for column in row:
        if text := row.text(column):
            groups.setdefault(column.rpartition(".")[0], []).append(_fact(column, line(text)))
    return "\n\n".join("\n".join(lines) for _, lines in sorted(groups.items()))


def _distribution(words: str, of: Distribution) -> str:
    cells = "".join(
        f"{('~' if name in of.unresolved else '') + milliseconds(getattr(of, name)):>8}" for name in COLUMNS
    )
    return f"  {cell(words, 13)}{cells}{of.n:>8}"


def _fact(words: str, value: str, unit: str = "") -> str:
    return f"  {cell(words, max(24, len(words) + 1))}{value}{f' {unit}' if unit and value != MISSING else ''}"


def _value(value: object) -> str:
    if value is None or value in ("", {}, []):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if 1e-3 <= abs(value) < 1e12 else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else line(str(value))


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value
