"""Short questions over a screen: a choice, a name, a pick from a list, a text to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input

from lmtui.errors import LmtuiError
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.path_suggester import PathSuggester
from lmtui.tui.widgets.table import Column, Table


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a question: its key, its words, and what the question returns."""

    key: str
    words: str
    result: str


class Ask(ModalScreen[str]):
    """A question with a few answers. The first one is under the cursor; esc gives the last one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "answer_last", show=False),
        Binding("enter", "answer", show=False),
        Binding("ctrl+c,ctrl+q", "answer", show=False, priority=True),
    ]

    def __init__(self, question: str, answers: Sequence[Answer], *, more: str = "") -> None:
        super().__init__()
        self._question = question
        self._more = more
        self._answers = answers

    def compose(self) -> ComposeResult:
        """Lay out the question and its answers."""
        with Vertical(classes="dialog"):
            yield Figures(self._question, classes="dialog-title")
            if self._more:
                yield Figures(self._more, classes="dialog-more")
            table: Table[Answer] = Table(
                [Column("", 3, lambda a: (a.key, "mark")), Column("", 40, lambda a: a.words, fills=True)], id="answers"
            )
            table.has_titles = False
            table.styles.height = len(self._answers)
            yield table

    def on_mount(self) -> None:
        """Show the answers."""
        table = self.query_one("#answers", Table)
        table.show(self._answers)
        self.set_focus(table)

    def on_key(self, event: events.Key) -> None:
        """Give the answer whose key was pressed."""
        for answer in self._answers:
            if event.character == answer.key:
                event.stop()
                self.dismiss(answer.result)

    @on(Table.Chosen)
    def action_answer(self) -> None:
        """Give the answer under the cursor."""
        answer = self.query_one("#answers", Table).current
        if isinstance(answer, Answer):
            self.dismiss(answer.result)

    def action_answer_last(self) -> None:
        """Give the last answer: the one that changes nothing."""
        self.dismiss(self._answers[-1].result)


class AskName(ModalScreen["str | None"]):
    """Ask for a name; None when there is to be none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "give_up", show=False, priority=True)]

    def __init__(self, question: str, name: str, *, taken: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = question
        self._suggested = name
        self._taken = set(taken)

    def compose(self) -> ComposeResult:
        """Lay out the question and the line to type in."""
        with Vertical(classes="dialog"):
            yield Figures(self._question, classes="dialog-title")
            yield Input(self._suggested, id="name", compact=True)
            yield Figures("enter: take it · esc: leave it", id="name-hint", classes="dialog-more")

    def on_mount(self) -> None:
        """Start typing."""
        self.query_one(Input).cursor_blink = False
        self.set_focus(self.query_one(Input))

    def problem(self, name: str) -> str:
        """Return why the name cannot be taken; "" when it can."""
        if not name:
            return "A name is needed: type one"
        return f"{name} exists already: type another" if name in self._taken else ""

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        name = event.value.strip()
        if wrong := self.problem(name):
            self.query_one("#name-hint", Figures).show(wrong, wraps=True)
            return
        self.dismiss(name)

    def action_give_up(self) -> None:
        """Close without a name."""
        self.dismiss(None)


class AskFile(AskName):
    """Ask for a file to write; its path completes."""

    def __init__(self, question: str, path: str, check: Callable[[Path], None]) -> None:
        """`check` raises LmtuiError for a file that cannot be written."""
        super().__init__(question, path)
        self._check = check

    def on_mount(self) -> None:
        """Start typing before the ending."""
        box = self.query_one(Input)
        box.suggester = PathSuggester()
        box.select_on_focus = False
        self.query_one(".dialog").add_class("dialog-wide")
        super().on_mount()
        box.cursor_position = len(box.value)
        self.query_one("#name-hint", Figures).show("enter: write it · →: complete the path · esc: leave it")

    def problem(self, name: str) -> str:
        """Return why the file cannot be written; "" when it can."""
        if not name:
            return "A file is needed"
        try:
            self._check(Path(name).expanduser())
        except LmtuiError as error:
            return str(error)
        return ""


class Pick(ModalScreen["str | None"]):
    """Pick one of many: type to narrow the list, arrows to move, enter to take; None when none is taken."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "give_up", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
    ]

    def __init__(self, question: str, choices: Sequence[tuple[str, str]], *, at: str = "") -> None:
        super().__init__()
        self._question = question
        self._choices = choices
        self._at = at

    def compose(self) -> ComposeResult:
        """Lay out the line to type in and the list."""
        with Vertical(classes="dialog dialog-wide"):
            yield Figures(self._question, classes="dialog-title")
            yield Input(placeholder="type to narrow · ↑ ↓ move · enter takes · esc leaves", id="words", compact=True)
            table: Table[tuple[str, str]] = Table(
                [
                    Column("", max((len(c[0]) for c in self._choices), default=8) + 1, lambda c: c[0]),
                    Column("", 20, lambda c: (c[1], "dim"), fills=True),
                ],
                id="choices",
            )
            table.has_titles = False
            table.can_focus = False
            table.styles.height = min(len(self._choices), 14)
            table.nothing = "nothing has these words: backspace takes them away"
            yield table

    def on_mount(self) -> None:
        """Show all choices, with the cursor on the one that is set."""
        names = [name for name, _ in self._choices]
        self.query_one("#choices", Table).show(self._choices, cursor=names.index(self._at) if self._at in names else 0)
        self.query_one(Input).cursor_blink = False
        self.set_focus(self.query_one(Input))

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        found = [c for c in self._choices if all(word in f"{c[0]} {c[1]}".lower() for word in words)]
        self.query_one("#choices", Table).show(found, cursor=None if not words else 0)

    @on(Input.Submitted)
    @on(Table.Chosen)
    def _take(self) -> None:
        current = self.query_one("#choices", Table).current
        if current is not None:
            self.dismiss(current[0])

    def action_move(self, by: int) -> None:
        """Move the cursor of the list."""
        self.query_one("#choices", Table).cursor += by

    def action_give_up(self) -> None:
        """Close without a choice."""
        self.dismiss(None)


class Note(ModalScreen[None]):
    """A text to read; any of esc, enter and q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,ctrl+c", "close", show=False, priority=True)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        with Vertical(classes="dialog dialog-wide"):
            yield Figures(self._title, classes="dialog-title")
            with VerticalScroll(classes="dialog-text"):
                yield Figures(self._text)
            yield Figures("esc closes", classes="dialog-more")

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)
