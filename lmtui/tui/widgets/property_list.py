"""The rows of a form: label, value, unit; a mark where it differs from the default, and what is wrong in place."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Offset

from lmtui.tui.form_model import Field
from lmtui.tui.plain import cell, line
from lmtui.tui.widgets.rows import Part, RowList

LABEL_WIDTH = 20
VALUE_WIDTH = 26


class PropertyList(RowList):
    """Fields of one section, or those found in all of them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._fields: Sequence[Field] = ()
        self._label_width = LABEL_WIDTH

    @property
    def count(self) -> int:
        """How many fields there are."""
        return len(self._fields)

    @property
    def fields(self) -> Sequence[Field]:
        """The fields that are shown."""
        return self._fields

    @property
    def current(self) -> Field | None:
        """The field under the cursor; None when none is shown."""
        return self._fields[self.cursor] if self._fields else None

    def show(self, fields: Sequence[Field], *, cursor: int | None = None) -> None:
        """Show these fields."""
        self._fields = fields
        longest = max((len(field.label) for field in fields), default=0)
        self._label_width = min(max(longest, 12), LABEL_WIDTH + (10 if self.size.width >= 80 else 4))
        self.rows_changed(cursor)

    def row(self, index: int, width: int) -> Sequence[Part]:
        """Make one row."""
        field = self._fields[index]
        mark: Part = ("! ", "bad") if field.error else ("* ", "mark") if field.is_changed else ("  ", "")
        parts: list[Part] = [mark, (cell(field.label, self._label_width) + " ", "")]
        value = line(field.value)
        shown = f"‹ {value or '–'} ›" if field.choices else value or "–"
        style = "bad" if field.error else "" if field.is_changed else "dim"
        room = width - self._label_width - 3
        if field.error:
            parts.append((cell(shown, min(max(len(shown), 8), max(room - 20, 8))) + "  ", style))
            parts.append((line(field.error), "bad"))
            return parts
        tail = field.unit
        parts.append((cell(shown, max(min(VALUE_WIDTH, room - len(tail) - 1) if tail else room, 4)), style))
        if tail:
            parts.append((f" {tail}", "dim"))
        return parts

    def value_at(self) -> tuple[Offset, int]:
        """Return where the value under the cursor stands in the widget, and how wide an editor of it may be."""
        left = self._label_width + 3
        y = self.cursor - round(self.scroll_offset.y)
        return Offset(left, y), max(self.size.width - left, 8)
