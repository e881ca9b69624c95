"""The start screen: live runs, saved configs and presets, and what the one under the cursor says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input

from lmtui.errors import LmtuiError
from lmtui.tui import catalog, keys, messages
from lmtui.tui.catalog import Entry
from lmtui.tui.plain import line
from lmtui.tui.screens.dialogs import Answer, Ask, AskName, Pick
from lmtui.tui.typed_ahead import ACTIONS
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.filter_line import FilterLine
from lmtui.tui.widgets.key_line import KeyLine
from lmtui.tui.widgets.table import Cell, Column, Table

POLL_S = 1.0
GREETING = """Welcome. lmtui measures how fast an LLM engine or server answers.
r  run what is under the cursor: quickstart is a real engine, simulated none
n  make a config of your own from a preset
?  show every key"""


class ConfigsScreen(Screen[None]):
    """Everything that can be run, and what is running."""

    PLACE = "configs"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self) -> None:
        super().__init__()
        self._poll: Timer | None = None
        self._configs: list[Entry] = []
        self._live: list[Entry] = []
        self._live_runs = catalog.LiveRuns()
        self._last_results = catalog.LastResults()
        self._is_read = False

    def compose(self) -> ComposeResult:
        """Lay out the list, the preview and the keys."""
        yield Figures("lmtui   configs", classes="title")
        with Container(id="configs-body"):
            yield Table(COLUMNS, id="configs")
            with VerticalScroll(id="preview", can_focus=False):
                yield Figures("reading the configs …", id="preview-text")
                yield Figures("", id="preview-file")
        yield FilterLine(id="filter")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Read what there is, and keep an eye on live runs."""
        self.set_focus(self.query_one("#configs", Table))
        self._poll = self.set_interval(POLL_S, self._look_for_live_runs)
        self._look_for_live_runs()
        self._read()

    def on_screen_suspend(self) -> None:
        """Rest below another screen: Textual sends that one whole again when something stirs below it."""
        if self._poll is not None:
            self._poll.pause()

    def on_screen_resume(self) -> None:
        """Read again: a form may have saved, a run may have ended."""
        if self._poll is not None:
            self._poll.resume()
        if self._is_read:
            self._read()
            self._look_for_live_runs()

    @work(exclusive=True, group="read")
    async def _read(self, name: str = "") -> None:
        self._configs, problem = await asyncio.to_thread(catalog.configs, self._last_results)
        if problem:
            self.notify(problem, severity="warning", markup=False)
        at = self._first_cursor() if not self._is_read else None
        self._is_read = True
        self._show(name, at)

    def _first_cursor(self) -> int:
        """Return where the cursor starts: on the newest thing of the user's, else on quickstart."""
        rows = [*self._live, *self._configs]
        if any(entry.source != "preset" for entry in rows):
            return 0
        return next((i for i, entry in enumerate(rows) if entry.name == "quickstart"), 0)

    @work(exclusive=True, group="live")
    async def _look_for_live_runs(self) -> None:
        live = await asyncio.to_thread(self._live_runs.poll)
        ended = {entry.run.run_id for entry in self._live if entry.run} - {e.run.run_id for e in live if e.run}
        if live != self._live:
            at = len(live) - len(self._live)
            self._live = live
            table = self.query_one("#configs", Table)
            self._show("", table.cursor + at if self._is_read else None)
        if ended:
            self._read()

    def _show(self, name: str = "", cursor: int | None = None) -> None:
        table: Table[Entry] = self.query_one("#configs", Table)
        found = catalog.filtered([*self._live, *self._configs], self.query_one(FilterLine).words)
        if name:
            cursor = next((i for i, e in enumerate(found) if e.name == name and e.source == "saved"), cursor)
        table.show(found, cursor=cursor)

    @property
    def _current(self) -> Entry | None:
        entry = self.query_one("#configs", Table).current
        return entry if isinstance(entry, Entry) else None

    @on(Table.Moved)
    def _preview(self) -> None:
        entry = self._current
        self.query_one("#preview-text", Figures).show(self._preview_text(entry), wraps=True)
        self.query_one("#preview-file", Figures).show(entry.text if entry is not None else "")

    def _preview_text(self, entry: Entry | None) -> Content:
        if entry is None:
            return Content("No config has these words: esc takes the filter away" if self._is_read else "")
        parts: list[str | tuple[str, str]] = []
        has_own = any(e.source != "preset" or e.last for e in [*self._live, *self._configs])
        if self._is_read and not has_own:
            parts += [GREETING, "\n\n"]
        parts += [(entry.name, "bold"), f"  {entry.source}\n"]
        if entry.status is not None:
            parts += [f"{entry.load}\n{entry.status.message}\n", "\na or enter shows it\n"]
        if entry.problem:
            parts += [("cannot run: ", "$text-error"), f"{entry.problem}\n"]
        if entry.notes:
            parts.append(f"{entry.notes}\n")
        if entry.last is not None:
            last = entry.last
            parts += [
                ("last result  ", "$text-muted"),
                f"{last.output_throughput} tok/s · {last.phase} {last.grade}\n",
                ("P50          ", "$text-muted"),
                f"TTFT {last.ttft_p50_ms} ms · ITL {last.itl_p50_ms} ms\n",
                ("started      ", "$text-muted"),
                f"{last.started_at}\n",
            ]
        return Content.assemble(*parts)

    # Keys

    def action_open(self) -> None:
        """Open the run or the config."""
        if (entry := self._current) is not None:
            if entry.run is not None:
                self.post_message(messages.WatchWanted(entry.run))
            else:
                self.action_edit()

    @on(Table.Chosen)
    def _on_chosen(self) -> None:
        self.action_open()

    def action_attach(self) -> None:
        """Show the live run under the cursor, else the newest one."""
        current = self._current
        run = current.run if current is not None and current.run else self._live[0].run if self._live else None
        if run is None:
            self.notify("No run is live: r starts one, h shows the results of those that are over", markup=False)
        else:
            self.post_message(messages.WatchWanted(run))

    def action_history(self) -> None:
        """Show the results."""
        self.post_message(messages.HistoryWanted())

    def action_run(self) -> None:
        """Run the config under the cursor."""
        entry = self._current
        if entry is None or entry.run is not None:
            return
        try:
            document = catalog.load(entry.name, entry.source)
        except LmtuiError as error:
            self._say(error)
            return
        checked = document.check()
        if checked.config is None:
            self.notify("It has errors: they are marked in the form", severity="warning", markup=False)
            self.post_message(messages.FormWanted(document, entry.name, is_saved=entry.source == "saved"))
        else:
            self.post_message(messages.RunWanted(checked.config, checked.notes))

    def action_edit(self) -> None:
        """Edit the config under the cursor; a preset is edited as a copy."""
        entry = self._current
        if entry is None or entry.run is not None:
            return
        try:
            document = catalog.load(entry.name, entry.source)
        except LmtuiError as error:
            self._say(error)
            return
        self.post_message(messages.FormWanted(document, entry.name, is_saved=entry.source == "saved"))

    @work(group=ACTIONS)
    async def action_new(self) -> None:
        """Make a config from a preset."""
        from lmtui.config import presets, store

        notes = {entry.name: entry.notes for entry in self._configs if entry.source == "preset"}
        choices = [(name, notes.get(name, "")) for name in presets.names()]
        preset = await self.app.push_screen_wait(Pick("Start from which preset?", choices))
        if preset is None:
            return
        name = await self.app.push_screen_wait(AskName("Name of the new config", f"my-{preset}", taken=store.names()))
        if name is None:
            return
        try:
            store.duplicate(preset, name)
            document = store.load(name)
        except LmtuiError as error:
            self._say(error)
            return
        self.post_message(messages.FormWanted(document, name, is_saved=True))

    @work(group=ACTIONS)
    async def action_duplicate(self) -> None:
        """Copy the config under the cursor."""
        from lmtui.config import store

        entry = self._current
        if entry is None or entry.run is not None:
            return
        name = await self.app.push_screen_wait(AskName("Name of the copy", f"{entry.name}-2", taken=store.names()))
        if name is None:
            return
        try:
            store.duplicate(entry.name, name)
        except LmtuiError as error:
            self._say(error)
            return
        self._read(name)

    @work(group=ACTIONS)
    async def action_delete(self) -> None:
        """Move the config under the cursor to the trash."""
        from lmtui.config import store

        entry = self._current
        if entry is None or entry.source != "saved":
            self.notify("Presets and live runs are not deleted here", markup=False)
            return
        answer = await self.app.push_screen_wait(
            Ask(f"Move {entry.name} to the trash?", [Answer("y", "move it", "yes"), Answer("n", "keep it", "no")])
        )
        if answer == "yes":
            try:
                place = store.delete(entry.name)
            except LmtuiError as error:
                self._say(error)
                return
            self.notify(f"Moved to {place}", markup=False)
            self._read()

    def action_find(self) -> None:
        """Type a filter."""
        self.query_one(FilterLine).start()

    def action_clear(self) -> None:
        """Take the filter away."""
        self.query_one(FilterLine).clear()

    @on(Input.Changed)
    def _on_words(self) -> None:
        self._show(cursor=0)

    @on(FilterLine.Left)
    def _on_filter_left(self) -> None:
        self.set_focus(self.query_one("#configs", Table))

    def _say(self, error: LmtuiError) -> None:
        self.notify(str(error), severity="error", markup=False, timeout=8)


def _mark(entry: Entry) -> Cell:
    return {"live": ("▶", "good"), "preset": ("·", "dim")}.get(entry.source, (" ", ""))


def _grade(entry: Entry) -> Cell:
    if entry.problem:
        return ("errors", "bad")
    grade = entry.last.grade if entry.last else ""
    return (grade, {"good": "good", "invalid": "bad"}.get(grade, ""))


def _last(word: str) -> Callable[[Entry], Cell]:
    return lambda entry: getattr(entry.last, word) if entry.last else ""


def _when(entry: Entry) -> Cell:
    return line(entry.last.started_at)[5:16].replace("T", " ") if entry.last else ""


COLUMNS: list[Column[Entry]] = [
    Column("", 1, _mark),
    Column("Config", 17, lambda e: e.name, fills=True),
    Column("Target", 12, lambda e: e.target),
    Column("Load", 17, lambda e: e.load),
    Column("tok/s", 6, _last("output_throughput"), right=True),
    Column("TTFT50", 6, _last("ttft_p50_ms"), right=True),
    Column("Grade", 7, _grade),
    Column("ITL50", 6, _last("itl_p50_ms"), right=True),
    Column("Last run", 11, _when),
    Column("Model", 22, lambda e: e.model),
]
