"""Text that is drawn again only when it changed: figures, counts, headers."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Figures(Static):
    """One text. It is `Content`, or a string that is never read as markup."""

    def __init__(self, text: str | Content = "", *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(text, id=id, classes=classes, markup=False)
        self._shown: str | Content = text

    def show(self, text: str | Content, *, wraps: bool = False) -> None:
        """Show the text; nothing is drawn when it is what stands there. `wraps`: it may take more rows than lines."""
        if text == self._shown:
            return
        has_other_height = wraps or self.size.height == 0 or str(text).count("\n") != str(self._shown).count("\n")
        self._shown = text
        self.update(text, layout=has_other_height)

    @property
    def text(self) -> str:
        """What is shown, without its styles."""
        return str(self._shown)
