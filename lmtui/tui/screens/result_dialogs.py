"""Questions of the results: which columns, which tags and what note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.table import Cell, Column, Table

Choice = tuple[str, str]


class PickMany(ModalScreen["list[str] | None"]):
    """Choose any of many: type to narrow the list, space chooses, enter takes what is chosen; None: leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "give_up", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("ctrl+r", "usual", show=False, priority=True),
    ]

    def __init__(self, question: str, choices: Sequence[Choice], chosen: Sequence[str], usual: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices
        self._chosen = list(chosen)
        self._usual = list(usual)

    def compose(self) -> ComposeResult:
        """Lay out the line to type in and the list."""
        with Vertical(classes="dialog dialog-wide"):
            yield Figures(self._question, classes="dialog-title")
            yield Narrow(placeholder="type to narrow · space chooses · enter takes · ^r the usual ones", compact=True)
            table: Table[Choice] = Table(
                [
                    Column("", 3, self._mark),
                    Column("", max(len(c[0]) for c in self._choices) + 1, lambda c: c[0]),
                    Column("", 10, lambda c: (c[1], "dim"), fills=True),
                ],
                id="many",
            )
            table.has_titles = False
            table.can_focus = False
            table.nothing = "nothing has these words: backspace takes them away"
            table.styles.height = min(len(self._choices), 14)
            yield table

    def _mark(self, choice: Choice) -> Cell:
        return ("[x]", "mark") if choice[0] in self._chosen else ("[ ]", "dim")

    def on_mount(self) -> None:
        """Show all choices."""
        self._table.show(self._choices)
        self.query_one(Input).cursor_blink = False
        self.set_focus(self.query_one(Input))

    @property
    def _table(self) -> Table[Choice]:
        table: Table[Choice] = self.query_one("#many", Table)
        return table

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        self._table.show([c for c in self._choices if all(w in f"{c[0]} {c[1]}".lower() for w in words)], cursor=0)

    def action_choose(self) -> None:
        """Choose what is under the cursor, or not."""
        if (current := self._table.current) is not None:
            if current[0] in self._chosen:
                self._chosen.remove(current[0])
            else:
                self._chosen.append(current[0])
            self._table.refresh()

    @on(Table.Chosen)
    def _on_clicked(self) -> None:
        self.action_choose()

    def action_usual(self) -> None:
        """Choose the usual ones."""
        self._chosen = list(self._usual)
        self._table.refresh()

    @on(Input.Submitted)
    def _take(self) -> None:
        self.dismiss([name for name, _ in self._choices if name in self._chosen])

    def action_move(self, by: int) -> None:
        """Move the cursor of the list."""
        self._table.cursor += by

    def action_give_up(self) -> None:
        """Leave it as it was."""
        self.dismiss(None)


class Narrow(Input):
    """A line for words of which a blank is none: space chooses."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "space" and isinstance(self.screen, PickMany):
            event.stop()
            event.prevent_default()
            self.screen.action_choose()


class AskTags(ModalScreen["tuple[tuple[str, ...], str] | None"]):
    """Ask for tags and a note; None: leave them as they are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "give_up", show=False, priority=True),
        Binding("down,tab", "app.focus_next", show=False, priority=True),
        Binding("up,shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    def __init__(self, title: str, tags: Sequence[str], note: str) -> None:
        super().__init__()
        self._title = title
        self._tags = ", ".join(tags)
        self._note = note

    def compose(self) -> ComposeResult:
        """Lay out two lines to type in."""
        with Vertical(classes="dialog dialog-wide"):
            yield Figures(self._title, classes="dialog-title")
            yield Figures("tags, with commas between them")
            yield Input(self._tags, id="tags", compact=True, select_on_focus=False)
            yield Figures("note")
            yield Input(self._note, id="note", compact=True, select_on_focus=False)
            yield Figures("enter: keep them · tab: the other line · esc: leave it", classes="dialog-more")

    def on_mount(self) -> None:
        """Start typing."""
        for box in self.query(Input):
            box.cursor_blink = False
        self.set_focus(self.query_one("#tags"))

    @on(Input.Submitted)
    def _take(self) -> None:
        words = [word.strip() for word in self.query_one("#tags", Input).value.split(",")]
        self.dismiss((tuple(dict.fromkeys(filter(None, words))), self.query_one("#note", Input).value.strip()))

    def action_give_up(self) -> None:
        """Leave them as they were."""
        self.dismiss(None)
