"""Runs side by side: figures and differences, distributions over each other, and what differs between the runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen

from lmtui.charts.axis import Axis, around
from lmtui.charts.draw import MOST_SERIES, Series
from lmtui.charts.samples import cdf
from lmtui.errors import LmtuiError
from lmtui.metrics.latencies import latencies
from lmtui.results.compare import Comparison, compare
from lmtui.results.compare_text import compare_text
from lmtui.runner import kept
from lmtui.tui import keys, messages
from lmtui.tui.widgets.chart import Chart
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.key_line import KeyLine

LATENCIES = (("TTFT", "ttft_ms"), ("ITL", "itl_ms"), ("TPOT", "tpot_ms"), ("E2E", "e2e_ms"))
Samples = Mapping[str, NDArray[np.float64]]
"""Key of a latency → its values in milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A comparison, and per run the samples behind its latencies; None where its requests are not at hand."""

    comparison: Comparison
    samples: tuple[Samples | None, ...]


class CompareScreen(Screen[None]):
    """The runs of these ids; the others are compared with the first."""

    PLACE = "compare"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self, run_ids: Sequence[str]) -> None:
        super().__init__()
        self._run_ids = run_ids
        self._found: Compared | None = None
        self._latency = 0
        self._log = True

    def compose(self) -> ComposeResult:
        """Lay out the charts, the text and the keys."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        yield Figures(f"lmtui   compare   {len(self._run_ids)} runs", classes="title")
        with VerticalScroll(id="compare-body"):
            with Horizontal(id="compare-charts"):
                for name in ("compare-left", "compare-right"):
                    yield Chart(ascii_only=ascii_only, nothing="no requests at hand", id=name)
            yield Figures("reading the runs …", id="compare-text")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Read the runs."""
        self.set_focus(self.query_one("#compare-body"))
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        try:
            self._found = await asyncio.to_thread(_compared, self._run_ids)
        except LmtuiError as error:
            self.query_one("#compare-text", Figures).show(f"They cannot be compared: {error}", wraps=True)
            return
        has_samples = sum(samples is not None for samples in self._found.samples) > 0
        self.query_one("#compare-charts").set_class(has_samples, "-used")
        self._show_text()
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        """Fit the text to the new width."""
        self.call_after_refresh(self._show_text)

    def _text(self) -> str:
        if self._found is None:
            return ""
        width = self.query_one("#compare-text").size.width
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        return compare_text(self._found.comparison, width, ascii_only=ascii_only)

    def _show_text(self) -> None:
        if text := self._text():
            self.query_one("#compare-text", Figures).show(_coloured(text), wraps=True)

    def _draw(self) -> None:
        if self._found is None:
            return
        for chart, place in (("#compare-left", 0), ("#compare-right", 1)):
            self._draw_one(self.query_one(chart, Chart), *LATENCIES[(self._latency + place) % len(LATENCIES)])

    def _draw_one(self, chart: Chart, name: str, key: str) -> None:
        assert self._found is not None
        series: list[Series] = []
        values = [np.zeros(0)]
        for run, samples in zip(self._found.comparison.runs, self._found.samples, strict=True):
            if samples is not None and len(of_run := samples.get(key, np.zeros(0))) and len(series) < MOST_SERIES:
                series.append(cdf(run.label, of_run, dashed=bool(len(series) % 2)))
                values.append(of_run)
        x = around(np.concatenate(values), log=self._log)
        chart.plot(series, x=x, axis=Axis(0.0, 100.0), x_unit="ms", unit=f"{name}: % at most")

    # Keys

    def action_metric(self) -> None:
        """Show the distributions of another latency."""
        self._latency = (self._latency + 1) % len(LATENCIES)
        self._draw()

    def action_scale(self) -> None:
        """Turn the axis logarithmic, or linear again."""
        self._log = not self._log
        self._draw()

    def action_copy(self) -> None:
        """Copy all of it."""
        if text := self._text():
            self.post_message(messages.CopyWanted(text, "compare.txt"))

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()


def _compared(run_ids: Sequence[str]) -> Compared:
    subjects = [kept.to_compare(run_id) for run_id in run_ids]
    samples: list[Samples | None] = []
    for one in subjects:
        if one.sessions is None:
            samples.append(None)
            continue
        found = latencies(one.sessions, closed_load=one.row.text("load.mode") == "closed")
        samples.append({key: found[key].values_ms for _, key in LATENCIES})
    return Compared(compare(subjects), tuple(samples))


def _coloured(text: str) -> Content:
    """Return the text with its signs in colour; they say the same without it."""
    content = Content(text)
    for sign, style in (("▲", "$text-success"), ("▼", "$text-error"), ("* ", "$text-success")):
        at = text.find(sign)
        while at >= 0:
            content = content.stylize(style, at, at + 1)
            at = text.find(sign, at + 1)
    return content
