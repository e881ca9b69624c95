"""The line chart draws what it is given, in the space it is given, whatever the numbers are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.charts import raster
from lmtui.charts.axis import Axis
from lmtui.charts.draw import STYLES, Limit, Row, Series, draw, fit


def series(values: list[float], label: str = "a", *, dashed: bool = False) -> Series:
    return Series(label, np.arange(len(values), dtype=float), np.array(values, dtype=float), dashed)


def text(rows: list[Row]) -> list[str]:
    return ["".join(run for run, _ in row) for row in rows]


def chart(values: list[float], width: int = 40, height: int = 8, *, ascii_only: bool = True) -> list[str]:
    one = series(values)
    rows = draw(
        [one], width, height, axis=fit([one]), x=Axis(0, max(len(values) - 1, 1)), unit="ms", ascii_only=ascii_only
    )
    return text(rows)


def test_a_rising_line_rises() -> None:
    lines = chart([0, 1, 2, 3, 4, 5], 26, 9)
    columns = [line.find("*") for line in lines if "*" in line]
    assert columns == sorted(columns, reverse=True)
    assert lines[1].rstrip().endswith("*"), "the largest value stands in the top row, at the right"
    assert lines[-2].find("*") == lines[-2].index("+") + 1, "zero stands in the bottom row, at the left"


def test_axis_words_stand_beside_their_rows() -> None:
    lines = chart([0, 1000], 40, 13)
    assert lines[1].startswith("1.0k+")
    assert lines[-2].startswith("   0+")
    assert "0:00" in lines[-1]
    assert "0:01" in lines[-1]


def test_a_gap_is_not_bridged() -> None:
    lines = chart([1, 1, math.nan, math.nan, 1, 1], 30, 8)
    (row,) = [line for line in lines if "*" in line]
    assert "  " in row[row.index("*") : row.rindex("*")]


def test_the_objective_is_drawn_and_named() -> None:
    one = series([10, 20, 30])
    limit = Limit("SLO 25 ms", 25)
    axis = fit([one], limit)
    lines = text(draw([one], 40, 10, axis=axis, x=Axis(0, 2), limit=limit, ascii_only=True))
    assert "SLO 25 ms" in lines[0]
    assert any("-----" in line for line in lines[1:-1])


def test_an_objective_far_above_is_named_but_does_not_flatten_the_line() -> None:
    one = series([10, 20, 30])
    limit = Limit("SLO 1000 ms", 1000)
    axis = fit([one], limit)
    assert axis.high < 100
    assert "SLO 1000 ms (above)" in text(draw([one], 60, 10, axis=axis, x=Axis(0, 2), limit=limit))[0]


def test_a_wide_range_is_logarithmic_and_says_so() -> None:
    one = series([1, 10, 100, 1000, 10000] * 30)
    axis = fit([one])
    assert axis.log
    assert "(log)" in text(draw([one], 60, 10, axis=axis, x=Axis(0, 150), unit="ms"))[0]
    assert not fit([one], log=False).log
    assert not fit([series([10, 20, 30])]).log


def test_the_axis_grows_at_once_and_shrinks_rarely() -> None:
    first = fit([series([90])])
    assert fit([series([60])], before=first) == first
    assert fit([series([140])], before=first).high >= 140
    assert fit([series([5])], before=first).high < first.high
    assert fit([], before=first) == first


def test_two_lines_differ_without_colour() -> None:
    lines = [series([1] * 50, "P50"), series([3] * 50, "P99", dashed=True)]
    rows = text(draw(lines, 60, 10, axis=fit(lines), x=Axis(0, 49)))
    drawn = [row for row in rows[1:-1] if any(ord(c) > raster.BRAILLE for c in row)]
    assert len(drawn) == 2
    assert drawn[0].count(" ") > drawn[1].count(" "), "the dashed one has gaps"
    plain = text(draw(lines, 60, 10, axis=fit(lines), x=Axis(0, 49), ascii_only=True))
    assert any("o" in row for row in plain[1:-1])
    assert any("*" in row for row in plain[1:-1])


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1e12, 1e12, 8.5e10, 1e-12, 1e308, -1e308, math.nan]),
)


@given(
    st.lists(st.lists(numbers, max_size=40), max_size=5),
    st.integers(0, 70),
    st.integers(0, 20),
    st.booleans(),
    st.one_of(st.none(), numbers),
    st.floats(0, 1e6),
)
@settings(max_examples=250, deadline=None)
def test_every_chart_fills_exactly_its_space(
    lists: list[list[float]], width: int, height: int, ascii_only: bool, limit: float | None, end: float
) -> None:
    lines = [series(values, f"s{n}", dashed=n % 2 == 1) for n, values in enumerate(lists)]
    objective = None if limit is None else Limit("SLO", limit)
    axis = fit(lines, objective, fit(lines[:1]))
    rows = draw(lines, width, height, axis=axis, x=Axis(0, end), limit=objective, unit="ms", ascii_only=ascii_only)
    assert len(rows) == (height if width else 0)
    assert all(len(line) == width for line in text(rows))
    assert all(style in STYLES and run for row in rows for run, style in row)
    if ascii_only:
        assert all(line.isascii() for line in text(rows))


@pytest.mark.parametrize("value", [0.0, 1.0, 8.5e10, 1e12, 1e-9])
def test_a_constant_series_is_one_visible_row(value: float) -> None:
    rows = [line for line in chart([value] * 30, 40, 10) if "*" in line]
    assert len(rows) == 1


def test_one_point_is_visible() -> None:
    assert sum(line.count("*") for line in chart([5.0])) == 1


def test_only_the_new_part_changes_while_the_window_stays() -> None:
    values = [10.0 + k % 3 for k in range(40)]
    old, new = series(values[:39]), series(values)
    axis = fit([old])
    before = draw([old], 80, 12, axis=axis, x=Axis(0, 60))
    after = draw([new], 80, 12, axis=fit([new], before=axis), x=Axis(0, 60))
    changed = [c for a, b in zip(text(before), text(after), strict=True) for c in range(80) if a[c] != b[c]]
    assert changed
    assert max(changed) - min(changed) <= 4


def test_polyline_marks_every_column_between_two_points() -> None:
    dots = raster.polyline(np.array([0.0, 9.0]), np.array([0.0, 4.0]), 10, 5)
    assert dots.any(axis=0).all()
    assert dots[0, 0]
    assert dots[4, 9]


def test_braille_cells_have_the_dots() -> None:
    dots = np.zeros((4, 4), dtype=np.bool_)
    dots[0, 0] = dots[3, 1] = True
    assert "".join(chr(c) for c in raster.braille_cells(dots)[0]) == "⢁ "
