"""The line chart: series to rows of styled text, with axes, legend, an objective's line and a log axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.charts import raster, ticks

Run = tuple[str, str]
"""Text, and the key of its style: a name of STYLES."""
Row = tuple[Run, ...]
"""One line of the chart; its runs fill the whole width."""

STYLES = ("blank", "axis", "label", "limit", "series-1", "series-2", "series-3", "series-4")
_BLANK, _AXIS, _LABEL, _LIMIT, _FIRST_SERIES = range(5)

LOG_WHEN_WIDER_THAN = 50.0
"""Largest over smallest value from which on the axis is logarithmic."""
SHRINK_BELOW = 0.4
"""The vertical axis shrinks only when its values use less than this share of it."""

LARGEST = 1e200
"""What is larger is drawn as this large: sums and powers of it still fit a float."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One line. `x` and `y` have equal length; NaN in `y` is a gap. `dashed` tells it apart without colour."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """A horizontal line: an objective."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Axis:
    """The vertical axis."""

    low: float = 0.0
    high: float = 1.0
    log: bool = False


def fit(series: Sequence[Series], limit: Limit | None = None, before: Axis | None = None, *, log: bool = True) -> Axis:
    """Return the vertical axis for these series.

    Args:
        series: What will be drawn; values that are not finite do not count.
        limit: An objective; the axis reaches it when it is not far above the values.
        before: The axis that is on screen: it grows at once and shrinks rarely, so that most cells stay as they are.
        log: Whether a wide range may make the axis logarithmic.
    """
    parts = [np.clip(s.y[np.isfinite(s.y)], -LARGEST, LARGEST) for s in series]
    values = np.concatenate(parts) if parts else np.zeros(0)
    if len(values) == 0:
        return before or Axis()
    high = float(values.max())
    if limit is not None and math.isfinite(limit.value) and 0 < limit.value <= 2 * high:
        high = max(high, limit.value)
    positive = values[values > 0]
    if log and len(positive) and high / float(positive.min()) > LOG_WHEN_WIDER_THAN:
        low = float(np.percentile(positive, 1))
        if high / low > LOG_WHEN_WIDER_THAN or (before is not None and before.log):
            return _sticky_log(max(float(positive.min()), high / 1e6), high, before)
    top = ticks.ceiling(high)
    low = -ticks.ceiling(-float(values.min())) if values.min() < 0 else 0.0
    if before is not None and not before.log and low >= before.low and SHRINK_BELOW * before.high < top <= before.high:
        return before
    return Axis(low, top)


def _sticky_log(low: float, high: float, before: Axis | None) -> Axis:
    bottom, top = 10.0 ** math.floor(math.log10(low)), ticks.ceiling(high)
    if before is not None and before.log:
        bottom = min(bottom, before.low) if bottom * 100 > before.low else bottom
        top = before.high if top <= before.high <= top * 10 else top
    return Axis(bottom, top, log=True)


def draw(
    series: Sequence[Series],
    width: int,
    height: int,
    *,
    axis: Axis,
    x_range: tuple[float, float],
    limit: Limit | None = None,
    unit: str = "",
    ascii_only: bool = False,
) -> list[Row]:
    """Return the chart as exactly `height` rows that are each exactly `width` cells wide.

    Args:
        series: At most as many lines as there are series styles are told apart by colour.
        width: Cells across; the gutter of labels is left out when there are fewer than 20.
        height: Rows; the legend needs 5 (one line without unit and objective has none), the horizontal labels 3.
        axis: The vertical axis, of `fit`.
        x_range: Seconds at the left and right edge.
        limit: An objective to draw as a line, and to name in the legend also when it lies outside.
        unit: Written in the legend.
        ascii_only: Draw with ASCII alone.
    """
    if width < 1 or height < 1:
        return []
    has_legend = height >= 5 and (bool(unit) or len(series) > 1 or limit is not None)
    has_times = height >= 3
    rows = height - has_legend - has_times
    marks = _y_marks(axis, rows)
    gutter = max((len(word) for _, word in marks), default=0) + 1 if width >= 20 else 0
    chars = np.full((rows, width), raster.BLANK, dtype=np.uint32)
    styles = np.full((rows, width), _BLANK, dtype=np.uint8)
    if gutter:
        _draw_gutter(chars, styles, marks, gutter, ascii_only)
    plot, plot_styles = chars[:, gutter:], styles[:, gutter:]
    if limit is not None:
        _draw_limit(plot, plot_styles, axis, limit, ascii_only)
    for number, one in enumerate(series):
        _draw_series(plot, plot_styles, one, number, axis, x_range, ascii_only)
    result = [_row(chars[r], styles[r]) for r in range(rows)]
    if has_legend:
        result.insert(0, _legend(series, limit, unit, width, gutter, axis, ascii_only))
    if has_times:
        result.append(_times(x_range, width, gutter))
    return result


def _place(values: NDArray[np.float64], axis: Axis, dots: int) -> NDArray[np.float64]:
    """Return the dot rows (0 at the top) of values."""
    with np.errstate(all="ignore"):
        if axis.log:
            span = math.log10(axis.high) - math.log10(axis.low)
            share = (np.log10(np.where(values > 0, values, axis.low)) - math.log10(axis.low)) / (span or 1.0)
            share = np.where(np.isnan(values), np.nan, share)
        else:
            share = (values / 2 - axis.low / 2) / ((axis.high / 2 - axis.low / 2) or 1.0)
    return np.asarray((1 - np.clip(share, 0.0, 1.0)) * (dots - 1), dtype=np.float64)


def _y_marks(axis: Axis, rows: int) -> list[tuple[int, str]]:
    """Return row and word of each mark of the vertical axis, no two on one row."""
    most = max(rows * 2 // 3 if axis.log else rows // 2, 2) if rows > 1 else 1
    at = ticks.log_ticks(axis.low, axis.high, most) if axis.log else ticks.linear_ticks(axis.low, axis.high, most)
    words = ticks.log_labels(at) if axis.log else ticks.labels(at)
    placed: dict[int, str] = {}
    if at:
        for row, word in zip(np.rint(_place(np.array(at), axis, rows)).astype(int), words, strict=True):
            placed.setdefault(int(row), word)
    return sorted(placed.items())


def _draw_gutter(
    chars: NDArray[np.uint32], styles: NDArray[np.uint8], marks: list[tuple[int, str]], gutter: int, ascii_only: bool
) -> None:
    line, cross = ("|", "+") if ascii_only else ("│", "┤")
    chars[:, gutter - 1], styles[:, gutter - 1] = ord(line), _AXIS
    for row, word in marks:
        chars[row, gutter - 1 - len(word) : gutter - 1] = [ord(c) for c in word]
        styles[row, gutter - 1 - len(word) : gutter - 1] = _LABEL
        chars[row, gutter - 1] = ord(cross)


def _draw_limit(
    plot: NDArray[np.uint32], styles: NDArray[np.uint8], axis: Axis, limit: Limit, ascii_only: bool
) -> None:
    if not axis.low <= limit.value <= axis.high or plot.shape[1] == 0:
        return
    row = int(np.rint(_place(np.array([limit.value]), axis, plot.shape[0]))[0])
    plot[row, :], styles[row, :] = ord("-" if ascii_only else "╌"), _LIMIT


def _draw_series(
    plot: NDArray[np.uint32],
    styles: NDArray[np.uint8],
    series: Series,
    number: int,
    axis: Axis,
    x_range: tuple[float, float],
    ascii_only: bool,
) -> None:
    rows, columns = plot.shape
    down, across = (1, 1) if ascii_only else raster.BRAILLE_DOTS
    with np.errstate(all="ignore"):
        x = (series.x - x_range[0]) / ((x_range[1] - x_range[0]) or 1.0) * (columns * across - 1)
    y = np.where(np.isfinite(series.y), np.clip(series.y, -LARGEST, LARGEST), np.nan)
    dots = raster.polyline(x, _place(y, axis, rows * down), columns * across, rows * down)
    if series.dashed and not ascii_only:
        dots = raster.dashed(dots)
    if ascii_only:
        cells = raster.ascii_cells(dots, raster.ASCII_MARKS[number % len(raster.ASCII_MARKS)])
    else:
        cells = raster.braille_cells(dots)
    drawn = cells != raster.BLANK
    if not ascii_only:
        shared = drawn & (plot >= raster.BRAILLE) & (plot < raster.BRAILLE + 256)
        cells = np.where(shared, cells | plot, cells)
    plot[drawn] = cells[drawn]
    styles[drawn] = _FIRST_SERIES + number % (len(STYLES) - _FIRST_SERIES)


def _legend(
    series: Sequence[Series], limit: Limit | None, unit: str, width: int, gutter: int, axis: Axis, ascii_only: bool
) -> Row:
    runs: list[Run] = [(" " * gutter, "blank")]
    if unit:
        runs.append((f"{unit}{' (log)' if axis.log else ''}  ", "label"))
    if len(series) > 1:
        for number, one in enumerate(series):
            mark = raster.ASCII_MARKS[number % 4] if ascii_only else ("⠒ ⠒" if one.dashed else "⠒⠒⠒")
            runs.append((f"{mark} ", STYLES[_FIRST_SERIES + number % 4]))
            runs.append((f"{one.label}  ", "label"))
    if limit is not None:
        where = " (above)" if limit.value > axis.high else ""
        runs.append((f"{'---' if ascii_only else '╌╌╌'} ", "limit"))
        runs.append((f"{limit.label}{where}", "label"))
    return _to_width(runs, width)


def _times(x_range: tuple[float, float], width: int, gutter: int) -> Row:
    """Return the row of labels of the horizontal axis; each stands under its time, and none is cut."""
    columns = width - gutter
    line = [" "] * width
    end = -1
    for at in ticks.time_ticks(*x_range, max(columns // 10, 1) + 1):
        word = ticks.clock(at)
        share = (at - x_range[0]) / ((x_range[1] - x_range[0]) or 1.0)
        start = gutter + round(share * (columns - 1)) - len(word) // 2
        start = min(max(start, 0), width - len(word))
        if start > end + 1 and start >= 0:
            line[start : start + len(word)] = word
            end = start + len(word) - 1
    return (("".join(line), "label"),)


def _row(chars: NDArray[np.uint32], styles: NDArray[np.uint8]) -> Row:
    text = chars.astype("<u4").tobytes().decode("utf-32-le")
    edges = [0, *(np.flatnonzero(np.diff(styles)) + 1).tolist(), len(text)]
    return tuple((text[a:b], STYLES[styles[a]]) for a, b in itertools.pairwise(edges))


def _to_width(runs: list[Run], width: int) -> Row:
    result: list[Run] = []
    left = width
    for text, style in runs:
        if cut := text[:left]:
            result.append((cut, style))
        left -= len(cut)
    if left:
        result.append((" " * left, "blank"))
    return tuple(result)
