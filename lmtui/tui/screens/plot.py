"""One column of the results against another, with lines by a third."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from lmtui.charts.axis import around, fit_values
from lmtui.results.rows import Row
from lmtui.tui import keys, plotting, result_columns
from lmtui.tui.screens.dialogs import Pick
from lmtui.tui.typed_ahead import ACTIONS
from lmtui.tui.widgets.chart import Chart
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.key_line import KeyLine

NO_LINES = "(one line)"


class PlotScreen(Screen[None]):
    """A chart of these rows."""

    PLACE = "plot"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows
        self._across, self._upward, self._lines = plotting.first_choice(rows)
        self._log_x = self._log_y = False

    def compose(self) -> ComposeResult:
        """Lay out the chart, what it shows, and the keys."""
        yield Figures("", id="plot-title", classes="title")
        yield Chart(
            ascii_only=bool(getattr(self.app, "ascii_only", False)),
            nothing="no row has both numbers: x and y choose other columns",
            id="plot",
        )
        yield Figures("", id="plot-left-out", classes="title")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Draw."""
        self.query_one("#plot").can_focus = True
        self.set_focus(self.query_one("#plot"))
        self._draw()

    def _draw(self) -> None:
        found = plotting.plot(self._rows, self._across, self._upward, self._lines)
        across, upward = result_columns.title(self._across), result_columns.title(self._upward)
        by = f" · lines by {result_columns.title(self._lines)}" if self._lines else ""
        self.query_one("#plot-title", Figures).show(f"lmtui   plot   {upward} against {across}{by}")
        parts = [f"{len(self._rows) - found.left_out} of {len(self._rows)} runs"]
        parts += [f"{found.left_out} lack a number"] if found.left_out else []
        parts += [f"{found.undrawn} more values of {self._lines} are not drawn: filter them"] if found.undrawn else []
        self.query_one("#plot-left-out", Figures).show(" · ".join(parts))
        x = np.concatenate([np.zeros(0), *(one.x for one in found.series)])
        y = np.concatenate([np.zeros(0), *(one.y for one in found.series)])
        self.query_one("#plot", Chart).plot(
            found.series,
            x=around(x, log=self._log_x),
            axis=around(y, log=True) if self._log_y else fit_values(y, log=False),
            x_unit="days" if self._across == plotting.TIME else across,
            unit=upward,
        )

    async def _choose(self, question: str, at: str, *, can_be_none: bool) -> str | None:
        columns = list(dict.fromkeys(name for row in self._rows for name in row))
        if can_be_none:
            names = [NO_LINES, *(name for name in columns if any(row.text(name) for row in self._rows))]
        else:
            names = plotting.numeric(columns, self._rows)
        usual = [name for name in result_columns.USUAL if name in names]
        names = (
            [name for name in names if name == NO_LINES]
            + usual
            + [name for name in names if name not in usual and name != NO_LINES]
        )
        words = [(name, result_columns.title(name) if name in result_columns.USUAL else "") for name in names]
        return await self.app.push_screen_wait(Pick(question, words, at=at))

    @work(group=ACTIONS)
    async def action_choose_x(self) -> None:
        """Choose what goes across."""
        if (name := await self._choose("What goes across?", self._across, can_be_none=False)) is not None:
            self._across = name
            self._draw()

    @work(group=ACTIONS)
    async def action_choose_y(self) -> None:
        """Choose what goes upward."""
        if (name := await self._choose("What goes upward?", self._upward, can_be_none=False)) is not None:
            self._upward = name
            self._draw()

    @work(group=ACTIONS)
    async def action_choose_lines(self) -> None:
        """Choose whose values have a line each."""
        if (name := await self._choose("A line for each value of what?", self._lines, can_be_none=True)) is not None:
            self._lines = "" if name == NO_LINES else name
            self._draw()

    def action_scale_x(self) -> None:
        """Turn the axis across logarithmic, or linear again."""
        self._log_x = not self._log_x
        self._draw()

    def action_scale_y(self) -> None:
        """Turn the axis upward logarithmic, or linear again."""
        self._log_y = not self._log_y
        self._draw()

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()
