"""Every key, those of the screen below first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from lmtui.tui import keys
from lmtui.tui.widgets.figures import Figures


class HelpScreen(ModalScreen[None]):
    """The keys as text that scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,ctrl+c", "close", show=False, priority=True),
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
    ]

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def compose(self) -> ComposeResult:
        """Lay out the keys."""
        with VerticalScroll(classes="help"):
            yield Figures(help_text(self._place, getattr(self.app, "own_keys", None)))

    def on_mount(self) -> None:
        """Scroll with the keys."""
        self.set_focus(self.query_one(VerticalScroll))

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)


def help_text(place: str, keymap: Mapping[str, str] | None = None) -> Content:
    """Return the keys of every place, `place` first, as a keymap (id → keys) has them."""
    parts: list[str | tuple[str, str]] = []
    for name in sorted(keys.PLACES, key=lambda one: one != place):
        parts.append((f"{keys.PLACES[name]}\n", "bold"))
        for key in keys.of(name, keymap):
            parts += [("  "), (f"{key.display:<10}", "$text-accent"), f"{key.tooltip}\n"]
        parts.append("\n")
    parts.append(("esc, q or ? closes this. ", "$text-muted"))
    example = keys.of(place)[0].id
    parts.append((f'Other keys: settings.toml, [keymap], "{example}" = "f9"', "$text-muted"))
    return Content.assemble(*parts)
