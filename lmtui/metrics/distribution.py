"""A sample's figures: mean, deviation and percentiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.result import Distribution

PERCENTILES: tuple[tuple[str, float, int], ...] = (
    ("p50", 50.0, 2),
    ("p75", 75.0, 4),
    ("p90", 90.0, 10),
    ("p95", 95.0, 20),
    ("p99", 99.0, 100),
    ("p99_9", 99.9, 1000),
)
"""Name, percentage q, and the smallest sample that resolves it: 1 / (1 - q/100)."""

EMPTY = Distribution()


def distribution(values: NDArray[np.float64]) -> Distribution:
    """Return the figures of a sample of shape (n,), in its own unit; all null when n is 0.

    Percentiles are NumPy's linear interpolation; the deviation is the population's (NumPy's `std`).
    """
    n = len(values)
    if n == 0:
        return EMPTY
    cuts = np.percentile(values, [q for _, q, _ in PERCENTILES])
    named = {name: float(cut) for (name, _, _), cut in zip(PERCENTILES, cuts, strict=True)}
    return Distribution(
        mean=float(np.mean(values)),
        std=float(np.std(values)),
        min=float(np.min(values)),
        max=float(np.max(values)),
        n=n,
        unresolved=tuple(name for name, _, smallest in PERCENTILES if n < smallest),
        **named,
    )


def of_ns(values_ns: NDArray[np.int64] | NDArray[np.float64]) -> Distribution:
    """Return the figures in milliseconds of a sample in nanoseconds."""
    return distribution(values_ns / 1e6)
