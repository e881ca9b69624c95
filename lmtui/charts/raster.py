"""Lines to dots, dots and bars to characters: braille with 2 × 4 dots a cell, eighths of blocks, or plain ASCII."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLANK = ord(" ")
BRAILLE = 0x2800
BRAILLE_DOTS = (4, 2)
"""Dots of a braille cell: rows, columns."""
MARKS = "●○◆◇▲△"
"""The mark of each series' points; it repeats after the last."""
ASCII_MARKS = "*o+x#@"
"""The same, and that of its lines, where braille cannot be shown."""
EIGHTHS = " ▁▂▃▄▅▆▇█"
"""A cell filled from below, by eighths."""

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint32)


def polyline(x: NDArray[np.float64], y: NDArray[np.float64], width: int, height: int) -> NDArray[np.bool_]:
    """Draw the line through the points (dot coordinates, y downwards) into a field of height × width dots.

    A point that is not finite breaks the line; a point alone is one dot; what lies outside is cut off.
    """
    dots = np.zeros((max(height, 0), max(width, 0)), dtype=np.bool_)
    if dots.size == 0 or len(x) == 0:
        return dots
    known = np.isfinite(x) & np.isfinite(y)
    column = np.rint(np.clip(np.where(known, x, 0), -1, width)).astype(np.int64)
    row = np.rint(np.clip(np.where(known, y, 0), -1, height)).astype(np.int64)
    _mark(dots, column[known], row[known])
    joined = known[:-1] & known[1:]
    x0, y0 = column[:-1][joined], row[:-1][joined]
    dx, dy = column[1:][joined] - x0, row[1:][joined] - y0
    steps = np.maximum(np.abs(dx), np.abs(dy))
    if (total := int(steps.sum())) == 0:
        return dots
    line = np.repeat(np.arange(len(steps)), steps)
    step = np.arange(total) - np.repeat(np.cumsum(steps) - steps, steps)
    share = step / np.maximum(steps, 1)[line]
    _mark(
        dots,
        np.rint(x0[line] + dx[line] * share).astype(np.int64),
        np.rint(y0[line] + dy[line] * share).astype(np.int64),
    )
    return dots


def _mark(dots: NDArray[np.bool_], column: NDArray[np.int64], row: NDArray[np.int64]) -> None:
    inside = (column >= 0) & (column < dots.shape[1]) & (row >= 0) & (row < dots.shape[0])
    dots[row[inside], column[inside]] = True


def dashed(dots: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the dots with gaps, so that a second line is told apart without colour."""
    gaps = np.arange(dots.shape[1]) % 4 < 2
    return dots & gaps[np.newaxis, :]


def braille_cells(dots: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the code points of the cells of a field of (4 rows) × (2 columns) dots; BLANK where no dot is."""
    rows, columns = dots.shape[0] // 4, dots.shape[1] // 2
    blocks = dots[: rows * 4, : columns * 2].reshape(rows, 4, columns, 2)
    bits: NDArray[np.uint32] = (blocks * _BITS[np.newaxis, :, np.newaxis, :]).sum(axis=(1, 3), dtype=np.uint32)
    return np.where(bits > 0, bits + BRAILLE, BLANK).astype(np.uint32)


def ascii_cells(dots: NDArray[np.bool_], mark: str) -> NDArray[np.uint32]:
    """Return the code points of a field of one dot a cell: `mark` or BLANK."""
    return np.where(dots, ord(mark), BLANK).astype(np.uint32)


def bars(
    x: NDArray[np.float64], y: NDArray[np.float64], width: int, height: int, mark: str, ascii_only: bool
) -> NDArray[np.uint32]:
    """Return the code points of bars: each from its x (share of the width) to the next one's, y (share) high.

    A bar that is narrower than a cell still has one, and of several in a cell the highest is seen; one that is not
    finite has none. With ASCII a column is filled with `mark` by whole cells.
    """
    cells = np.full((max(height, 0), max(width, 0)), BLANK, dtype=np.uint32)
    if cells.size == 0 or len(x) == 0:
        return cells
    tops = np.zeros(width)
    ends = np.append(x[1:], x[-1])
    known = np.isfinite(x) & np.isfinite(ends) & np.isfinite(y) & (y > 0) & (ends >= 0) & (x <= 1)
    for left, right, top in zip(x[known], ends[known], y[known], strict=True):
        first = min(max(int(left * width + 1e-9), 0), width - 1)
        past = min(max(int(right * width + 1e-9), first + 1), width)
        tops[first:past] = np.maximum(tops[first:past], min(top, 1.0))
    eighths = np.ceil(tops * height * 8 - 1e-9).astype(np.int64)
    filled = np.clip(eighths[np.newaxis, :] - 8 * np.arange(height - 1, -1, -1)[:, np.newaxis], 0, 8)
    if ascii_only:
        return np.where(filled >= 4, ord(mark), cells).astype(np.uint32)
    return np.asarray(np.array([ord(c) for c in EIGHTHS], dtype=np.uint32)[filled], dtype=np.uint32)
