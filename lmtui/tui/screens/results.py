"""The history: every finished run as a row, to sort, filter, open, replay and run again."""

from __future__ import annotations

import asyncio
import math
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from lmtui import paths
from lmtui.charts.ticks import short
from lmtui.errors import LmtuiError
from lmtui.results import history
from lmtui.results.rows import Row
from lmtui.tui import keys, messages
from lmtui.tui.catalog import history_stamp
from lmtui.tui.plain import line
from lmtui.tui.run_filter import RunFilter
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.filter_line import FilterLine
from lmtui.tui.widgets.key_line import KeyLine
from lmtui.tui.widgets.table import Cell, Column, Table


class ResultsScreen(Screen[None]):
    """The rows of history.csv, newest first."""

    PLACE = "results"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._filter = RunFilter([], [])
        self._sort = COLUMN_NAMES.index("started_at")
        self._is_descending = True
        self._notes: list[str] = []
        self._stamp: tuple[int, int] | None = None

    def compose(self) -> ComposeResult:
        """Lay out the table and the keys."""
        yield Figures("lmtui   results   reading the history …", id="results-title", classes="title")
        yield Table(COLUMNS, fixed=2, id="history")
        yield FilterLine(id="filter")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Begin in the table."""
        self._table.focus()

    @property
    def _table(self) -> Table[Row]:
        table: Table[Row] = self.query_one("#history", Table)
        return table

    def on_screen_resume(self) -> None:
        """Read the history; on coming back only when a run has ended meanwhile."""
        if (stamp := history_stamp()) is None or stamp != self._stamp:
            self._stamp = stamp
            self._read()

    @work(exclusive=True, group="read")
    async def _read(self) -> None:
        try:
            held = await asyncio.to_thread(history.load, paths.history())
        except LmtuiError as error:
            self.notify(str(error), severity="error", markup=False, timeout=10)
            self._show()
            return
        self._rows = held.rows
        self._notes = [f"{len(held.bad)} lines are no rows (first: line {held.bad[0].line})"] if held.bad else []
        self._filter = await asyncio.to_thread(RunFilter, held.rows, held.columns)
        self._show()

    def _show(self, cursor: int | None = None) -> None:
        words = self.query_one(FilterLine).words
        found = self._filter.find(words)
        rows = [self._rows[i] for i in found.rows]
        self._sort_rows(rows)
        self._table.mark_sorted(self._sort, is_descending=self._is_descending)
        self._table.show(rows, cursor=cursor)
        parts = [f"{len(rows)} of {len(self._rows)} runs" if words else f"{len(self._rows)} runs"]
        if not self._rows:
            parts = ["no run has finished yet: q goes back, r there runs a config"]
        parts += [found.problem] if found.problem else []
        self.query_one("#results-title", Figures).show("lmtui   results   " + "   ".join([*parts, *self._notes]))

    def _sort_rows(self, rows: list[Row]) -> None:
        column = COLUMN_NAMES[self._sort]
        if column in NUMBERS:
            pairs = [(row.number(column), row) for row in rows]
            known = [(value, row) for value, row in pairs if value is not None]
            missing = [row for value, row in pairs if value is None]
            known.sort(key=lambda pair: pair[0], reverse=self._is_descending)
            rows[:] = [row for _, row in known] + missing
        else:
            rows.sort(key=lambda row: row.text(column), reverse=self._is_descending)

    # Keys

    def action_sort_left(self) -> None:
        """Sort by the column further left."""
        self._sort_by(self._sort - 1)

    def action_sort_right(self) -> None:
        """Sort by the column further right."""
        self._sort_by(self._sort + 1)

    def _sort_by(self, column: int) -> None:
        self._sort = column % len(COLUMNS)
        self._is_descending = COLUMN_NAMES[self._sort] in BEST_IS_HIGH
        self._show(cursor=0)

    def action_order(self) -> None:
        """Turn the order round."""
        self._is_descending = not self._is_descending
        self._show(cursor=0)

    def action_open(self) -> None:
        """Show every number of the row."""
        if (row := self._table.current) is not None:
            self.post_message(messages.DetailsWanted(row.text("run_id"), row))

    @on(Table.Chosen)
    def _on_chosen(self) -> None:
        self.action_open()

    def action_again(self) -> None:
        """Run the same once more."""
        if (row := self._table.current) is not None:
            self.post_message(messages.AgainWanted(row.text("run_id")))

    def action_replay(self) -> None:
        """Show the run in the live screen."""
        if (row := self._table.current) is not None:
            self.post_message(messages.ReplayWanted(row.text("run_id")))

    def action_find(self) -> None:
        """Type a filter."""
        self.query_one(FilterLine).start()

    def action_clear(self) -> None:
        """Take the filter away, or go back when there is none."""
        if self.query_one(FilterLine).words:
            self.query_one(FilterLine).clear()
        else:
            self.dismiss()

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()

    @on(Input.Changed)
    def _on_words(self) -> None:
        self._show(cursor=0)

    @on(FilterLine.Left)
    def _on_filter_left(self) -> None:
        self._table.focus()


def _text(title: str, width: int, column: str, *, fills: bool = False) -> tuple[str, Column[Row]]:
    return column, Column(title, width, lambda row: line(row.text(column)), fills=fills)


def _number(title: str, width: int, column: str) -> tuple[str, Column[Row]]:
    def show(row: Row) -> Cell:
        value = row.number(column)
        return "inf" if value is not None and math.isinf(value) else short(value)

    return column, Column(title, width, show, right=True)


def _count(title: str, width: int, column: str) -> tuple[str, Column[Row]]:
    def show(row: Row) -> Cell:
        count = row.count(column)
        return short(row.number(column)) if count is None else str(count) if count < 10**width else short(count)

    return column, Column(title, width, show, right=True)


def _when(row: Row) -> Cell:
    return line(row.text("started_at"))[5:16].replace("T", " ")


def _model(row: Row) -> Cell:
    return line(row.text("target.model")).rstrip("/").rpartition("/")[2]


def _phase(row: Row) -> Cell:
    phase = line(row.text("phase"))
    return (phase, "" if phase == "done" else "bad")


def _grade(row: Row) -> Cell:
    grade = line(row.text("grade"))
    return (grade, {"good": "good", "invalid": "bad"}.get(grade, ""))


_ALL: tuple[tuple[str, Column[Row]], ...] = (
    _text("Name", 14, "name", fills=True),
    ("started_at", Column("Started", 11, _when)),
    _text("Target", 9, "target.kind"),
    _number("tok/s", 6, "output_throughput"),
    _number("TTFT50", 7, "ttft_ms.p50"),
    _number("TTFT99", 7, "ttft_ms.p99"),
    _number("ITL50", 6, "itl_ms.p50"),
    ("grade", Column("Grade", 8, _grade)),
    _number("ITL99", 6, "itl_ms.p99"),
    _number("req/s", 6, "request_throughput"),
    _number("E2E50", 6, "e2e_ms.p50"),
    _number("E2E99", 6, "e2e_ms.p99"),
    _number("TPOT50", 7, "tpot_ms.p50"),
    _count("Conc", 6, "load.concurrency"),
    _number("Rate", 6, "load.rate"),
    _count("ok", 6, "outcomes.ok"),
    ("phase", Column("Phase", 8, _phase)),
    _number("Goodput", 8, "goodput"),
    _count("In", 6, "dataset.input_len"),
    _count("Out", 6, "dataset.output_len"),
    _number("Cancel", 7, "cancel.rate"),
    ("target.model", Column("Model", 22, _model)),
    _text("Run", 44, "run_id"),
)
COLUMN_NAMES = [name for name, _ in _ALL]
COLUMNS = [column for _, column in _ALL]
TEXTS = frozenset({"name", "started_at", "target.kind", "grade", "phase", "target.model", "run_id"})
NUMBERS = frozenset(COLUMN_NAMES) - TEXTS
BEST_IS_HIGH = frozenset({"started_at", "output_throughput", "request_throughput", "goodput", "outcomes.ok"})
