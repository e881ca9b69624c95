"""A sample of numbers as series: its distribution function, its histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtui.charts.axis import Axis
from lmtui.charts.draw import Series

CDF_POINTS = 1000
"""A distribution function of more values is drawn through so many of them: more than a screen has dots."""


def cdf(label: str, values: NDArray[np.float64], *, dashed: bool = False) -> Series:
    """Return the share (percent) of the values that are at most x, as steps; empty when no value is finite."""
    known = np.sort(values[np.isfinite(values)])
    if len(known) == 0:
        return Series(label, np.zeros(0), np.zeros(0), dashed, "steps")
    rank = np.arange(len(known))
    if len(known) > CDF_POINTS:
        rank = np.unique(np.rint(np.linspace(0, len(known) - 1, CDF_POINTS)).astype(np.int64))
    share = (rank + 1) / len(known) * 100
    return Series(label, np.append(known[rank[0]], known[rank]), np.append(0.0, share), dashed, "steps")


def histogram(label: str, values: NDArray[np.float64], axis: Axis, bins: int) -> Series:
    """Return how many of the values fall into each of `bins` parts of the axis that look equally wide, as bars."""
    known = values[np.isfinite(values)]
    edges = np.geomspace(axis.low, axis.high, bins + 1) if axis.log else np.linspace(axis.low, axis.high, bins + 1)
    counts = np.histogram(known, edges)[0].astype(np.float64)
    return Series(label, edges, np.append(counts, np.nan), shape="bars")
