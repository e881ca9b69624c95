"""A titled part of the live screen that can have the focus and the whole screen."""

from __future__ import annotations

from textual.containers import Vertical


class Panel(Vertical, can_focus=True):
    """A container with a number and a title in its upper border."""

    DEFAULT_CSS = """
    Panel {
        border-top: solid $panel-lighten-2;
        border-title-color: $text-muted;
        &:focus, &:focus-within { border-top: solid $accent; border-title-color: $text-accent; }
    }
    """
    ALLOW_MAXIMIZE = True

    def __init__(self, number: int, title: str, *, id: str) -> None:
        super().__init__(id=id)
        self._number = number
        self.retitle(title)

    def retitle(self, title: str) -> None:
        """Change the title."""
        self._title_words = title
        self.hint("")

    def hint(self, words: str) -> None:
        """Show words after the title, in brackets; "" takes them away."""
        self.border_title = f"{self._number} {self._title_words}{f' ({words})' if words else ''}"
