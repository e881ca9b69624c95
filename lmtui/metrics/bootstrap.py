"""Percentile bootstrap over the requests of one run: how far a figure could have come out otherwise.

Requests are drawn with replacement and bring all their values along (a gap never without the others of its request,
for they depend on each other). Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 13.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.distribution import PERCENTILES
from lmtui.metrics.latencies import Latency

REPLICATES = 1000
LEVEL = 0.95
FEWEST_REQUESTS = 10
"""Fewer requests than this say too little about what others would have given."""
FIGURES = ("mean", "p50", "p90", "p95", "p99")

_CELLS = 1_000_000
"""Numbers of one array held at once."""
_SHARES = {name: (q / 100, smallest) for name, q, smallest in PERCENTILES}


def replicates(latency: Latency, random: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Return figure → its values (REPLICATES) in as many runs drawn from the requests of this one.

    A percentile that the sample cannot resolve (n < 1 / (1 - q)) has none, and no figure has any when fewer than
    FEWEST_REQUESTS requests have a value.
    """
    requests, owner = np.unique(latency.owner, return_inverse=True)
    n, m = len(requests), len(latency.values_ms)
    if n < FEWEST_REQUESTS:
        return {}
    order = np.argsort(latency.values_ms, kind="stable")
    pool = _Pool(latency.values_ms[order], owner[order].astype(np.int64), n)
    sums = np.bincount(owner, weights=latency.values_ms)
    named = [name for name in FIGURES if name == "mean" or m >= _SHARES[name][1]]
    found = {name: np.empty(REPLICATES) for name in named}
    step = max(1, _CELLS // n)
    for start in range(0, REPLICATES, step):
        rows = slice(start, min(start + step, REPLICATES))
        times = _times_drawn(rows.stop - start, n, random)
        ends = pool.ends(times)
        for name in named:
            if name == "mean":
                found[name][rows] = times @ sums / ends[:, -1]
            else:
                found[name][rows] = [pool.percentile(*row, _SHARES[name][0]) for row in zip(times, ends, strict=True)]
    return found


def interval(figures: NDArray[np.float64]) -> tuple[float, float]:
    """Return the bounds that LEVEL of the replicates lie between."""
    low, high = np.percentile(figures, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return float(low), float(high)


def _times_drawn(rows: int, n: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Return how often each of n requests is drawn when n are drawn with replacement (rows, n)."""
    drawn = random.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float32)


class _Pool:
    """The values of all requests in order, cut into blocks, so that a replicate's percentile looks at few of them."""

    def __init__(self, values: NDArray[np.float64], owner: NDArray[np.int64], n: int) -> None:
        m = len(values)
        blocks = max(1, min(round(m**0.5), _CELLS // n))
        self._values, self._owner = values, owner
        self._size = -(-m // blocks)
        place = owner * blocks + np.arange(m) // self._size
        self._held = np.bincount(place, minlength=n * blocks).reshape(n, blocks).astype(np.float32)

    def ends(self, times: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return how many values are drawn up to the end of each block (rows, blocks)."""
        return np.cumsum(np.rint(times @ self._held).astype(np.int64), axis=1)

    def percentile(self, times: NDArray[np.float32], ends: NDArray[np.int64], share: float) -> float:
        """Return NumPy's linear percentile of the values that one replicate drew."""
        last = int(ends[-1]) - 1
        place = share * last
        below = int(place)
        low, high = self._ranked(times, ends, below), self._ranked(times, ends, min(below + 1, last))
        return low + (place - below) * (high - low)

    def _ranked(self, times: NDArray[np.float32], ends: NDArray[np.int64], rank: int) -> float:
        block = int(np.searchsorted(ends, rank, side="right"))
        before = int(ends[block - 1]) if block else 0
        start = block * self._size
        drawn = np.cumsum(times[self._owner[start : start + self._size]], dtype=np.int64)
        return float(self._values[start + np.searchsorted(drawn, rank - before, side="right")])
