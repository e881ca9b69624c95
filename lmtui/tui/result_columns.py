"""The columns of the results: which there are, how a cell looks, how rows are ordered by one. No Textual widgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from lmtui.charts.ticks import milliseconds, short
from lmtui.results import remarks
from lmtui.results.rows import Row
from lmtui.tui.plain import line
from lmtui.tui.widgets.table import Cell, Column

Show = Callable[[Row], Cell]


def _text(column: str) -> Show:
    return lambda row: line(row.text(column))


def _number(column: str) -> Show:
    def show(row: Row) -> Cell:
        value = row.number(column)
        return "inf" if value is not None and math.isinf(value) else short(value)

    return show


def _ms(column: str) -> Show:
    return lambda row: milliseconds(row.number(column))


def _count(column: str) -> Show:
    def show(row: Row) -> Cell:
        count = row.count(column)
        return short(row.number(column)) if count is None else str(count) if count < 10**6 else short(count)

    return show


def _when(row: Row) -> Cell:
    return line(row.text("started_at"))[5:16].replace("T", " ")


def _model(row: Row) -> Cell:
    return line(row.text("target.model")).rstrip("/").rpartition("/")[2]


def _phase(row: Row) -> Cell:
    phase = line(row.text("phase"))
    return (phase, "" if phase == "done" else "bad")


def _grade(row: Row) -> Cell:
    grade = line(row.text("grade"))
    return (grade, {"good": "good", "invalid": "bad"}.get(grade, ""))


def _tags(row: Row) -> Cell:
    return (line(" ".join(remarks.tags(row))), "mark")


_KNOWN: dict[str, Column[Row]] = {
    "name": Column("Name", 14, _text("name"), fills=True),
    "started_at": Column("Started", 11, _when),
    "target.kind": Column("Target", 9, _text("target.kind")),
    "output_throughput": Column("tok/s", 6, _number("output_throughput"), right=True),
    "ttft_ms.p50": Column("TTFT50", 7, _ms("ttft_ms.p50"), right=True),
    "ttft_ms.p99": Column("TTFT99", 7, _ms("ttft_ms.p99"), right=True),
    "itl_ms.p50": Column("ITL50", 6, _ms("itl_ms.p50"), right=True),
    "grade": Column("Grade", 8, _grade),
    "itl_ms.p99": Column("ITL99", 6, _ms("itl_ms.p99"), right=True),
    "request_throughput": Column("req/s", 6, _number("request_throughput"), right=True),
    "e2e_ms.p50": Column("E2E50", 6, _ms("e2e_ms.p50"), right=True),
    "e2e_ms.p99": Column("E2E99", 6, _ms("e2e_ms.p99"), right=True),
    "tpot_ms.p50": Column("TPOT50", 7, _ms("tpot_ms.p50"), right=True),
    "load.concurrency": Column("Conc", 6, _count("load.concurrency"), right=True),
    "load.rate": Column("Rate", 6, _number("load.rate"), right=True),
    "outcomes.ok": Column("ok", 6, _count("outcomes.ok"), right=True),
    "phase": Column("Phase", 8, _phase),
    "tags": Column("Tags", 14, _tags),
    "notes": Column("Note", 20, _text("notes")),
    "goodput": Column("Goodput", 8, _number("goodput"), right=True),
    "dataset.input_len": Column("In", 6, _count("dataset.input_len"), right=True),
    "dataset.output_len": Column("Out", 6, _count("dataset.output_len"), right=True),
    "cancel.rate": Column("Cancel", 7, _number("cancel.rate"), right=True),
    "target.model": Column("Model", 22, _model),
    "run_id": Column("Run", 44, _text("run_id")),
}
USUAL = tuple(_KNOWN)
"""The columns that are shown until others are chosen."""
BEST_IS_HIGH = frozenset({"started_at", "output_throughput", "request_throughput", "goodput", "outcomes.ok"})
"""A sort by one of these begins with the largest."""


def column(name: str) -> Column[Row]:
    """Return how a column of the history is shown."""
    if (known := _KNOWN.get(name)) is not None:
        return known
    return Column(name, min(max(len(name), 8), 24), _any(name), right=True)


def _any(name: str) -> Show:
    number = _number(name)
    return lambda row: line(row.text(name)) if row.number(name) is None else number(row)


def title(name: str) -> str:
    """Return the words for a column."""
    return _KNOWN[name].title if name in _KNOWN else name


def to_choose(columns: Collection[str], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the columns that can be chosen with their words: the usual ones, then those with anything in them."""
    found = [(name, title(name)) for name in USUAL]
    return found + [(name, "") for name in columns if name not in _KNOWN and any(row.text(name) for row in rows)]


def order(rows: Sequence[Row], name: str, *, is_descending: bool) -> list[int]:
    """Return the places of the rows by a column: as numbers where every cell that is not empty is one, else as text.

    Rows without the cell come last.
    """
    known = [i for i, row in enumerate(rows) if row.text(name)]
    missing = [i for i, row in enumerate(rows) if not row.text(name)]
    numbers = {i: rows[i].number(name) for i in known}
    if None not in numbers.values():
        return sorted(known, key=lambda i: numbers[i] or 0.0, reverse=is_descending) + missing
    return sorted(known, key=lambda i: rows[i].text(name), reverse=is_descending) + missing
