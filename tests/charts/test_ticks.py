"""Axis marks and short numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.charts import ticks

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 10, 5, [0, 5, 10]),
        (0, 10, 6, [0, 2, 4, 6, 8, 10]),
        (0, 1, 6, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-5, 5, 3, [-5, 0, 5]),
        (3, 3, 5, []),
        (0, math.nan, 5, []),
        (0, 1, 0, []),
    ],
)
def test_linear_ticks_are_round(low: float, high: float, most: int, expected: list[float]) -> None:
    assert ticks.linear_ticks(low, high, most) == pytest.approx(expected)


@given(finite, finite, st.integers(1, 30))
@settings(max_examples=200)
def test_linear_ticks_stay_inside_and_are_few(low: float, high: float, most: int) -> None:
    marks = ticks.linear_ticks(low, high, most)
    assert len(marks) <= most
    slack = max(abs(low), abs(high)) * 1e-6
    assert all(low - slack <= m <= high + slack for m in marks)
    assert marks == sorted(marks)


def test_log_ticks_are_decades_with_finer_ones_where_they_fit() -> None:
    assert ticks.log_ticks(1, 1000, 4) == pytest.approx([1, 10, 100, 1000])
    assert ticks.log_ticks(1, 100, 10) == pytest.approx([1, 2, 5, 10, 20, 50, 100])
    assert len(ticks.log_ticks(1e-9, 1e12, 5)) <= 5
    assert ticks.log_ticks(0, 10, 5) == []


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300), st.integers(1, 20))
@settings(max_examples=200)
def test_log_ticks_stay_inside_and_are_few(low: float, high: float, most: int) -> None:
    marks = ticks.log_ticks(low, high, most)
    assert len(marks) <= most
    assert all(low * 0.999 <= m <= high * 1.001 for m in marks)


def test_time_ticks_are_minutes_where_they_should_be() -> None:
    assert ticks.time_ticks(0, 120, 5) == [0, 30, 60, 90, 120]
    assert ticks.time_ticks(0, 86400 * 400, 5)[1] % 86400 == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0, "0"),
        (0.0123, "0.0123"),
        (1, "1.00"),
        (9.999, "10.0"),
        (99.95, "100"),
        (999.6, "1.00k"),
        (1234, "1.23k"),
        (123_456, "123k"),
        (1e12, "1.00T"),
        (-45.67, "-45.7"),
    ],
)
def test_short_numbers(value: float | None, text: str) -> None:
    assert ticks.short(value) == text


@given(finite)
@settings(max_examples=300)
def test_short_numbers_are_short(value: float) -> None:
    assert 1 <= len(ticks.short(value)) <= 9


@given(st.floats(1e-250, 1e300))
@settings(max_examples=200)
def test_ceiling_is_above_and_near(value: float) -> None:
    assert value * (1 - 1e-9) <= ticks.ceiling(value) <= value * 2.01


@given(st.floats(0, 1e9))
@settings(max_examples=200)
def test_window_holds_the_run_and_grows_in_steps(seconds: float) -> None:
    assert seconds <= ticks.window(seconds)
    assert ticks.window(ticks.window(seconds)) == ticks.window(seconds)


def test_labels_share_a_suffix_and_are_distinct() -> None:
    assert ticks.labels([0, 500, 1000, 1500]) == ["0", "0.5k", "1.0k", "1.5k"]
    assert ticks.labels([0, 0.05, 0.1]) == ["0", "0.05", "0.10"]
    assert ticks.labels([]) == []
    assert ticks.labels([0]) == ["0"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (7.9, "0:07"), (754, "12:34"), (3723, "1:02:03"), (-61, "-1:01"), (-0.5, "0:00")]
)
def test_clock(seconds: float | None, text: str) -> None:
    assert ticks.clock(seconds) == text
