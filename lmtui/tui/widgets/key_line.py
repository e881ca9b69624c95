"""The line at the foot of a screen: the keys that work there, as many as fit."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.content import Content

from lmtui.tui import keys
from lmtui.tui.widgets.figures import Figures

_ALWAYS = ((" ?", "keys"), ("^q", "quit"))


class KeyLine(Figures):
    """The shown keys of a place. `?` always has room: it shows the others."""

    DEFAULT_CSS = """
    KeyLine { dock: bottom; height: 1; background: $panel; color: $text-muted; }
    """

    def __init__(self, place: str, *, state: str = "") -> None:
        super().__init__("")
        self._place = place
        self._state = state

    def take_state(self, state: str) -> None:
        """Show the keys of this state of the screen."""
        if state != self._state:
            self._state = state
            self.show(self._content(self.size.width))

    def on_resize(self, event: events.Resize) -> None:
        """Fit the keys into the width."""
        self.show(self._content(event.size.width))

    def _content(self, width: int) -> Content:
        keymap = getattr(self.app, "own_keys", None)
        shown = [
            (key.display, key.label)
            for key in keys.of(self._place, keymap)
            if key.is_shown and (not key.state or self._state in key.state.split())
        ]
        left = width - sum(_width(pair) for pair in _ALWAYS)
        fitting: list[tuple[str, str]] = []
        for pair in shown:
            if (left := left - _width(pair)) < 0:
                break
            fitting.append(pair)
        parts: list[str | tuple[str, str]] = []
        for key, label in (*fitting, *_ALWAYS):
            parts += [(key, "bold $text-accent"), f" {label}  "]
        return Content.assemble(*parts)


def _width(pair: tuple[str, str]) -> int:
    return cell_len(pair[0]) + cell_len(pair[1]) + 3
