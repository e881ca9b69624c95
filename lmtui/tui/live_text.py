"""The live screen's texts: a moment of a run to header, percentiles, counts, errors. Pure; no reading, no Textual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lmtui.charts.ticks import MISSING, clock, milliseconds, short
from lmtui.metrics.result import Distribution, Result
from lmtui.tui.plain import cell, line

if TYPE_CHECKING:
    from lmtui.tui.live_view import LiveView

WORKING = ("running", "draining")
METRICS = (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("ITL", "itl_ms"), ("E2E", "e2e_ms"))
_COLUMNS = (
    (66, ("mean", "p50", "p90", "p95", "p99", "max", "n")),
    (50, ("mean", "p50", "p90", "p99", "max", "n")),
    (0, ("p50", "p90", "p99", "max")),
)
_FIGURE = 7


def remaining_s(view: LiveView, duration_s: float | None) -> float | None:
    """Return how long the run will probably take still; None when that cannot be told yet."""
    if view.elapsed_s is None or view.status is None or view.status.phase != "running":
        return None
    by_requests = view.elapsed_s * (view.planned - view.done) / view.done if view.done >= 5 else None
    if duration_s is None:
        return by_requests
    return max(duration_s - view.elapsed_s, 0.0)


def head(
    view: LiveView, width: int, *, duration_s: float | None = None, is_frozen: bool = False, replay: str = ""
) -> str:
    """Return the first line: name, target and model at the left, phase and times, or the replay's, at the right."""
    status = view.status
    if status is None:
        return "the run's directory is gone" if view.is_gone else "reading the run …"
    parts = ["FROZEN"] if is_frozen else []
    parts.append(line(status.name))
    parts.append("SIMULATED" if status.simulated else line(status.target_kind))
    if status.target_model and status.target_model != status.target_kind:
        parts.append(line(status.target_model))
    left = "  ".join(parts)
    right = replay or status.phase
    if view.elapsed_s is not None and not replay:
        right += f"  {clock(view.elapsed_s)}"
    if (left_s := remaining_s(view, duration_s)) is not None and not replay:
        right += f"  ~{clock(left_s)} left"
    room = width - len(right) - 1
    return f"{cell(left, max(room, 0))} {right}"[: max(width, len(right))]


def progress(view: LiveView, width: int, result: Result | None, *, duration_s: float | None = None) -> str:
    """Return the second line: how far it is, what it waits for, or how it ended."""
    status = view.status
    if status is None:
        return ""
    if result is not None:
        m = result.metrics
        words = f"grade {result.client.grade}  {short(m.output_throughput)} tok/s  {short(m.request_throughput)} req/s"
        reasons = "; ".join(result.client.reasons)
        return cell(f"{words}  {line(reasons) if reasons else f'kept as {result.run_id}'}", width)
    if status.phase not in WORKING:
        return cell(line(status.message), width)
    share = view.done / view.planned if view.planned else 0.0
    if duration_s and view.elapsed_s is not None:
        share = max(min(view.elapsed_s / duration_s, 1.0), 0.0)
    size = 20 if width < 100 else 40
    full = round(size * min(share, 1.0))
    return cell(
        f"{'█' * full}{'░' * (size - full)} {share:4.0%}  {view.done}/{view.planned} done"
        f"  {view.in_flight} in flight  {view.tokens:,} tokens",
        width,
    )


def percentiles(figures: Mapping[str, Distribution], width: int) -> str:
    """Return the table of latencies in milliseconds, with as many columns as fit."""
    names = next(columns for least, columns in _COLUMNS if width >= least)
    size = _FIGURE if width < 50 else 8
    rows = [
        cell("ms", 5)
        + "".join(f"{name if name == 'n' else name.upper() if name[0] == 'p' else name:>{size}}" for name in names)
    ]
    for words, key in METRICS:
        of = figures.get(key, Distribution())
        rows.append(cell(words, 5) + "".join(f"{_figure(of, name):>{size}}" for name in names))
    return "\n".join(rows)


def _figure(of: Distribution, name: str) -> str:
    if name == "n":
        return short(of.n) if of.n >= 100_000 else str(of.n)
    text = milliseconds(getattr(of, name))
    return f"~{text}" if name in of.unresolved and text != MISSING else text


def counts(view: LiveView, width: int) -> str:
    """Return the counts: requests by state, then by outcome; failures by their names."""
    pairs = [("sent", f"{view.sent}/{view.planned}"), ("in flight", str(view.in_flight)), ("done", str(view.done))]
    pairs += [("ok", str(view.outcomes.get("ok", 0)))]
    pairs += [(name.replace("_", " "), str(n)) for name, n in view.outcomes.items() if n and name != "ok"]
    return columns(pairs, width - 1)


def cancel(view: LiveView, width: int, at_rate_0: Mapping[str, Distribution] | None = None) -> str:
    """Return the cancel experiment's counts, and its survivors beside a run without cancels, where there is one."""
    if (of := view.cancel) is None:
        return ""
    pairs = [("planned", str(of.planned)), ("done", str(of.done)), ("missed", str(of.missed))]
    costs = f"let go {milliseconds(of.let_go_p50_ms)} ms  wasted {short(of.wasted_tokens)} tokens"
    return "\n".join((columns(pairs, width - 1), costs, *_survivors(of.survivors, at_rate_0)))


def _survivors(of: Mapping[str, Distribution], at_rate_0: Mapping[str, Distribution] | None) -> Iterator[str]:
    heading = "survivors"
    for name in ("P50", "P99"):
        heading += f"{name:>{_FIGURE - 1}}" + (f"{'rate 0':>{_FIGURE}}" if at_rate_0 else "")
    yield heading
    for words, key in METRICS:
        if key not in of:
            continue
        text = cell(f"{words} ms", len("survivors"))
        for name in ("p50", "p99"):
            text += f"{_figure(of[key], name):>{_FIGURE - 1}}"
            text += f"{_figure(at_rate_0.get(key, Distribution()), name):>{_FIGURE}}" if at_rate_0 else ""
        yield text


def columns(pairs: list[tuple[str, str]], width: int) -> str:
    """Set words and figures in as many columns as fit, in reading order."""
    size = max((len(words) + len(figure) + 1 for words, figure in pairs), default=1)
    across = max((width + 2) // (size + 2), 1)
    size = max((width + 2) // across - 2, 1)
    cells = [f"{words}{figure:>{max(size - len(words), len(figure) + 1)}}" for words, figure in pairs]
    return "\n".join("  ".join(cells[i : i + across]) for i in range(0, len(cells), across))


def errors(view: LiveView, width: int) -> str:
    """Return a line for each cause of failures, the most frequent first."""
    if not view.errors:
        return "none"
    groups = sorted(view.errors, key=lambda group: -group.count)
    return "\n".join(cell(f"{group.count} × {group.outcome}: {line(group.message)}", width) for group in groups)


def final_figures(result: Result) -> dict[str, Distribution]:
    """Return the latencies of a result, by key."""
    return {key: getattr(result.metrics, key) for _, key in METRICS}
