"""`--ascii`: whatever a screen draws leaves as ASCII, whoever drew it."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.scrollbar import ScrollBar, ScrollBarRender

from lmtui.tui.plain import to_ascii


class AsciiFilter(LineFilter):
    """Replaces every character outside ASCII by its likeness, as wide as it was."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Translate the segments."""
        return [
            segment if segment.text.isascii() else Segment(to_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


class AsciiScrollBar(ScrollBarRender):
    """A scroll bar of coloured blanks."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8

    @classmethod
    def install(cls) -> None:
        """Use it for every scroll bar made from now on."""
        ScrollBar.renderer = cls
