"""Rows of the history as points: one column against another, with a line for each value of a third. No Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.charts.draw import MOST_SERIES, Series
from lmtui.results.rows import Row
from lmtui.tui.plain import line, to_ascii

ACROSS = ("load.rate", "load.concurrency", "cancel.rate", "dataset.input_len", "dataset.output_len", "started_at")
"""What goes across, if it varies: the first of these."""
TIME = "started_at"
"""Goes across as days before the newest run that is drawn."""
LINES = ("target.kind", "target.model", "name")
MOST_LETTERS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """What is drawn.

    Attributes:
        series: Marks with lines through them, from left to right.
        left_out: How many rows lack one of the two numbers.
        undrawn: How many values of the third column have no line: more than can be told apart.
    """

    series: tuple[Series, ...]
    left_out: int
    undrawn: int


def first_choice(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return the columns that probably tell most: across, upward, lines by ("" for one line)."""
    across = next((name for name in ACROSS if _varies(rows, name)), "load.concurrency")
    upward = "ttft_ms.p99" if across == "load.rate" else "output_throughput"
    lines = next((name for name in LINES if 1 < len({row.text(name) for row in rows}) <= len(rows) // 2), "")
    return across, upward, lines


def _varies(rows: Sequence[Row], name: str) -> bool:
    return len({value for row in rows if (value := number(row, name)) is not None and np.isfinite(value)}) > 1


def number(row: Row, name: str) -> float | None:
    """Return a cell as a number; of a time its days since 1970."""
    if name != TIME:
        return row.number(name)
    try:
        return float(np.datetime64(row.text(name).rstrip("Z"), "s").astype(np.int64)) / 86400
    except ValueError:
        return None


def numeric(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return the columns that hold a number in some row."""
    return [name for name in columns if any(number(row, name) is not None for row in rows)]


def plot(rows: Sequence[Row], across: str, upward: str, lines: str) -> Plot:
    """Return the points of the rows; `lines` "": all of them are one line."""
    groups: dict[str, list[tuple[float, float]]] = {}
    left_out = 0
    for row in rows:
        x, y = number(row, across), number(row, upward)
        if x is None or y is None or not (np.isfinite(x) and np.isfinite(y)):
            left_out += 1
            continue
        groups.setdefault(row.text(lines) if lines else "", []).append((x, y))
    newest = max((x for points in groups.values() for x, _ in points), default=0.0) if across == TIME else 0.0
    order = sorted(groups, key=_as_number_or_text)
    series = [_series(name, groups[name], newest) for name in order[:MOST_SERIES]]
    return Plot(tuple(series), left_out, max(len(order) - MOST_SERIES, 0))


def _as_number_or_text(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text


def _series(name: str, points: Sequence[tuple[float, float]], zero: float) -> Series:
    ordered = sorted(points)
    x: NDArray[np.float64] = np.array([p[0] - zero for p in ordered])
    y: NDArray[np.float64] = np.array([p[1] for p in ordered])
    label = line(name).rstrip("/").rpartition("/")[2][:MOST_LETTERS]
    return Series(to_ascii(label) or "none", x, y, shape="joined" if len(np.unique(x)) > 1 else "points")
