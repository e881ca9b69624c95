"""The comparison and the CSV rows of LMDeploy's benchmark_guided.py: what guided decoding costs.

The script's rows and widths, with one difference: its profiler drops every request that stopped before the asked
length, so that with natural stops its figures cover full-length answers alone; here such requests count. The figures
to compare are those per token (TPOT, ITL), for the constraint changes how long answers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lmtui.metrics import script_columns
from lmtui.metrics.lmdeploy_table import LmdeployFigures, figures
from lmtui.metrics.requests import per_request
from lmtui.metrics.sessions import Outcome, Sessions

NONE = "-"
_LABEL, _CELL = 36, 14


@dataclass(frozen=True, slots=True)
class GuidedFigures:
    """The figures of one run, and the output lengths of its successful requests (None without one)."""

    profile: LmdeployFigures
    mean_output_len: float | None
    median_output_len: float | None

    @property
    def values(self) -> dict[str, float | int | None]:
        """The script's name of each figure → its value, latencies in seconds; None: there is none."""
        profile, streams = self.profile, self.profile.stream_output
        values = (
            profile.elapsed_s,
            profile.total_input,
            profile.total_output,
            profile.success,
            self.mean_output_len,
            self.median_output_len,
            profile.output_throughput,
            profile.input_throughput,
            profile.rps,
            profile.e2e.mean,
            profile.e2e.percentiles[0],
            profile.e2e.percentiles[-1],
            profile.tpot.mean,
            profile.tpot.percentiles[-1],
            profile.ttft.mean if streams else None,
            profile.ttft.percentiles[-1] if streams else None,
            profile.itl.mean if streams else None,
            profile.itl.percentiles[-1] if streams else None,
        )
        return dict(zip(script_columns.GUIDED_FIGURES, values, strict=True))


def guided_figures(sessions: Sessions, *, stream_output: bool) -> GuidedFigures:
    """Return the figures of one run; a request that stopped by itself succeeded with the tokens that it made."""
    requests = per_request(sessions)
    stopped = (sessions.outcome == Outcome.OK) & (requests.ticks > 0)
    natural = replace(
        sessions, asked_len=np.where(stopped, np.minimum(sessions.asked_len, requests.total), sessions.asked_len)
    )
    profile = figures(natural, stream_output=stream_output, closed_load=False)
    lengths = requests.total[requests.sent & (requests.ticks > 0) & (requests.total >= natural.asked_len)]
    if len(lengths) == 0:
        return GuidedFigures(profile, None, None)
    return GuidedFigures(profile, float(np.mean(lengths)), float(np.median(lengths)))


_SECTIONS: Sequence[tuple[str, Sequence[tuple[str, str, str]]]] = (
    (
        "--- Output Length Context ---",
        (
            ("Successful requests", "success", ""),
            ("Avg output tokens / request", "avg_output_len", ""),
            ("Median output tokens / request", "median_output_len", ""),
            ("Total output tokens", "total_output", ""),
        ),
    ),
    (
        "--- Per-Token Latency (fair metric) ---",
        (
            ("TPOT mean (ms)", "tpot_mean", "ms"),
            ("TPOT P99 (ms)", "tpot_p99", "ms"),
            ("ITL mean (ms)", "itl_mean", "stream ms"),
            ("ITL P99 (ms)", "itl_p99", "stream ms"),
        ),
    ),
    (
        "--- E2E / TTFT (length-dependent, for reference) ---",
        (
            ("E2E latency mean (ms)", "e2e_mean", "ms"),
            ("E2E latency P99 (ms)", "e2e_p99", "ms"),
            ("TTFT mean (ms)", "ttft_mean", "stream ms"),
            ("TTFT P99 (ms)", "ttft_p99", "stream ms"),
        ),
    ),
    (
        "--- Throughput (length-biased, for reference) ---",
        (
            ("Output throughput (tok/s)", "output_throughput", ""),
            ("Input throughput (tok/s)", "input_throughput", ""),
            ("Request throughput (req/s)", "rps", ""),
        ),
    ),
)
"""Heading → rows: label, figure, unit; rows marked `stream` only when tokens came one by one."""

_PER_TOKEN = _SECTIONS[1][0]


def comparison(baseline: GuidedFigures | None, guided: GuidedFigures, *, label: str, ignores_eos: bool) -> str:
    """Return the table that the script prints at the end, the blank line before it included.

    Args:
        baseline: The run without a constraint; None: there was none, and there is nothing to compare.
        guided: The run with it.
        label: Its format and concurrency.
        ignores_eos: Whether answers were forced to their length.
    """
    width = _LABEL + _CELL * (3 if baseline else 2)
    mode = "ignore_eos=True (forced length)" if ignores_eos else "ignore_eos=False (natural stop)"
    title = f" Guided Decoding Benchmark: {label} "
    lines = ["", "=" * width, f"{title:=^{width}}", f" Mode: {mode}", "-" * width]
    heads = ("Baseline", "Guided", "Diff") if baseline else ("Guided",)
    lines += [f"{'Metric':<{_LABEL}}" + "".join(f"{head:>{_CELL}}" for head in heads), "-" * width]
    new = guided.values
    old = baseline.values if baseline else None
    for heading, rows in _SECTIONS:
        lines.append(f"{heading:<{width}}")
        for name, key, unit in rows:
            if unit.startswith("stream") and not guided.profile.stream_output:
                continue
            cells = [_shown(new[key], unit)]
            if old is not None:
                cells = [_shown(old[key], unit), *cells, _difference(old[key], new[key])]
            lines.append(f"{name:<{_LABEL}}" + "".join(f"{cell:>{_CELL}}" for cell in cells))
        if heading == _PER_TOKEN and old is not None and old["tpot_mean"] and new["tpot_mean"] is not None:
            overhead = (new["tpot_mean"] - old["tpot_mean"]) / old["tpot_mean"] * 100
            share = f"{overhead:+.1f}%"
            lines.append(f"{'** Per-token overhead (TPOT)':<{_LABEL}}{share:>{_CELL}}")
    lines.append("=" * width)
    return "\n".join(lines) + "\n"


def _shown(value: float | int | None, unit: str) -> str:
    if value is None:
        return NONE
    if unit.endswith("ms"):
        value = value * 1000
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _difference(old: float | int | None, new: float | int | None) -> str:
    return NONE if not old or new is None else f"{(new - old) / abs(old) * 100:+.1f}%"


def csv_row(figures: GuidedFigures, hyperparams: Sequence[object]) -> bytes:
    """Return one run's row; `hyperparams`: the values of the columns up to `dataset_name`."""
    return script_columns.line([*hyperparams, *(NONE if value is None else value for value in figures.values.values())])
