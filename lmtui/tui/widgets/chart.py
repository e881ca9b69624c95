"""A chart that sends the terminal only the cells that changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from lmtui.charts import draw
from lmtui.charts.axis import Axis
from lmtui.charts.ticks import window

WINDOW_STEPS = 4
"""A window of the end moves on by this part of itself, so that most cells stay as they are between."""

Painted = tuple[str, str]
"""A row as its characters, and for each of them its style as one character: two strings that are compared."""


class Chart(Widget):
    """Series over the time of a run, or over anything else."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chart--{name}" for name in draw.STYLES}
    DEFAULT_CSS = """
    Chart {
        width: 1fr; height: 1fr;
        & > .chart--axis { color: $text-disabled; }
        & > .chart--label { color: $text-muted; }
        & > .chart--limit { color: $text-warning; }
        & > .chart--series-1 { color: $text-accent; }
        & > .chart--series-2 { color: $text-error; }
        & > .chart--series-3 { color: $text-success; }
        & > .chart--series-4 { color: $text-secondary; }
        & > .chart--series-5 { color: $text-warning; }
        & > .chart--series-6 { color: $text-primary; }
    }
    """

    def __init__(
        self, *, ascii_only: bool = False, nothing: str = "", id: str | None = None, classes: str | None = None
    ) -> None:
        """`nothing`: what it says while no series has any value."""
        super().__init__(id=id, classes=classes)
        self._ascii_only = ascii_only
        self._nothing = nothing
        self._series: Sequence[draw.Series] = ()
        self._limit: draw.Limit | None = None
        self._unit = ""
        self._axis = Axis()
        self._has_axis = False
        self._x = Axis()
        self._x_is_time = True
        self._x_unit = ""
        self._rows: list[draw.Row] = []
        self._painted: list[Painted] = []

    def show(
        self,
        series: Sequence[draw.Series],
        *,
        end_s: float,
        unit: str,
        limit: draw.Limit | None = None,
        log: bool = True,
        new: bool = False,
        window_s: float | None = None,
    ) -> None:
        """Draw these series over time. The time axis grows in steps, so that most cells stay as they are.

        Args:
            series: Their x are seconds after the run's start.
            end_s: How far the run is.
            unit: The unit of the values, for the legend.
            limit: The objective, drawn as a line.
            log: Whether a wide range may make the axis logarithmic.
            new: Other numbers than before: the axis starts anew.
            window_s: Show so much of the end; None: the whole run.
        """
        start_s = 0.0
        if window_s is not None and end_s > window_s:
            step_s = window_s / WINDOW_STEPS
            start_s = math.ceil((end_s - window_s) / step_s) * step_s
            series = [replace(one, x=one.x[one.x >= start_s], y=one.y[one.x >= start_s]) for one in series]
        self._series, self._unit, self._limit = series, unit, limit
        self._axis = draw.fit(series, limit, self._axis if self._has_axis and not new else None, log=log)
        self._has_axis = True
        self._x = Axis(start_s, start_s + (window_s or 0.0)) if start_s else Axis(0.0, window(end_s))
        self._x_is_time, self._x_unit = True, ""
        self._draw()

    def plot(self, series: Sequence[draw.Series], *, x: Axis, axis: Axis, x_unit: str, unit: str) -> None:
        """Draw these series between these axes; the units are written beside them."""
        self._series, self._unit, self._limit = series, unit, None
        self._x, self._x_is_time, self._x_unit, self._axis = x, False, x_unit, axis
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        rows = draw.draw(
            self._series,
            width,
            height,
            axis=self._axis,
            x=self._x,
            x_is_time=self._x_is_time,
            x_unit=self._x_unit,
            limit=self._limit,
            unit=self._unit,
            nothing=self._nothing,
            ascii_only=self._ascii_only,
        )
        painted = [_painted(row) for row in rows]
        before, self._rows, self._painted = self._painted, rows, painted
        if len(before) != len(painted):
            self.refresh()
            return
        regions = [
            Region(span[0], y, span[1] - span[0], 1)
            for y, (old, new) in enumerate(zip(before, painted, strict=True))
            if (span := _changed(old, new)) is not None
        ]
        if regions:
            self.refresh(*regions)

    def on_resize(self, _: events.Resize) -> None:
        """Draw for the new size."""
        self._painted = []
        self._draw()

    def render_line(self, y: int) -> Strip:
        """Make one line of the screen; every segment has a style, which NO_COLOR needs."""
        width = self.size.width
        if y >= len(self._rows):
            return Strip([Segment(" " * width, self.rich_style)], width)
        segments = [
            Segment(text, self.rich_style if key == "blank" else self.get_component_rich_style(f"chart--{key}"))
            for text, key in self._rows[y]
        ]
        return Strip(segments, width)


def _painted(row: draw.Row) -> Painted:
    return (
        "".join(text for text, _ in row),
        "".join(chr(draw.STYLES.index(style)) * len(text) for text, style in row),
    )


def _changed(old: Painted, new: Painted) -> tuple[int, int] | None:
    """Return the first and the end of the cells that differ; None when none does."""
    if old == new:
        return None
    if len(old[0]) != len(new[0]):
        return 0, len(new[0])
    differ = [a != b or c != d for a, b, c, d in zip(old[0], new[0], old[1], new[1], strict=True)]
    return differ.index(True), len(differ) - differ[::-1].index(True)
