"""The filter of rows: words, and terms such as `backend:pytorch ttft<200 rate>=4`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lmtui.results.rows import Row

NAMES = {
    "backend": "target.kind",
    "kind": "target.kind",
    "target": "target.kind",
    "model": "target.model",
    "url": "target.base_url",
    "rate": "load.rate",
    "concurrency": "load.concurrency",
    "mode": "load.mode",
    "prompts": "load.num_prompts",
    "input": "dataset.input_len",
    "output": "dataset.output_len",
    "dataset": "dataset.kind",
    "cancel": "cancel.rate",
    "tok": "output_throughput",
    "req": "request_throughput",
    "ttft": "ttft_ms.p50",
    "itl": "itl_ms.p50",
    "tpot": "tpot_ms.p50",
    "e2e": "e2e_ms.p50",
    "ok": "outcomes.ok",
    "run": "run_id",
    "date": "started_at",
    "tag": "tags",
    "note": "notes",
}
"""Short names of columns. `ttft.p99` works as well: it means `ttft_ms.p99`."""

WORDS_LOOK_AT = (
    "run_id", "name", "phase", "grade", "source", "target.kind", "target.model", "target.base_url", "tags", "notes",
    "dataset.kind",
)  # fmt: skip

TERM = re.compile(r"([A-Za-z_][\w.]*)(<=|>=|!=|<|>|=|:)(.+)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that match, and what of the filter could not be read ("" when all could)."""

    rows: list[int]
    problem: str


class RunFilter:
    """Filters one set of rows as one types. The words of a row are put together once."""

    def __init__(self, rows: Sequence[Row], columns: Collection[str]) -> None:
        self._rows = rows
        self._columns = columns
        self._texts = [" ".join(row.text(column) for column in WORDS_LOOK_AT).lower() for row in rows]

    def find(self, text: str) -> Found:
        """Return the places of the rows that have every word and meet every term."""
        kept = list(range(len(self._rows)))
        problems = []
        for part in text.split():
            match = TERM.fullmatch(part)
            column = self.column(match[1]) if match else None
            if match is None:
                word = part.lower()
                kept = [i for i in kept if word in self._texts[i]]
            elif column is None:
                problems.append(f"no column {match[1]}")
            else:
                kept = [i for i in kept if meets(self._rows[i].text(column), match[2], match[3])]
        return Found(kept, "; ".join(problems))

    def column(self, name: str) -> str | None:
        """Return the column that a name in a term means; None when there is none."""
        return column_of(name, self._columns)


def column_of(name: str, columns: Collection[str]) -> str | None:
    """Return the column that a name in a term means; None when there is none."""
    head, _, tail = name.partition(".")
    for candidate in (name, NAMES.get(name.lower(), ""), f"{head}_ms.{tail}" if tail else f"{name}_ms.p50"):
        if candidate in columns:
            return candidate
    ending = [column for column in columns if column.endswith(f".{name}")]
    return ending[0] if len(ending) == 1 else None


def meets(cell: str, comparison: str, wanted: str) -> bool:
    """Compare as numbers where both are, else as text; an empty cell meets nothing."""
    if not cell:
        return False
    if comparison == ":":
        return wanted.lower() in cell.lower()
    try:
        return _COMPARE[comparison](float(cell), float(wanted))
    except ValueError:
        if comparison in ("=", "!="):
            return (cell.lower() == wanted.lower()) is (comparison == "=")
        return False
