"""Steps, points, bars, distribution functions, and axes that are not time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.charts.axis import Axis, around, share, x_words
from lmtui.charts.draw import Row, Series, Shape, draw, fit
from lmtui.charts.samples import CDF_POINTS, cdf, histogram

ANY = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e300, -1e300, math.nan, math.inf, -math.inf, 5e-324, 8.5e10]),
)


def text(rows: list[Row]) -> list[str]:
    return ["".join(run for run, _ in row) for row in rows]


def test_a_distribution_function_rises_to_all_of_them() -> None:
    one = cdf("a", np.array([3.0, 1.0, 2.0, math.nan, 2.0]))
    assert one.x.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert one.y.tolist() == [0.0, 25.0, 50.0, 75.0, 100.0]
    assert len(cdf("nothing", np.array([math.nan])).x) == 0


def test_a_distribution_function_of_many_is_short_and_exact_where_it_stands() -> None:
    values = np.random.default_rng(5).permutation(50_000).astype(float)
    one = cdf("a", values)
    assert len(one.x) <= CDF_POINTS + 1
    assert np.allclose(one.y[1:], (one.x[1:] + 1) / 500)
    assert one.y[-1] == 100


@pytest.mark.parametrize("axis", [Axis(0, 10), Axis(0.5, 10, log=True)])
def test_a_histogram_counts_each_value_once(axis: Axis) -> None:
    one = histogram("a", np.array([1.0, 1.0, 2.0, 9.0, 10.0, math.nan]), axis, 7)
    assert np.nansum(one.y) == 5
    assert len(one.x) == len(one.y) == 8


def test_bars_stand_on_the_axis_and_reach_their_height() -> None:
    one = Series("a", np.array([0.0, 1.0, 2.0]), np.array([4.0, 2.0, math.nan]), shape="bars")
    lines = text(draw([one], 22, 9, axis=Axis(0, 4), x=Axis(0, 2), x_is_time=False))
    rows = [line.partition("│")[2] or line.partition("┤")[2] for line in lines[:-1]]
    middle = len(rows[0]) // 2
    assert all(row[:middle] == "█" * middle for row in rows)
    assert all(set(row[middle:]) == {" "} for row in rows[:4])
    assert all(set(row[middle:]) == {"█"} for row in rows[4:])
    plain = text(draw([one], 22, 9, axis=Axis(0, 4), x=Axis(0, 2), x_is_time=False, ascii_only=True))
    assert all(line.isascii() for line in plain)
    assert sum(line.count("*") for line in plain) == middle * 8 + (len(rows[0]) - middle) * 4


def test_a_bar_narrower_than_a_cell_is_seen() -> None:
    x = np.array([0.0, 0.5, 0.501, 1.0])
    one = Series("a", x, np.array([0.0, 5.0, 0.0, math.nan]), shape="bars")
    assert any("█" in line for line in text(draw([one], 30, 6, axis=Axis(0, 5), x=Axis(0, 1), x_is_time=False)))


def test_steps_hold_their_value_until_the_next() -> None:
    one = Series("a", np.array([0.0, 5.0, 10.0]), np.array([1.0, 2.0, 2.0]), shape="steps")
    lines = text(draw([one], 26, 9, axis=Axis(0, 4), x=Axis(0, 10), x_is_time=False, ascii_only=True))
    marked = [line.partition("|")[2] or line.partition("+")[2] for line in lines[:-1] if "*" in line]
    assert marked[0].index("*") == marked[-1].rindex("*"), "it goes up at one place"


def test_points_stand_where_they_are_and_nowhere_else() -> None:
    one = Series("a", np.array([0.0, 5.0, 10.0, 20.0]), np.array([0.0, 2.0, 4.0, 1.0]), shape="points")
    lines = text(draw([one], 31, 9, axis=Axis(0, 4), x=Axis(0, 10), x_is_time=False))
    assert sum(line.count("●") for line in lines) == 3, "what is beyond the axis is not drawn"
    joined = Series("a", one.x, one.y, shape="joined")
    assert any("⠁" <= c <= "⣿" for c in "".join(text(draw([joined], 31, 9, axis=Axis(0, 4), x=Axis(0, 10)))))


def test_an_axis_in_numbers_has_words_under_their_places_and_its_unit() -> None:
    words = x_words(Axis(1, 1000, log=True), 60, 5, is_time=False, unit="ms")
    assert words.split() == ["1", "3", "10", "30", "100", "300", "ms"] or words.split()[-1] == "ms"
    assert words.index("10 ") - 5 == pytest.approx(54 / 3, abs=2)


@pytest.mark.parametrize("log", [False, True])
@given(st.lists(ANY, max_size=5))
@settings(max_examples=60, deadline=None)
def test_around_has_every_value_on_it(log: bool, values: list[float]) -> None:
    array = np.array(values)
    axis = around(array, log=log)
    assert axis.low < axis.high
    assert math.isfinite(axis.low)
    assert math.isfinite(axis.high)
    finite = np.clip(array[np.isfinite(array)], -1e200, 1e200)
    at = share(np.maximum(finite[finite > 0], 1e-200) if axis.log else finite, axis)
    assert ((at >= -1e-9) & (at <= 1 + 1e-9)).all()


@given(
    st.lists(st.tuples(ANY, ANY), max_size=6),
    st.sampled_from(["line", "steps", "points", "joined", "bars"]),
    st.integers(1, 70),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_any_shape_of_anything_fills_its_space(
    points: list[tuple[float, float]], shape: Shape, width: int, height: int, log: bool, ascii_only: bool
) -> None:
    x, y = (np.array([p[k] for p in points]) for k in (0, 1))
    one = Series("a", x, y, shape=shape)
    rows = text(
        draw(
            [one, one], width, height, axis=fit([one]), x=around(x, log=log), x_is_time=False, x_unit="u", unit="ms",
            nothing="no data yet", ascii_only=ascii_only,
        )
    )  # fmt: skip
    assert len(rows) == height
    assert all(len(row) == width for row in rows)
    assert not ascii_only or all(row.isascii() for row in rows)


def test_a_chart_of_nothing_says_so() -> None:
    empty = Series("a", np.array([1.0]), np.array([math.nan]))
    rows = text(draw([empty], 30, 7, axis=Axis(), x=Axis(0, 5), nothing="no data yet"))
    assert rows[3].strip() == "no data yet"
    assert not "".join(rows[:3] + rows[4:]).strip()
