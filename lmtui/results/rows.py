"""One row of the history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence


class Row(Mapping[str, str]):
    """Column → cell of one finished point, as text; missing is "". A column that the file does not have is no key."""

    __slots__ = ("_at", "_cells")

    def __init__(self, at: Mapping[str, int], cells: Sequence[str]) -> None:
        """`at` (column → place in `cells`) is shared by all rows of a file."""
        self._at = at
        self._cells = cells

    def __getitem__(self, column: str) -> str:
        return self._cells[self._at[column]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __repr__(self) -> str:
        return f"Row({self.text('run_id')})"

    def text(self, column: str) -> str:
        """Return the cell; "" also where the file has no such column."""
        place = self._at.get(column)
        return "" if place is None else self._cells[place]

    def number(self, column: str) -> float | None:
        """Return the cell as a number (inf for an infinite rate); None where it is missing or no number."""
        try:
            value = float(self.text(column))
        except ValueError:
            return None
        return None if math.isnan(value) else value

    def count(self, column: str) -> int | None:
        """Return the cell as a whole number; None where it is missing or none."""
        value = self.number(column)
        return int(value) if value is not None and value.is_integer() else None

    def flag(self, column: str) -> bool | None:
        """Return the cell as true or false; None where it is missing or neither."""
        return {"true": True, "false": False}.get(self.text(column))
