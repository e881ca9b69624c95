"""Axes: the range that shows some values, linear or logarithmic, and where values and their marks stand on it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.charts import ticks

LOG_WHEN_WIDER_THAN = 50.0
"""Largest over smallest value from which on the axis is logarithmic."""
SHRINK_BELOW = 0.4
"""An axis that grew shrinks only when its values use less than this share of it."""
LARGEST = 1e200
"""What is larger is drawn as this large: sums and powers of it still fit a float. 1 / LARGEST is the smallest on a
logarithmic axis."""
EVEN = 0.75
"""Marks are evenly spaced when their smallest distance is at least this share of their largest."""
FAR = 9.0
"""What is further beyond an axis than so many of its lengths stands there."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values; `log`: equal distances are equal ratios (then `low` is positive)."""

    low: float = 0.0
    high: float = 1.0
    log: bool = False


def fit_values(
    values: NDArray[np.float64], *, reach: float | None = None, before: Axis | None = None, log: bool = True
) -> Axis:
    """Return the axis from zero, or logarithmic, for values of which some may not be finite.

    Args:
        values: What it shows.
        reach: A value that it reaches too, unless that is far above the others.
        before: The axis that is on screen: it grows at once and shrinks rarely, so that most cells stay as they are.
        log: Whether a wide range may make it logarithmic.
    """
    values = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    if len(values) == 0:
        return before or Axis()
    high = float(values.max())
    if reach is not None and math.isfinite(reach) and 0 < reach <= 2 * high:
        high = max(high, reach)
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


def around(values: NDArray[np.float64], *, log: bool = False) -> Axis:
    """Return the axis that begins and ends near the smallest and largest of the finite values.

    Logarithmic only when it is asked for and there are positive values; the others stand at its low end then.
    """
    values = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    positive = np.maximum(values[values > 0], 1 / LARGEST)
    if log and len(positive):
        low, high = float(positive.min()), float(positive.max())
        room = 1.03 if high / low > 1.05 else 2.0
        return Axis(low / room, high * room, log=True)
    if len(values) == 0:
        return Axis()
    low, high = float(values.min()), float(values.max())
    if high - low <= abs(high) * 1e-6:
        room = max(abs(high), 1 / LARGEST)
        return Axis(low - room / 2, high + room / 2)
    room = (high - low) * 0.03
    return Axis(0.0 if 0 <= low < (high - low) else low - room, high + room)


def share(values: NDArray[np.float64], axis: Axis) -> NDArray[np.float64]:
    """Return where values stand on an axis: 0 at its low end, 1 at its high end, beyond for what is beyond.

    NaN stays; what is beyond by more than FAR stands there.

    On a logarithmic axis what is not positive stands at the low end.
    """
    with np.errstate(all="ignore"):
        if axis.log:
            span = math.log10(axis.high) - math.log10(axis.low)
            found = (np.log10(np.where(values > 0, values, axis.low)) - math.log10(axis.low)) / (span or 1.0)
            found = np.where(np.isnan(values), np.nan, found)
        else:
            found = (values / 2 - axis.low / 2) / ((axis.high / 2 - axis.low / 2) or 1.0)
        return np.asarray(np.clip(found, -FAR, FAR), dtype=np.float64)


def height_of(values: NDArray[np.float64], axis: Axis, dots: int) -> NDArray[np.float64]:
    """Return the dot rows (0 at the top) of values on a vertical axis; what is beyond it stands at its edge."""
    return np.asarray((1 - np.clip(share(values, axis), 0.0, 1.0)) * (dots - 1), dtype=np.float64)


def y_marks(axis: Axis, rows: int) -> list[tuple[int, str]]:
    """Return row and word of each mark of a vertical axis, no two on one row.

    Of a linear axis as many as stand evenly spaced, as far as whole rows allow.
    """
    most = max(rows * 2 // 3 if axis.log else rows // 2, 2) if rows > 1 else 1
    finest = _placed(axis, rows, most)
    if axis.log:
        return finest
    fewer = (_placed(axis, rows, count) for count in range(most, 2, -1))
    return next((marks for marks in fewer if _are_even([row for row, _ in marks])), finest)


def _placed(axis: Axis, rows: int, most: int) -> list[tuple[int, str]]:
    at, words = _marks(axis, most)
    if not at:
        return []
    places = np.rint(height_of(np.array(at), axis, rows)).astype(int)
    return sorted({int(row): word for row, word in zip(reversed(places), reversed(words), strict=True)}.items())


def _are_even(rows: list[int]) -> bool:
    gaps = [below - above for above, below in itertools.pairwise(rows)]
    return len(gaps) > 1 and min(gaps) >= EVEN * max(gaps)


def _marks(axis: Axis, most: int) -> tuple[list[float], list[str]]:
    if axis.log:
        at = ticks.log_ticks(axis.low, axis.high, most)
        if len(at) > 1:
            return at, ticks.log_labels(at)
    at = ticks.linear_ticks(axis.low, axis.high, most)  # also where powers of ten are too far apart for the range
    return at, ticks.labels(at)


def x_words(axis: Axis, width: int, gutter: int, *, is_time: bool, unit: str = "") -> str:
    """Return the line below a chart: each mark's word under its place, none cut; the unit at the right where it fits.

    Args:
        axis: The horizontal axis.
        width: Cells of the line.
        gutter: Cells at the left that belong to the vertical axis.
        is_time: Whether its values are seconds, written as a clock.
        unit: What the values are.
    """
    columns = width - gutter
    room = width - len(unit) - 1 if unit and len(unit) + 12 < columns else width
    line = [" "] * width
    if room < width:
        line[width - len(unit) :] = unit
    end = -1
    most = max(columns // 10, 1) + 1
    if is_time:
        at = ticks.time_ticks(axis.low, axis.high, most)
        words = [ticks.clock(t) for t in at]
    else:
        at, words = _marks(axis, most)
    for value, word in zip(at, words, strict=True):
        start = gutter + round(float(share(np.array([value]), axis)[0]) * (columns - 1)) - len(word) // 2
        start = min(max(start, 0), width - len(word))
        if start > end + 1 and start >= 0 and start + len(word) <= room:
            line[start : start + len(word)] = word
            end = start + len(word) - 1
    return "".join(line)
