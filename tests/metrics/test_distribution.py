from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.metrics.distribution import PERCENTILES, distribution, of_ns
from lmtui.metrics.result import Distribution


def test_no_sample_gives_nulls_and_no_zero() -> None:
    assert distribution(np.empty(0)) == Distribution()
    assert distribution(np.empty(0)).mean is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_figures_are_numpys(values: list[float]) -> None:
    got = distribution(np.array(values))
    assert got.n == len(values)
    assert got.mean == float(np.mean(values))
    assert got.std == float(np.std(values))
    assert (got.min, got.max) == (min(values), max(values))
    for name, q, _ in PERCENTILES:
        assert getattr(got, name) == np.percentile(values, q)


@pytest.mark.parametrize(
    ("n", "unresolved"),
    [
        (1, ("p50", "p75", "p90", "p95", "p99", "p99_9")),
        (10, ("p95", "p99", "p99_9")),
        (99, ("p99", "p99_9")),
        (100, ("p99_9",)),
        (1000, ()),
    ],
)
def test_percentiles_that_a_sample_cannot_resolve_are_named(n: int, unresolved: tuple[str, ...]) -> None:
    assert distribution(np.arange(n, dtype=np.float64)).unresolved == unresolved


def test_nanoseconds_become_milliseconds() -> None:
    assert of_ns(np.array([1_500_000, 2_500_000])).mean == 2.0
