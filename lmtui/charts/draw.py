"""Charts: series to rows of styled text, as lines, steps, points or bars, with axes, legend and an objective's line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmtui.charts import raster
from lmtui.charts.axis import LARGEST, Axis, fit_values, height_of, share, x_words, y_marks

Run = tuple[str, str]
"""Text, and the key of its style: a name of STYLES."""
Row = tuple[Run, ...]
"""One line of the chart; its runs fill the whole width."""

Shape = Literal["line", "steps", "points", "joined", "bars"]
"""A line; a value that holds until the next one; marks; marks with a line; steps filled down to the axis."""

STYLES = ("blank", "axis", "label", "limit", *(f"series-{number}" for number in range(1, 7)))
_BLANK, _AXIS, _LABEL, _LIMIT, _FIRST_SERIES = range(5)
MOST_SERIES = len(STYLES) - _FIRST_SERIES
"""So many series are told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One line, or what its `shape` says. `x` and `y` have equal length; NaN in `y` is a gap.

    For steps and bars x is where each value begins, ascending; the last one ends where the series ends.
    `dashed` tells a line apart without colour.
    """

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    dashed: bool = False
    shape: Shape = "line"


@dataclass(frozen=True, slots=True)
class Limit:
    """A horizontal line: an objective."""

    label: str
    value: float


def fit(series: Sequence[Series], limit: Limit | None = None, before: Axis | None = None, *, log: bool = True) -> Axis:
    """Return the vertical axis for these series; see `fit_values`. It reaches an objective that is not far above."""
    values = np.concatenate([one.y for one in series]) if series else np.zeros(0)
    return fit_values(values, reach=None if limit is None else limit.value, before=before, log=log)


def draw(
    series: Sequence[Series],
    width: int,
    height: int,
    *,
    axis: Axis,
    x: Axis,
    x_is_time: bool = True,
    x_unit: str = "",
    limit: Limit | None = None,
    unit: str = "",
    nothing: str = "",
    ascii_only: bool = False,
) -> list[Row]:
    """Return the chart as exactly `height` rows that are each exactly `width` cells wide.

    Args:
        series: At most MOST_SERIES are told apart.
        width: Cells across; the gutter of labels is left out when there are fewer than 20.
        height: Rows; the legend needs 5 (one line without unit and objective has none), the horizontal labels 3.
        axis: The vertical axis, of `fit`.
        x: The horizontal axis.
        x_is_time: Whether its values are seconds, written as a clock.
        x_unit: Written at its right end.
        limit: An objective to draw as a line, and to name in the legend also when it lies outside.
        unit: Written in the legend.
        nothing: What stands in the middle when no series has any value; "": empty axes do.
        ascii_only: Draw with ASCII alone.
    """
    if width < 1 or height < 1:
        return []
    if nothing and not any(np.isfinite(one.y).any() for one in series):
        words = nothing[:width].center(width)
        return [(((words, "label"),) if r == height // 2 else ((" " * width, "blank"),)) for r in range(height)]
    has_legend = height >= 5 and (bool(unit) or len(series) > 1 or limit is not None)
    has_words = height >= 3
    rows = height - has_legend - has_words
    marks = y_marks(axis, rows)
    gutter = max((len(word) for _, word in marks), default=0) + 1 if width >= 20 else 0
    chars = np.full((rows, width), raster.BLANK, dtype=np.uint32)
    styles = np.full((rows, width), _BLANK, dtype=np.uint8)
    if gutter:
        _draw_gutter(chars, styles, marks, gutter, ascii_only)
    plot, plot_styles = chars[:, gutter:], styles[:, gutter:]
    if limit is not None:
        _draw_limit(plot, plot_styles, axis, limit, ascii_only)
    for number, one in enumerate(series):
        _draw_series(plot, plot_styles, one, number, axis, x, ascii_only)
    result = [_row(chars[r], styles[r]) for r in range(rows)]
    if has_legend:
        result.insert(0, _legend(series, limit, unit, width, gutter, axis, ascii_only))
    if has_words:
        result.append(((x_words(x, width, gutter, is_time=x_is_time, unit=x_unit), "label"),))
    return result


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
    row = int(np.rint(height_of(np.array([limit.value]), axis, plot.shape[0]))[0])
    plot[row, :], styles[row, :] = ord("-" if ascii_only else "╌"), _LIMIT


def _draw_series(
    plot: NDArray[np.uint32],
    styles: NDArray[np.uint8],
    series: Series,
    number: int,
    axis: Axis,
    x_axis: Axis,
    ascii_only: bool,
) -> None:
    x = share(series.x, x_axis)
    y = np.where(np.isfinite(series.y), np.clip(series.y, -LARGEST, LARGEST), np.nan)
    if series.shape == "bars":
        cells = raster.bars(x, share(y, axis), plot.shape[1], plot.shape[0], _mark(number, ascii_only), ascii_only)
        _lay(plot, styles, cells, number)
        return
    if series.shape == "steps":
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    if series.shape != "points":
        _lay(plot, styles, _line_cells(plot, series, number, x, y, axis, ascii_only), number)
    if series.shape in ("points", "joined"):
        at = np.rint(x * (plot.shape[1] - 1)), np.rint(height_of(y, axis, plot.shape[0]))
        known = np.isfinite(x) & np.isfinite(y) & (x >= 0) & (x <= 1)
        cells = np.full(plot.shape, raster.BLANK, dtype=np.uint32)
        if cells.size:
            cells[at[1][known].astype(int), at[0][known].astype(int)] = ord(_mark(number, ascii_only))
        _lay(plot, styles, cells, number)


def _line_cells(
    plot: NDArray[np.uint32],
    series: Series,
    number: int,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    axis: Axis,
    ascii_only: bool,
) -> NDArray[np.uint32]:
    rows, columns = plot.shape
    down, across = (1, 1) if ascii_only else raster.BRAILLE_DOTS
    dots = raster.polyline(x * (columns * across - 1), height_of(y, axis, rows * down), columns * across, rows * down)
    if ascii_only:
        return raster.ascii_cells(dots, _mark(number, ascii_only=True))
    cells = raster.braille_cells(raster.dashed(dots) if series.dashed else dots)
    shared = (cells != raster.BLANK) & (plot >= raster.BRAILLE) & (plot < raster.BRAILLE + 256)
    return np.where(shared, cells | plot, cells)


def _lay(plot: NDArray[np.uint32], styles: NDArray[np.uint8], cells: NDArray[np.uint32], number: int) -> None:
    drawn = cells != raster.BLANK
    plot[drawn] = cells[drawn]
    styles[drawn] = _FIRST_SERIES + number % MOST_SERIES


def _mark(number: int, ascii_only: bool) -> str:
    marks = raster.ASCII_MARKS if ascii_only else raster.MARKS
    return marks[number % len(marks)]


def _legend(
    series: Sequence[Series], limit: Limit | None, unit: str, width: int, gutter: int, axis: Axis, ascii_only: bool
) -> Row:
    runs: list[Run] = [(" " * gutter, "blank")]
    if unit:
        runs.append((f"{unit}{' (log)' if axis.log else ''}  ", "label"))
    if len(series) > 1:
        for number, one in enumerate(series):
            is_marked = ascii_only or one.shape in ("points", "joined")
            mark = _mark(number, ascii_only) if is_marked else "⠒ ⠒" if one.dashed else "⠒⠒⠒"
            runs.append((f"{mark} ", STYLES[_FIRST_SERIES + number % MOST_SERIES]))
            runs.append((f"{one.label}  ", "label"))
    if limit is not None:
        where = " (above)" if limit.value > axis.high else ""
        runs.append((f"{'---' if ascii_only else '╌╌╌'} ", "limit"))
        runs.append((f"{limit.label}{where}", "label"))
    return _to_width(runs, width)


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
