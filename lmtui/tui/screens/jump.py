"""Jump mode: a letter on each part of the screen that keys can go to; pressing it goes there."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from lmtui.tui.widgets.figures import Figures

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


Part = tuple[Offset, "Widget | str"]
"""Where its letter stands; the widget that takes the focus, or the action that goes there."""


@runtime_checkable
class HasParts(Protocol):
    """A screen with parts that do not take the focus."""

    def jump_parts(self) -> list[Part]:
        """Return them."""


class JumpScreen(ModalScreen["Widget | str | None"]):
    """Lies over a screen whose parts stay in sight; returns the part that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c,ctrl+o", "close", show=False, priority=True)]
    DEFAULT_CSS = """
    JumpScreen {
        layers: marks; align: left top; background: $background 20%;
        & > Figures { layer: marks; position: absolute; width: 3; height: 1; background: $accent; color: $background; }
    }
    """

    def __init__(self, below: Screen[object]) -> None:
        super().__init__()
        chain = below.focus_chain
        outer = {id(ancestor) for widget in chain for ancestor in widget.ancestors}
        inner = [widget for widget in chain if widget.region.area and id(widget) not in outer]
        parts: list[Part] = [(widget.region.offset, widget) for widget in inner]
        if isinstance(below, HasParts):
            parts += below.jump_parts()
        self._parts = dict(zip(LETTERS, parts, strict=False))

    def compose(self) -> ComposeResult:
        """Lay a letter on each part."""
        for letter, (place, _) in self._parts.items():
            mark = Figures(f" {letter} ")
            mark.styles.offset = (place.x, place.y)
            yield mark

    def on_key(self, event: events.Key) -> None:
        """Go to the part with this letter; any other key closes."""
        event.stop()
        _, goal = self._parts.get(event.character or "", (None, None))
        self.dismiss(goal)

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)
