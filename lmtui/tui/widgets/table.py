"""A table of any length: it holds the rows as they are, and formats only the cells that are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.cells import cell_len
from textual.binding import BindingType

from lmtui.tui import keys
from lmtui.tui.plain import cell
from lmtui.tui.widgets.rows import Part, RowList

T = TypeVar("T")

Cell = str | Part
"""Text, or text with the key of its style."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column.

    Attributes:
        title: Its header.
        width: Cells; the first column takes what is left when `fills`.
        show: What a row has in it.
        right: Whether it is set against the right edge, as numbers are.
        fills: Whether it grows with the table.
    """

    title: str
    width: int
    show: Callable[[T], Cell]
    right: bool = False
    fills: bool = False


class Table(RowList, Generic[T]):
    """Columns of rows. The first `fixed` columns stay when the others are scrolled sideways."""

    BINDINGS: ClassVar[list[BindingType]] = keys.bindings("table")

    def __init__(
        self, columns: Sequence[Column[T]] = (), *, fixed: int = 1, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._columns = list(columns)
        self._fixed = fixed
        self._skipped = 0
        self._rows: Sequence[T] = ()
        self._sorted: tuple[int, bool] | None = None
        self.has_titles = True

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    @property
    def rows(self) -> Sequence[T]:
        """The rows, as they were given."""
        return self._rows

    @property
    def current(self) -> T | None:
        """The row under the cursor; None when there are no rows."""
        return self._rows[self.cursor] if self._rows else None

    def show(self, rows: Sequence[T], *, cursor: int | None = None) -> None:
        """Show these rows; the cursor stays on its place unless `cursor` says where to."""
        self._rows = rows
        self.rows_changed(cursor)

    def show_columns(self, columns: Sequence[Column[T]]) -> None:
        """Show other columns."""
        self._columns = list(columns)
        self._skipped = 0
        self.refresh()

    def mark_sorted(self, column: int, *, is_descending: bool) -> None:
        """Mark the column that the rows are sorted by, and bring it into sight."""
        self._sorted = (column, is_descending)
        before = column - self._fixed
        if before >= 0:
            self._skipped = min(self._skipped, before)
            while self._skipped < before and column not in self._seen():
                self._skipped += 1
        self.refresh()

    def _seen(self) -> list[int]:
        """Return the columns that fit, by index."""
        seen: list[int] = []
        used = 0
        room = self.size.width - 2 * self.has_titles
        order = [*range(min(self._fixed, len(self._columns))), *range(self._fixed + self._skipped, len(self._columns))]
        for index in order:
            width = self._columns[index].width
            if seen and used + width > room:
                break
            seen.append(index)
            used += width + 1
        return seen

    def _widths(self, seen: Sequence[int]) -> list[int]:
        widths = [self._columns[i].width for i in seen]
        left = self.size.width - sum(widths) - len(widths) + 1
        left -= 2 * (self.has_titles and len(seen) < len(self._columns))
        growing = next((k for k, i in enumerate(seen) if self._columns[i].fills), None)
        if left > 0 and growing is not None:
            widths[growing] += left
        return widths

    @property
    def header(self) -> Sequence[Part]:
        """The titles, with the sorted column's mark; `…` when columns are left out at the right."""
        if not self.has_titles:
            return ()
        seen = self._seen()
        parts: list[Part] = []
        for index, width in zip(seen, self._widths(seen), strict=True):
            column = self._columns[index]
            title = column.title
            if self._sorted is not None and self._sorted[0] == index:
                title = f"{title}{'▼' if self._sorted[1] else '▲'}"
            parts += [(" " if parts else "", "header"), (cell(title, width, right=column.right), "header")]
        if seen and seen[-1] < len(self._columns) - 1:
            parts.append((" →", "header"))
        return parts or [("", "header")]

    def row(self, index: int, width: int) -> Sequence[Part]:
        """Format one row's cells."""
        row = self._rows[index]
        seen = self._seen()
        parts: list[Part] = []
        for number, size in zip(seen, self._widths(seen), strict=True):
            column = self._columns[number]
            shown = column.show(row)
            text, key = shown if isinstance(shown, tuple) else (shown, "")
            if column.right and cell_len(text) > size:
                text = "…"
            parts += [(" " if parts else "", ""), (cell(text, size, right=column.right), key)]
        return parts

    def action_columns_left(self) -> None:
        """Show the columns further left."""
        self._skipped = max(self._skipped - 1, 0)
        self.refresh()

    def action_columns_right(self) -> None:
        """Show the columns further right, until the last one is in sight."""
        if self._seen()[-1:] != [len(self._columns) - 1]:
            self._skipped += 1
            self.refresh()
