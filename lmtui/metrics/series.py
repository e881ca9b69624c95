"""Figures per second of a run, from the start: what the live charts draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.histogram import BUCKETS, bucket_of, percentiles_ns

BIN_NS = 1_000_000_000
OPEN_BINS = 256
"""Bins that still take samples; what comes later than this for an older one is left out of its percentiles."""
_SHOWN = np.array([50.0, 99.0])


class CountSeries:
    """A sum per bin, growing with the run."""

    def __init__(self) -> None:
        self._sums = np.zeros(256)
        self._used = 0

    def add(self, bins: NDArray[np.int64], amounts: NDArray[np.float64] | None = None) -> None:
        """Add amounts (None: 1 each) to bins."""
        if len(bins) == 0:
            return
        sums = np.bincount(bins, weights=amounts)
        self._used = max(self._used, len(sums))
        if self._used > len(self._sums):
            self._sums = np.concatenate((self._sums, np.zeros(max(self._used - len(self._sums), len(self._sums)))))
        self._sums[: len(sums)] += sums

    def values(self, bins: int) -> NDArray[np.float64]:
        """Return the sums of the first `bins` bins; those without an amount are 0."""
        values = np.zeros(bins)
        kept = min(bins, self._used)
        values[:kept] = self._sums[:kept]
        return values


@dataclass(frozen=True, slots=True, eq=False)
class PercentileLines:
    """P50 and P99 per bin in milliseconds; NaN where a bin has no sample."""

    p50_ms: NDArray[np.float64]
    p99_ms: NDArray[np.float64]


class PercentileSeries:
    """P50 and P99 of times per bin. The newest bins keep their buckets; older ones keep the two figures."""

    def __init__(self) -> None:
        self._counts = np.zeros((OPEN_BINS, BUCKETS), dtype=np.int64)
        self._figures_ms = np.full((256, 2), np.nan)
        self._changed = np.zeros(OPEN_BINS, dtype=np.bool_)
        self._end = 0

    def add(self, bins: NDArray[np.int64], values_ns: NDArray[np.int64]) -> None:
        """Add times in nanoseconds to bins."""
        if len(bins) == 0:
            return
        self._advance(int(bins.max()) + 1)
        is_open = bins >= self._end - OPEN_BINS
        rows = bins[is_open] % OPEN_BINS
        np.add.at(self._counts.reshape(-1), rows * BUCKETS + bucket_of(values_ns[is_open]), 1)
        self._changed[rows] = True

    def lines(self, bins: int) -> PercentileLines:
        """Return the lines over the first `bins` bins."""
        self._settle(np.flatnonzero(self._changed))
        values = np.full((bins, 2), np.nan)
        kept = min(bins, self._end)
        values[:kept] = self._figures_ms[:kept]
        return PercentileLines(values[:, 0], values[:, 1])

    def _advance(self, end: int) -> None:
        """Open the bins up to `end`; the oldest ones give their rows to them."""
        if end <= self._end:
            return
        if end > len(self._figures_ms):
            more = np.full((max(end - len(self._figures_ms), len(self._figures_ms)), 2), np.nan)
            self._figures_ms = np.concatenate((self._figures_ms, more))
        rows = np.arange(self._end, end)[-OPEN_BINS:] % OPEN_BINS
        self._settle(rows[self._changed[rows]])
        self._counts[rows] = 0
        self._end = end

    def _settle(self, rows: NDArray[np.int64]) -> None:
        """Compute the figures of rows that changed."""
        for row in rows.tolist():
            at = self._end - 1 - (self._end - 1 - row) % OPEN_BINS
            self._figures_ms[at] = percentiles_ns(self._counts[row], _SHOWN) / 1e6
        self._changed[rows] = False
