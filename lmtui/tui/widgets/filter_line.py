"""The line that narrows a list as one types; it is there only while it is used."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from lmtui.tui.widgets.figures import Figures


class FilterLine(Horizontal):
    """`/` and what is typed after it. Enter keeps the filter and goes back to the list; esc takes it away."""

    DEFAULT_CSS = """
    FilterLine {
        height: 1; background: $panel;
        & > Figures { width: auto; padding: 0 1; color: $text-accent; }
        & > Input { width: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", show=False),
        Binding("down,tab", "leave", show=False, priority=True),
    ]

    class Left(Message):
        """The keys go to the list again."""

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield Figures("/")
        yield Input(compact=True)

    def on_mount(self) -> None:
        """Hide until it is used."""
        self.query_one(Input).cursor_blink = False
        self.display = False

    @property
    def words(self) -> str:
        """What is typed."""
        return self.query_one(Input).value

    def start(self) -> None:
        """Show it and type into it."""
        self.display = True
        self.screen.set_focus(self.query_one(Input))  # at once: what is typed ahead goes into it

    def clear(self) -> None:
        """Take the filter away."""
        self.query_one(Input).value = ""
        self.action_leave()

    def action_clear(self) -> None:
        """Take the filter away."""
        self.clear()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        event.stop()
        self.action_leave()

    def action_leave(self) -> None:
        """Go back to the list."""
        self.display = bool(self.words)
        self.post_message(self.Left())
