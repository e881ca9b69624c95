"""Marks of a vertical axis."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.charts.axis import Axis, y_marks


@pytest.mark.parametrize(
    ("high", "rows", "expected"),
    [
        (600, 36, ["600", "500", "400", "300", "200", "100", "0"]),
        (600, 13, ["600", "400", "200", "0"]),
        (80, 10, ["80", "60", "40", "20", "0"]),
        (100, 10, ["100", "50", "0"]),
        (2500, 13, ["2k", "1k", "0"]),
    ],
)
def test_marks_are_as_many_as_stand_evenly(high: float, rows: int, expected: list[str]) -> None:
    assert [word for _, word in y_marks(Axis(0, high), rows)] == expected


@given(st.floats(1e-3, 1e9), st.integers(1, 80))
def test_marks_stand_on_rows_of_their_own_at_most_one_row_apart_from_even(high: float, rows: int) -> None:
    marks = y_marks(Axis(0, high), rows)
    places = [row for row, _ in marks]
    assert places == sorted(set(places))
    assert all(0 <= row < rows for row in places)
    gaps = [below - above for above, below in itertools.pairwise(places)]
    assert not gaps or max(gaps) - min(gaps) <= 1
