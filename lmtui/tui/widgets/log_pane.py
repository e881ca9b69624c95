"""The end of a log, following it; what it shows is never interpreted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lmtui.tui.plain import cell, log_lines

KEPT = 2000
"""Lines that are kept; the whole log is in its file."""


class LogPane(ScrollView, can_focus=True):
    """The last KEPT lines. It follows the end until it is scrolled up, and again once it is scrolled down."""

    DEFAULT_CSS = """
    LogPane {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        overflow-x: auto;
        overflow-y: auto;
        color: $text-muted;
        &:focus { color: $text; }
    }
    """

    class Behind(Message):
        """So many lines came while it was scrolled up; 0: it follows again."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._follows = True
        self._behind = 0
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._tail = ""

    @property
    def lines(self) -> list[str]:
        """The lines that are kept."""
        return list(self._lines)

    def write(self, text: str) -> None:
        """Append text of the log; a last line without its end waits for the rest."""
        whole, _, self._tail = (self._tail + text).rpartition("\n")
        if whole or "\n" in text:
            self.write_lines(log_lines(whole))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Append whole lines that are safe to show."""
        before = len(self._lines)
        new = list(lines)
        self._lines.extend(new)
        dropped = before + len(new) - len(self._lines)
        width = max((cell_len(one) for one in new), default=0)
        self.virtual_size = Size(max(self.virtual_size.width, width), len(self._lines))
        self._fall_behind(0 if self._follows else self._behind + len(new))
        if self._follows:
            self.scroll_end(animate=False, immediate=True, x_axis=False)
        elif dropped:
            self.scroll_to(y=max(self.scroll_offset.y - dropped, 0), animate=False, immediate=True)
        self.refresh()

    def _fall_behind(self, lines: int) -> None:
        if lines != self._behind:
            self._behind = lines
            self.post_message(self.Behind(lines))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow again once the end is in sight."""
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y
        if self._follows:
            self._fall_behind(0)

    def on_resize(self) -> None:
        """Keep the end in sight, unless it was scrolled up."""
        self.call_after_refresh(self._keep_following)

    def _keep_following(self) -> None:
        if self._follows:
            self.scroll_end(animate=False, immediate=True, x_axis=False)

    def action_scroll_home(self) -> None:
        """Go to the first line that is kept, at once: a line that came on the way would take it back."""
        self._follows = False
        self.scroll_home(animate=False, immediate=True, x_axis=False)

    def render_line(self, y: int) -> Strip:
        """Make one line of the screen."""
        width = self.size.width
        left, top = self.scroll_offset
        index = round(top) + y
        text = next(islice(self._lines, index, index + 1), "") if index < len(self._lines) else ""
        return Strip([Segment(cell(text, max(width + left, 0)), self.rich_style)], width + left).crop(
            left, left + width
        )
