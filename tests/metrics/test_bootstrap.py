"""The bootstrap over requests: the same figures as drawing the requests one by one, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmtui.metrics import bootstrap
from lmtui.metrics.latencies import Latency, latencies
from lmtui.metrics.sessions import Outcome
from tests.metrics.made_sessions import Made, config, made, summary


def drawn_plainly(latency: Latency, seed: int) -> dict[str, list[float]]:
    """Draw requests with replacement, pool their values, and ask NumPy."""
    requests = np.unique(latency.owner)
    random = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in bootstrap.FIGURES}
    picks = random.integers(len(requests), size=(bootstrap.REPLICATES, len(requests)))
    for row in picks:
        pool = np.concatenate([latency.values_ms[latency.owner == requests[pick]] for pick in row])
        for name in bootstrap.FIGURES:
            value = np.mean(pool) if name == "mean" else np.percentile(pool, float(name[1:]))
            found[name].append(float(value))
    return found


@given(st.integers(0, 2**32 - 1), st.integers(10, 20), st.integers(0, 3))
@settings(max_examples=8, deadline=None)
def test_replicates_are_those_of_drawing_requests_one_by_one(seed: int, n: int, digits: int) -> None:
    random = np.random.default_rng(seed)
    owner = random.permutation(np.repeat(np.arange(n) * 7, random.integers(1, 30, size=n)))
    latency = Latency(np.round(random.gamma(2, 10, size=len(owner)), digits), owner)
    ours = bootstrap.replicates(latency, np.random.default_rng(seed))
    plain = drawn_plainly(latency, seed)
    resolved = {"mean"} | {
        name for name, smallest in (("p50", 2), ("p90", 10), ("p95", 20), ("p99", 100)) if len(owner) >= smallest
    }
    assert ours.keys() == resolved
    for name, figures in ours.items():
        np.testing.assert_allclose(figures, plain[name], rtol=1e-9)


def test_few_requests_have_no_interval() -> None:
    values = np.arange(1000.0)
    owner = np.arange(1000) % (bootstrap.FEWEST_REQUESTS - 1)
    assert bootstrap.replicates(Latency(values, owner), np.random.default_rng(0)) == {}
    assert bootstrap.replicates(Latency(values[:0], owner[:0]), np.random.default_rng(0)) == {}


def test_gaps_are_drawn_with_their_request() -> None:
    """Requests that are slow as a whole leave more doubt than the same gaps of independent requests."""
    values = np.repeat(np.random.default_rng(5).gamma(2, 10, size=50), 40)
    together = bootstrap.replicates(Latency(values, np.repeat(np.arange(50), 40)), np.random.default_rng(1))
    apart = bootstrap.replicates(Latency(values, np.arange(2000)), np.random.default_rng(1))

    def width(figures: NDArray[np.float64]) -> float:
        low, high = bootstrap.interval(figures)
        return high - low

    assert width(together["mean"]) > 4 * width(apart["mean"])


def test_nineteen_in_twenty_intervals_hold_the_truth() -> None:
    random = np.random.default_rng(11)
    owner = np.arange(80)
    held = 0
    for _ in range(60):
        figures = bootstrap.replicates(Latency(random.normal(100, 10, size=80), owner), random)
        low, high = bootstrap.interval(figures["mean"])
        held += low <= 100 <= high
    assert 52 <= held < 60


def test_samples_are_those_of_the_result() -> None:
    rows = [
        Made(0, [(50, 1), (70, 2), (90, 4)], due=-5),
        Made(10, [(60, 2), (85, 4)], due=2),
        Made(20, [(95, 1), (99, 4)], cancel_planned=True),
        Made(5, [(30, 1), (300, 2)], end=301, outcome=Outcome.TIMEOUT),
        Made(8, [(31, 4)]),
    ]
    sessions = made(rows)
    for mode in ("closed", "open"):
        metrics = summary(sessions, config(load={"mode": mode, "rate": 100.0})).metrics
        found = latencies(sessions, closed_load=mode == "closed")
        assert ("queue_ms" in found) is (mode == "open")
        assert metrics.cancel is not None
        for name, latency in found.items():
            of = metrics.cancel.survivors if name.startswith("cancel.") else metrics
            figures = getattr(of, name.rpartition(".")[2])
            assert len(latency.values_ms) == len(latency.owner) == figures.n
            assert np.mean(latency.values_ms) == pytest.approx(figures.mean), name
            assert np.max(latency.values_ms) == pytest.approx(figures.max), name
    assert "cancel.survivors.ttft_ms" not in latencies(made(rows[:2]), closed_load=True)
