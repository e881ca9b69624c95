"""Every number of one run, as text that scrolls, and how its latencies are distributed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen

from lmtui.charts.axis import around, fit_values
from lmtui.charts.samples import histogram
from lmtui.errors import LmtuiError
from lmtui.tui import keys, messages
from lmtui.tui.details_text import result_text, row_text
from lmtui.tui.widgets.chart import Chart
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.key_line import KeyLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lmtui.metrics.latencies import Latency
    from lmtui.metrics.result import Result
    from lmtui.results.rows import Row

CHARTS = (("TTFT", "ttft_ms"), ("ITL", "itl_ms"))
LEAST = 20
"""Of fewer values no distribution is drawn."""


class DetailsScreen(Screen[None]):
    """The run's summary when its directory is here, else what its row in the history holds."""

    PLACE = "details"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self, run_id: str, row: Row | None = None) -> None:
        super().__init__()
        self._run_id = run_id
        self._row = row
        self._latencies: Mapping[str, Latency] = {}

    def compose(self) -> ComposeResult:
        """Lay out the text, the charts and the keys."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        yield Figures(f"lmtui   details   {self._run_id}", classes="title")
        with VerticalScroll(id="details-body"):
            yield Figures("reading …", id="details-text")
            with Vertical(id="details-charts"):
                for name, key in CHARTS:
                    nothing = f"{name}: fewer than {LEAST} values"
                    yield Chart(ascii_only=ascii_only, nothing=nothing, id=f"details-{key}")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Read the run."""
        self.set_focus(self.query_one("#details-body"))
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        result = await asyncio.to_thread(self._result)
        if result is not None:
            text = result_text(result, await asyncio.to_thread(_at_rate_0, result))
        elif self._row is not None:
            text = row_text(self._row)
        else:
            text = "This run has no result yet"
        self.query_one("#details-text", Figures).show(text, wraps=True)
        self._latencies = await asyncio.to_thread(self._samples)
        if self._latencies:
            self.query_one("#details-charts").add_class("-used")
            self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        """Draw as many bars as fit."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        for name, key in CHARTS:
            if (sample := self._latencies.get(key)) is None or len(sample.values_ms) < LEAST:
                continue
            chart = self.query_one(f"#details-{key}", Chart)
            x = around(sample.values_ms, log=True)
            bars = histogram("", sample.values_ms, x, max(chart.size.width // 2, 1))
            of = "requests" if key == "ttft_ms" else "gaps"
            chart.plot([bars], x=x, axis=fit_values(bars.y, log=False), x_unit="ms", unit=f"{name}: {of}")

    def _result(self) -> Result | None:
        from lmtui.runner import runs

        try:
            return runs.find(self._run_id).result() if self._run_id else None
        except LmtuiError:
            return None  # its directory is gone, or never was here: the row still says what it holds

    def _samples(self) -> Mapping[str, Latency]:
        from lmtui.metrics.latencies import latencies
        from lmtui.runner import kept, runs

        try:
            held = kept.record(runs.find(self._run_id)) if self._run_id else None
        except LmtuiError:
            return {}
        return {} if held is None else latencies(held.sessions, closed_load=True)

    def action_again(self) -> None:
        """Run the same once more."""
        self.post_message(messages.AgainWanted(self._run_id))

    def action_replay(self) -> None:
        """Show the run in the live screen."""
        self.post_message(messages.ReplayWanted(self._run_id))

    def action_copy(self) -> None:
        """Copy all of it."""
        text = self.query_one("#details-text", Figures).text
        self.post_message(messages.CopyWanted(text, f"{self._run_id or 'row'}.txt"))

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()


def _at_rate_0(result: Result) -> Row | None:
    from lmtui.metrics.summary import flat
    from lmtui.results import baseline

    if result.metrics.cancel is None:
        return None
    return baseline.find(flat(result.config))
