"""The plain-text table that a person reads after a run."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator

from lmtui.metrics.result import Cancel, Distribution, Metrics, Number, Result

MISSING = "–"
UNRESOLVED = "~"
LABEL = 14
COLUMN = 9
HALF = 40
MOST_ERRORS = 8

_HEADINGS = ("mean", "P50", "P75", "P90", "P95", "P99", "max")
_FIELDS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")
_ASCII = str.maketrans({"–": "-", "·": "|", "×": "x", "…": ">", "Σ": "sum"})


def result_table(result: Result, width: int = 80, *, ascii_only: bool = False) -> str:
    """Return the result as lines of at most `width` columns (80 at least), without colour or control characters.

    A missing figure is `–`. A percentile that its sample is too small to resolve has `~` before it.
    """
    width = max(width, 80)
    lines: list[str] = []
    for part in (_head, _requests, _throughput, _latencies, _cancel_part, _client, _notes):
        block = [line.rstrip() for line in part(result, width)]
        if block:
            lines += ["", *block] if lines else block
    text = "\n".join(clip(line, width) for line in lines)
    return to_ascii(text) if ascii_only else text


def to_ascii(text: str) -> str:
    """Return the text in ASCII: the signs of a table as similar ones, other characters as `?`."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()


def number(value: Number) -> str:
    """Return a figure with about four significant digits, never in exponents; `–` when it is missing."""
    if value is None:
        return MISSING
    size = abs(value)
    if 0 < size < 0.1:
        return f"{value:.4f}"
    if size >= 10_000:
        return f"{value:,.0f}" if size < 1e7 else f"{value / 1e6:,.1f}M"
    return f"{value:.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.2f}"


def whole(value: int | None) -> str:
    """Return a count; `–` when it is missing."""
    return MISSING if value is None else f"{value:,}"


def share(value: Number) -> str:
    """Return a share as per cent; `–` when it is missing."""
    return MISSING if value is None else f"{value:.1%}"


def _head(result: Result, width: int) -> Iterator[str]:
    kind, model = result.target.get("kind"), result.target.get("model")
    what = " ".join(str(part) for part in dict.fromkeys((kind, model)) if part)
    mark = "  SIMULATED" if result.simulated else ""
    yield clip(f"{plain(result.name)} · {plain(what)}", width - len(mark)) + mark
    yield f"{result.run_id} · {result.phase} · started {result.started_at}"
    yield from _labelled("grade", result.client.grade, width)
    for reason in result.client.reasons:
        yield from _labelled("", f"· {reason}", width)


def _requests(result: Result, width: int) -> Iterator[str]:
    planned = sum(result.outcomes.values())
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in result.outcomes.items() if count)
    yield from _labelled("requests", f"{planned:,} planned: {counts or 'none known'}", width)
    for group in result.errors[:MOST_ERRORS]:
        yield f"{'':{LABEL}}{group.count:,} × {group.outcome}: {plain(group.message)}"
    if len(result.errors) > MOST_ERRORS:
        yield f"{'':{LABEL}}… and {len(result.errors) - MOST_ERRORS} more causes"


def _throughput(result: Result, width: int) -> Iterator[str]:
    m = result.metrics
    if m.duration_s is None:
        is_unsent = result.outcomes.get("dropped", 0) == sum(result.outcomes.values())
        yield ("Nothing was sent" if is_unsent else "No request was ok") + ": there are no figures."
        return
    if m.completed == 0:
        yield "No request was ok: there are no latencies and no throughputs."
    yield from _pairs(
        [
            ("duration", f"{number(m.duration_s)} s"),
            ("requests/s", number(m.request_throughput)),
            ("input tok/s", number(m.input_throughput)),
            ("output tok/s", number(m.output_throughput)),
            ("all output", f"{number(m.all_output_throughput)} tok/s"),
            ("peak second", f"{number(m.peak_output_throughput)} tok/s"),
            ("input tokens", _input_words(m)),
            ("output tokens", whole(m.total_output_tokens)),
            ("in flight", f"mean {number(m.mean_in_flight)}, peak {whole(m.peak_in_flight)}"),
            ("tokens from", result.tokens_from or MISSING),
        ]
    )
    if m.asked_rate is not None:
        asked = m.asked_rate if isinstance(m.asked_rate, str) else number(m.asked_rate)
        yield from _labelled("rate", f"{number(m.achieved_rate)} req/s achieved, {asked} asked", width)
    if m.goodput is not None:
        words = f"{number(m.goodput)} req/s, {share(m.goodput_share)} of the requests that were due"
        yield from _labelled("goodput", words, width)
    if m.steady is not None:
        s = m.steady
        yield from _labelled(
            "steady window",
            f"{number(s.start_s)} to {number(s.end_s)} s: {number(s.output_throughput)} tok/s, "
            f"{number(s.request_throughput)} req/s, TTFT P50 {number(s.ttft_ms.p50)} ms, "
            f"ITL P50 {number(s.itl_ms.p50)} ms",
            width,
        )


def _input_words(m: Metrics) -> str:
    words = whole(m.total_input_tokens)
    if m.server_input_tokens is not None and m.server_input_tokens != m.total_input_tokens:
        words += f" (server: {m.server_input_tokens:,})"
    return words + (f", cached {m.cached_tokens:,}" if m.cached_tokens else "")


def _latencies(result: Result, width: int) -> Iterator[str]:
    m = result.metrics
    if m.completed == 0:
        return
    always = [("TTFT ms", m.ttft_ms), ("TPOT ms", m.tpot_ms), ("ITL ms", m.itl_ms), ("E2E ms", m.e2e_ms)]
    where_known = [
        ("token gap ms", m.token_gap_ms),
        ("tokens/tick", m.tokens_per_tick),
        ("queue ms", m.queue_ms),
        ("TTFT–due ms", m.ttft_from_due_ms),
        ("E2E–due ms", m.e2e_from_due_ms),
        ("connect ms", m.connect_ms),
    ]
    rows = always + [(label, figures) for label, figures in where_known if figures.n]
    yield f"{'':{LABEL}}" + "".join(f"{heading:>{COLUMN}}" for heading in _HEADINGS)
    for label, figures in rows:
        yield f"{label:<{LABEL}}" + "".join(f"{_figure(figures, field):>{COLUMN}}" for field in _FIELDS)
    if any(name in figures.unresolved for _, figures in rows for name in _FIELDS):
        yield f"{UNRESOLVED} the sample is too small to resolve this percentile"


def _figure(figures: Distribution, field: str) -> str:
    value: Number = getattr(figures, field)
    return (UNRESOLVED if field in figures.unresolved else "") + number(value)


def _cancel_part(result: Result, width: int) -> Iterator[str]:
    c = result.metrics.cancel
    if c is None:
        return
    yield from _labelled(
        "cancel", f"{c.planned:,} planned, {c.done:,} done, {c.missed:,} missed (finished first)", width
    )
    yield from _labelled(
        "", f"tokens at cancel: P50 {number(c.tokens_at_cancel.p50)}, max {number(c.tokens_at_cancel.max)}", width
    )
    let_go = f"let go after: P50 {number(c.let_go_ms.p50)} ms, P99 {number(c.let_go_ms.p99)} ms"
    yield from _labelled("", let_go, width)
    yield from _labelled("", _wasted_words(c), width)
    s = c.survivors
    yield from _labelled(
        "",
        f"survivors ({s.n:,}): TTFT P50 {number(s.ttft_ms.p50)}, P99 {number(s.ttft_ms.p99)} ms; "
        f"ITL P50 {number(s.itl_ms.p50)}, P99 {number(s.itl_ms.p99)} ms",
        width,
    )


def _wasted_words(c: Cancel) -> str:
    after = "" if c.tokens_after_cut is None else f", {c.tokens_after_cut:,} of them after the cut"
    return f"wasted: {c.wasted_tokens:,} tokens ({share(c.wasted_share)} of all){after}"


def _client(result: Result, width: int) -> Iterator[str]:
    client = result.client
    yield from _labelled(
        "client",
        f"clock {client.clock}; P99 of send lag {number(client.send_lag_ms.p99)} ms, "
        f"loop lag {number(client.loop_lag_ms.p99)} ms, read lag {number(client.read_lag_ms.p99)} ms; "
        f"coalesced {share(client.coalesced_share)}; CPU {number(client.cpu_s)} s",
        width,
    )


def _notes(result: Result, width: int) -> Iterator[str]:
    for place, note in enumerate(result.notes):
        yield from _labelled("" if place else "notes", f"· {plain(note)}", width)


def _labelled(label: str, words: str, width: int) -> Iterator[str]:
    wrapped = textwrap.wrap(plain(words), width - LABEL, subsequent_indent="  " if words.startswith("·") else "") or [
        ""
    ]
    for place, line in enumerate(wrapped):
        yield f"{'' if place else label:<{LABEL}}{line}"


def _pairs(pairs: list[tuple[str, str]]) -> Iterator[str]:
    """Yield labelled values, two to a line; a long one has its own."""
    for left, right in zip(pairs[::2], pairs[1::2], strict=True):
        first, second = f"{left[0]:<{LABEL}}{left[1]}", f"{right[0]:<{LABEL}}{right[1]}"
        if len(first) < HALF:
            yield f"{first:<{HALF}}{second}"
        else:
            yield first
            yield second


def plain(text: str) -> str:
    """Return text on one line without control characters: it may come from a server."""
    return "".join(character if character.isprintable() else " " for character in text)


def clip(line: str, width: int) -> str:
    """Return the line cut to `width` terminal columns, with `…` where something is missing."""
    if len(line) <= width and line.isascii():
        return line
    columns = 0
    for place, character in enumerate(line):
        columns += _columns(character)
        if columns > width:
            while place and columns > width - 1:
                columns -= _columns(line[place])
                place -= 1
            return line[: place + 1] + "…"
    return line


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
