from __future__ import annotations

import math

import numpy as np
import pytest

from lmtui.workload.arrivals import ramped, schedule, schedule_until

RATE = 20.0


def due(count: int, arrival: str, burstiness: float = 1.0, ramp_s: float = 0.0, seed: int = 1) -> np.ndarray:
    return schedule(count, RATE, arrival, burstiness, ramp_s, np.random.RandomState(seed))


def test_an_infinite_rate_is_all_at_once_and_draws_nothing() -> None:
    generator = np.random.RandomState(1)
    assert schedule(5, math.inf, "poisson", 1.0, 9.0, generator).tolist() == [0.0] * 5
    assert generator.uniform() == np.random.RandomState(1).uniform()


def test_constant_arrivals_are_even() -> None:
    assert due(5, "constant").tolist() == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize("arrival", ["poisson", "constant", "gamma"])
def test_one_request_is_due_at_once(arrival: str) -> None:
    assert due(1, arrival, 0.5, 3.0).tolist() == [0.0]


@pytest.mark.parametrize(
    ("arrival", "burstiness", "variation"),
    [("poisson", 7.0, 1.0), ("gamma", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5)],
)
def test_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_burstiness(
    arrival: str, burstiness: float, variation: float
) -> None:
    gaps = np.diff(due(200_001, arrival, burstiness))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / RATE, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.02)


def test_gamma_of_burstiness_one_is_poisson() -> None:
    assert due(100, "gamma", 1.0).tolist() == due(100, "poisson").tolist()


def test_a_ramp_sends_half_as_many_and_then_keeps_the_rate() -> None:
    ramp_s = 10.0
    times = due(1_001, "constant", ramp_s=ramp_s)
    assert np.count_nonzero(times <= ramp_s + 1e-9) == RATE * ramp_s / 2 + 1, "the one at 0 besides"
    assert np.count_nonzero(times <= ramp_s / 2 + 1e-9) == RATE * ramp_s / 8 + 1, "a quarter of them in the first half"
    assert np.diff(times[times > ramp_s]) == pytest.approx(1 / RATE)
    assert times[0] == 0
    assert (np.diff(times) > 0).all()


def test_a_ramped_poisson_load_follows_the_rate() -> None:
    """Over many draws, the arrivals by t are on average rate·t²/(2·ramp) + 1."""
    ramp_s, runs = 4.0, 400
    counts = np.zeros(3)
    for seed in range(runs):
        times = due(200, "poisson", ramp_s=ramp_s, seed=seed)
        counts += [np.count_nonzero(times <= at) for at in (2.0, 4.0, 6.0)]
    # 10, 40 and 80 arrivals expected; a mean of 400 Poisson counts is within 4 σ = 4·√(n/400) of that.
    for found, expected in zip(counts / runs - 1, (10.0, 40.0, 80.0), strict=True):
        assert abs(found - expected) < 4 * math.sqrt(expected / runs)


def test_the_ramp_is_smooth_where_it_ends() -> None:
    around = np.array([2.0 - 1e-9, 2.0 + 1e-9])
    assert ramped(around, 4.0) == pytest.approx([4.0, 4.0], abs=1e-8)


@pytest.mark.parametrize("arrival", ["poisson", "constant", "gamma"])
@pytest.mark.parametrize("ramp_s", [0.0, 3.0])
def test_a_duration_gets_the_same_schedule_up_to_its_end(
    arrival: str, ramp_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmtui.workload.arrivals._AT_ONCE", 7)
    found = schedule_until(4.99, RATE, arrival, 0.5, ramp_s, np.random.RandomState(1))
    known = due(400, arrival, 0.5, ramp_s)
    assert found == pytest.approx(known[known < 4.99])
    assert known[-1] > 4.99


def test_a_short_duration_has_its_first_request() -> None:
    assert schedule_until(1e-9, RATE, "constant", 1.0, 0.0, np.random.RandomState(1)).tolist() == [0.0]
