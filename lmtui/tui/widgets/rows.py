"""A virtual list with a cursor: only the rows that are seen are made, so that its length costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lmtui.tui import keys
from lmtui.tui.plain import cell

Part = tuple[str, str]
"""Text, and the key of its style: "" or a name of `RowList.STYLES`."""


class RowList(ScrollView, can_focus=True):
    """Rows below an optional header. A subclass says how many there are and what one looks like."""

    STYLES: ClassVar[tuple[str, ...]] = ("header", "dim", "good", "bad", "mark")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "rows--header",
        "rows--cursor",
        "rows--dim",
        "rows--good",
        "rows--bad",
        "rows--mark",
    }
    DEFAULT_CSS = """
    RowList {
        background: $surface;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        overflow-y: auto;
        & > .rows--header { color: $text-muted; text-style: bold; }
        & > .rows--cursor { background: $surface-lighten-2; text-style: bold; }
        & > .rows--dim { color: $text-muted; }
        & > .rows--good { color: $text-success; }
        & > .rows--bad { color: $text-error; }
        & > .rows--mark { color: $text-accent; }
        &:focus > .rows--cursor { background: $primary; color: $text; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings("list")

    cursor: reactive[int] = reactive(0, repaint=False)
    """The row the cursor is on; 0 also when there are no rows."""

    nothing = ""
    """What stands where there are no rows."""

    class Moved(Message):
        """The cursor is on another row, or on a row with other content."""

        def __init__(self, rows: RowList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

    class Chosen(Message):
        """The row under the cursor was clicked again, which is like enter."""

        def __init__(self, rows: RowList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

    @property
    def count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    @property
    def header(self) -> Sequence[Part]:
        """The header row; nothing when there is none."""
        return ()

    def row(self, index: int, width: int) -> Sequence[Part]:
        """Return what one row looks like; it is cut or filled to `width` cells."""
        raise NotImplementedError

    @property
    def has_header(self) -> bool:
        """Whether the first line is a header."""
        return bool(self.header)

    def rows_changed(self, cursor: int | None = None) -> None:
        """Take note that the rows are others, and draw them; the cursor stays in range."""
        self.virtual_size = Size(self.size.width, self.count + self.has_header)
        self.cursor = max(0, min(self.cursor if cursor is None else cursor, self.count - 1))
        self._show_cursor()
        self.refresh()
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        """Make one line of the screen."""
        width = self.size.width
        base = self.rich_style
        if self.has_header and y == 0:
            return self._strip(self.header, width, base, self.get_component_rich_style("rows--header"))
        index = round(self.scroll_offset.y) + y - self.has_header
        if self.count == 0 and index == 0 and self.nothing:
            return self._strip([(self.nothing, "dim")], width, base, None)
        if not 0 <= index < self.count:
            return Strip([Segment(" " * width, base)], width)
        over = self.get_component_rich_style("rows--cursor", partial=True) if index == self.cursor else None
        return self._strip(self.row(index, width), width, base, over)

    def _strip(self, parts: Sequence[Part], width: int, base: Style, over: Style | None) -> Strip:
        segments: list[Segment] = []
        left = width
        for text, key in parts:
            style = base + self.get_component_rich_style(f"rows--{key}", partial=True) if key else base
            shown = text if len(text) <= left and text.isascii() else cell(text, min(left, Segment(text).cell_length))
            segments.append(Segment(shown, style + over if over else style))
            left -= segments[-1].cell_length
            if left <= 0:
                break
        if left > 0:
            segments.append(Segment(" " * left, base + over if over else base))
        return Strip(segments, width)

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(cursor, self.count - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows that changed, and scroll."""
        for index in (old, new):
            y = index - round(self.scroll_offset.y) + self.has_header
            self.refresh(Region(0, y, self.size.width, 1))
        self._show_cursor()
        self.post_message(self.Moved(self))

    def _show_cursor(self) -> None:
        page = self._page
        if page <= 0:
            return
        top = round(self.scroll_offset.y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True, force=True)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False, immediate=True, force=True)

    @property
    def _page(self) -> int:
        return self.size.height - self.has_header

    def on_resize(self, _: events.Resize) -> None:
        """Keep the cursor in sight."""
        self.virtual_size = Size(self.size.width, self.count + self.has_header)
        self.call_after_refresh(self._show_cursor)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row; on the cursor it is like enter."""
        index = event.y + round(self.scroll_offset.y) - self.has_header
        if not 0 <= index < self.count or (self.has_header and event.y == 0):
            return
        if index == self.cursor:
            self.post_message(self.Chosen(self))
        self.cursor = index

    def action_up(self) -> None:
        """Move up."""
        self.cursor -= 1

    def action_down(self) -> None:
        """Move down."""
        self.cursor += 1

    def action_page_up(self) -> None:
        """Move up by a page."""
        self.cursor -= max(self._page - 1, 1)

    def action_page_down(self) -> None:
        """Move down by a page."""
        self.cursor += max(self._page - 1, 1)

    def action_first(self) -> None:
        """Go to the first row."""
        self.cursor = 0

    def action_last(self) -> None:
        """Go to the last row."""
        self.cursor = self.count - 1
