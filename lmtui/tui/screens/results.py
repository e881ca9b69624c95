"""The history: every finished run as a row, to sort, filter, open, compare, plot, export, replay and run again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from lmtui import paths
from lmtui.errors import LmtuiError
from lmtui.results import export, history, remarks
from lmtui.results.remarks import Remark
from lmtui.results.row_filter import RunFilter
from lmtui.results.rows import Row
from lmtui.tui import keys, messages, result_columns, settings
from lmtui.tui.catalog import history_stamp
from lmtui.tui.result_columns import BEST_IS_HIGH, USUAL
from lmtui.tui.screens.dialogs import Answer, Ask, AskFile
from lmtui.tui.screens.result_dialogs import AskTags, PickMany
from lmtui.tui.typed_ahead import ACTIONS
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.filter_line import FilterLine
from lmtui.tui.widgets.key_line import KeyLine
from lmtui.tui.widgets.table import Cell, Column, Table


class ResultsScreen(Screen[None]):
    """The rows of history.csv, newest first, without those in the trash."""

    PLACE = "results"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self) -> None:
        super().__init__()
        self._held: list[Row] = []
        self._rows: list[Row] = []
        self._order: list[int] = []
        self._all_columns: tuple[str, ...] = ()
        self._added: dict[str, Remark] = {}
        self._columns = USUAL
        self._marked: dict[str, None] = {}
        self._filter = RunFilter([], [])
        self._sort = "started_at"
        self._is_descending = True
        self._notes: list[str] = []
        self._stamp: tuple[int, int] | None = None

    def compose(self) -> ComposeResult:
        """Lay out the table and the keys."""
        yield Figures("lmtui   results   reading the history …", id="results-title", classes="title")
        yield Table(fixed=2, id="history")
        yield FilterLine(id="filter")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Begin in the table."""
        self._take_columns(settings.load().columns or USUAL)
        self.set_focus(self._table)

    @property
    def _table(self) -> Table[Row]:
        table: Table[Row] = self.query_one("#history", Table)
        return table

    def _take_columns(self, names: tuple[str, ...]) -> None:
        self._columns = names
        if self._sort not in names:
            self._sort = names[0]
        mark: Column[Row] = Column("", 1, self._mark)
        self._table.show_columns([mark, *map(result_columns.column, names)])

    def _mark(self, row: Row) -> Cell:
        return ("●", "mark") if row.text("run_id") in self._marked else ""

    def on_screen_resume(self) -> None:
        """Read the history; on coming back only when a run has ended meanwhile."""
        if (stamp := history_stamp()) is None or stamp != self._stamp:
            self._stamp = stamp
            self._read()

    @work(exclusive=True, group="read")
    async def _read(self) -> None:
        try:
            held = await asyncio.to_thread(history.load, paths.history())
            self._added = await asyncio.to_thread(remarks.read, paths.history())
        except LmtuiError as error:
            self._say(error)
            self._show()
            return
        self._held, self._all_columns = held.rows, held.columns
        self._notes = [f"{len(held.bad)} lines are no rows (first: line {held.bad[0].line})"] if held.bad else []
        await self._apply()

    async def _apply(self) -> None:
        """Take the annotations into the rows, and show them."""
        self._rows = remarks.applied(self._held, self._added)
        columns = {*self._all_columns, "tags", "notes"}
        self._filter = await asyncio.to_thread(RunFilter, self._rows, columns)
        known = {row.text("run_id") for row in self._rows}
        self._marked = {run_id: None for run_id in self._marked if run_id in known}
        self._put_in_order()
        self._show()

    def _put_in_order(self) -> None:
        self._order = result_columns.order(self._rows, self._sort, is_descending=self._is_descending)

    def _show(self, cursor: int | None = None) -> None:
        words = self.query_one(FilterLine).words
        found = self._filter.find(words)
        kept = set(found.rows)
        rows = [self._rows[i] for i in self._order if i in kept]
        self._table.nothing = (
            "" if self._rows == [] else "no run has these words: esc takes the filter away" if words else ""
        )
        self._table.mark_sorted(1 + self._columns.index(self._sort), is_descending=self._is_descending)
        self._table.show(rows, cursor=cursor)
        self._show_title(len(rows), found.problem)

    def _show_title(self, shown: int, problem: str = "") -> None:
        total, hidden = len(self._rows), len(self._held) - len(self._rows)
        parts = [f"{shown} of {total} runs" if shown != total else f"{total} runs"]
        if not self._held:
            parts = ["no run has finished yet: q goes back, r there runs a config"]
        parts += [f"{len(self._marked)} marked"] if self._marked else []
        parts += [f"{hidden} in the trash"] if hidden else []
        parts += [problem] if problem else []
        self.query_one("#results-title", Figures).show("lmtui   results   " + "   ".join([*parts, *self._notes]))

    # Order and columns

    def action_sort_left(self) -> None:
        """Sort by the column further left."""
        self._sort_by(-1)

    def action_sort_right(self) -> None:
        """Sort by the column further right."""
        self._sort_by(1)

    def _sort_by(self, step: int) -> None:
        self._sort = self._columns[(self._columns.index(self._sort) + step) % len(self._columns)]
        self._is_descending = self._sort in BEST_IS_HIGH
        self._put_in_order()
        self._show(cursor=0)

    def action_order(self) -> None:
        """Turn the order round."""
        self._is_descending = not self._is_descending
        self._put_in_order()
        self._show(cursor=0)

    @work(group=ACTIONS)
    async def action_columns(self) -> None:
        """Choose the columns, and remember them."""
        choices = result_columns.to_choose(self._all_columns, self._rows)
        chosen = await self.app.push_screen_wait(PickMany("Which columns?", choices, self._columns, USUAL))
        if not chosen:
            return
        self._take_columns(tuple(chosen))
        self._put_in_order()
        self._show()
        try:
            settings.remember("results.columns", None if tuple(chosen) == USUAL else chosen)
        except LmtuiError as error:
            self._say(error)

    # Marks

    def action_mark(self) -> None:
        """Mark the row, or take its mark away, and go on to the next."""
        if (row := self._table.current) is None:
            return
        run_id = row.text("run_id")
        if run_id in self._marked:
            del self._marked[run_id]
        else:
            self._marked[run_id] = None
        self._table.refresh()
        self._table.cursor += 1
        self._show_title(self._table.count)

    def _chosen(self) -> list[str]:
        """Return the marked runs, else the one under the cursor."""
        current = self._table.current
        return list(self._marked) or ([current.text("run_id")] if current is not None else [])

    def action_compare(self) -> None:
        """Compare the marked runs; with one mark, that one with the run under the cursor."""
        run_ids = list(self._marked)
        current = self._table.current
        if len(run_ids) == 1 and current is not None and current.text("run_id") not in self._marked:
            run_ids.append(current.text("run_id"))
        if len(run_ids) < 2:
            self.notify("Mark two runs or more with space; the first is what the others are compared with")
            return
        self.post_message(messages.CompareWanted(run_ids))

    def action_plot(self) -> None:
        """Plot the marked runs, else all that are shown."""
        marked = [row for row in self._rows if row.text("run_id") in self._marked]
        rows = marked if len(marked) > 1 else list(self._table.rows)
        if rows:
            self.post_message(messages.PlotWanted(rows))

    # What is added to rows

    @work(group=ACTIONS)
    async def action_annotate(self) -> None:
        """Write tags and a note."""
        if (row := self._table.current) is None:
            return
        asked = await self.app.push_screen_wait(AskTags(row.text("run_id"), remarks.tags(row), row.text("notes")))
        if asked is not None:
            one = Remark(*asked)
            await self._add({row.text("run_id"): one})

    @work(group=ACTIONS)
    async def action_discard(self) -> None:
        """Hide the marked runs, else this one."""
        run_ids = self._chosen()
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if run_ids and await self._add({run_id: self._with(run_id, now) for run_id in run_ids}):
            what = run_ids[0] if len(run_ids) == 1 else f"{len(run_ids)} runs"
            self.notify(f"{what} in the trash: z takes it back. The history keeps every row", markup=False)

    @work(group=ACTIONS)
    async def action_restore(self) -> None:
        """Take back what went to the trash last."""
        stamps = [one.trashed_at for one in self._added.values() if one.trashed_at is not None]
        if not stamps:
            self.notify("The trash is empty")
            return
        last = [run_id for run_id, one in self._added.items() if one.trashed_at == max(stamps)]
        await self._add({run_id: self._with(run_id, None) for run_id in last})

    def _with(self, run_id: str, trashed_at: str | None) -> Remark:
        before = self._added.get(run_id, Remark())
        return Remark(before.tags, before.note, trashed_at)

    async def _add(self, changes: dict[str, Remark]) -> bool:
        try:
            self._added = await asyncio.to_thread(remarks.change, paths.history(), changes)
        except LmtuiError as error:
            self._say(error)
            return False
        await self._apply()
        return True

    # One run

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

    @work(group=ACTIONS)
    async def action_export(self) -> None:
        """Write the marked runs, else this one, to a file."""
        if not (run_ids := self._chosen()):
            return
        what = run_ids[0] if len(run_ids) == 1 else f"{len(run_ids)}-runs"
        name = await self.app.push_screen_wait(
            AskFile(
                "Write to which file? Its ending is the format: .csv, .json or .md",
                f"{os.getcwd()}/{what}.md",
                lambda path: export.check(path, force=True),
            )
        )
        if name is None:
            return
        path, is_there = _place(name)
        if is_there and await self.app.push_screen_wait(_replace(path)) != "yes":
            return
        try:
            await asyncio.to_thread(_export, run_ids, path)
        except LmtuiError as error:
            self._say(error)
        else:
            self.notify(f"Written to {path}" + (f": {len(run_ids)} runs" if len(run_ids) > 1 else ""), markup=False)

    # The filter

    def action_find(self) -> None:
        """Type a filter."""
        self.query_one(FilterLine).start()

    def action_clear(self) -> None:
        """Take the filter away, else the marks, or go back when there is neither."""
        if self.query_one(FilterLine).words:
            self.query_one(FilterLine).clear()
        elif self._marked:
            self._marked = {}
            self._table.refresh()
            self._show_title(self._table.count)
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
        self.set_focus(self._table)

    def _say(self, error: LmtuiError) -> None:
        self.notify(str(error), severity="error", markup=False, timeout=10)


def _place(name: str) -> tuple[Path, bool]:
    path = Path(name).expanduser()
    return path, path.exists()


def _replace(path: Path) -> Ask:
    return Ask(f"{path} exists", [Answer("n", "leave it", "no"), Answer("r", "replace it", "yes")])


def _export(run_ids: Sequence[str], path: Path) -> None:
    from lmtui.runner import kept

    export.export([kept.to_export(run_id) for run_id in run_ids], path, force=True)
