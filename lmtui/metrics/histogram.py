"""Counts in buckets of 1 % growth: percentiles of a stream of times, within 1 % of the exact ones, in fixed memory."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.distribution import EMPTY, PERCENTILES
from lmtui.metrics.result import Distribution

GROWTH = 1.01
SMALLEST_NS = 1_000.0
LARGEST_NS = 1e13
BUCKETS = 2 + math.ceil(math.log(LARGEST_NS / SMALLEST_NS) / math.log(GROWTH))
"""Bucket 0 holds times under a microsecond, shown as 0; the last one everything from about three hours up."""

_LOG_GROWTH = math.log(GROWTH)
MIDDLE_NS = SMALLEST_NS * np.power(GROWTH, np.arange(BUCKETS, dtype=np.float64) - 0.5)
MIDDLE_NS[0] = 0.0
MIDDLE_NS.setflags(write=False)


def bucket_of(values_ns: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bucket of each time."""
    scaled = np.log(np.maximum(values_ns, SMALLEST_NS) / SMALLEST_NS) / _LOG_GROWTH
    buckets = np.minimum(scaled.astype(np.int64) + 1, BUCKETS - 1)
    buckets[values_ns < SMALLEST_NS] = 0
    return buckets


def percentiles_ns(counts: NDArray[np.int64], percentages: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return percentiles of bucket counts in nanoseconds, interpolated between order statistics as NumPy does.

    NaN everywhere when the counts are all 0.
    """
    up_to = np.cumsum(counts)
    n = int(up_to[-1])
    if n == 0:
        return np.full(len(percentages), np.nan)
    rank = percentages / 100 * (n - 1)
    below = np.floor(rank)
    low = MIDDLE_NS[np.searchsorted(up_to, below, side="right")]
    high = MIDDLE_NS[np.searchsorted(up_to, np.minimum(below + 1, n - 1), side="right")]
    return np.asarray(low + (high - low) * (rank - below))


class Histogram:
    """A growing sample of times."""

    def __init__(self) -> None:
        self.counts = np.zeros(BUCKETS, dtype=np.int64)
        self._n = 0
        self._sum = 0.0
        self._square_sum = 0.0
        self._least = math.inf
        self._most = -math.inf

    def add(self, values_ns: NDArray[np.int64] | NDArray[np.float64]) -> None:
        """Add times of shape (k,) in nanoseconds."""
        if len(values_ns) == 0:
            return
        values = values_ns.astype(np.float64)
        self.counts += np.bincount(bucket_of(values), minlength=BUCKETS)
        self._n += len(values)
        self._sum += float(values.sum())
        self._square_sum += float(values @ values)
        self._least = min(self._least, float(values.min()))
        self._most = max(self._most, float(values.max()))

    def copy(self) -> Histogram:
        """Return one that grows by itself."""
        other = Histogram()
        other.counts = self.counts.copy()
        other._n, other._sum, other._square_sum = self._n, self._sum, self._square_sum
        other._least, other._most = self._least, self._most
        return other

    def merged(self, values_ns: NDArray[np.float64]) -> Histogram:
        """Return a copy with these times added."""
        both = self.copy()
        both.add(values_ns)
        return both

    def figures_ms(self) -> Distribution:
        """Return the sample's figures in milliseconds: percentiles within 1 %, the others exact."""
        if self._n == 0:
            return EMPTY
        cuts = percentiles_ns(self.counts, np.array([q for _, q, _ in PERCENTILES]))
        cuts = np.clip(cuts, self._least, self._most) / 1e6
        mean = self._sum / self._n
        return Distribution(
            mean=mean / 1e6,
            std=math.sqrt(max(self._square_sum / self._n - mean * mean, 0.0)) / 1e6,
            min=self._least / 1e6,
            max=self._most / 1e6,
            n=self._n,
            unresolved=tuple(name for name, _, smallest in PERCENTILES if self._n < smallest),
            **{name: float(cut) for (name, _, _), cut in zip(PERCENTILES, cuts, strict=True)},
        )
