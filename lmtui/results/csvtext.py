"""CSV text → records, whatever happened to it: a torn line costs itself, never the lines around it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

_MOST_LINES = 500
"""A record of more physical lines than this is taken for an open quote."""
_NUL_STAND_IN = "\ud800"
"""Stands for NUL while parsing (Python 3.10's csv cannot read it); decoded text never has this lone surrogate."""

csv.field_size_limit(sys.maxsize)


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Attributes:
        line: Number of its first line, from 1.
        raw: Its text, line ending included.
        cells: Its cells; None where the text is no record of the expected width.
    """

    line: int
    raw: str
    cells: list[str] | None


def encode(cells: Iterable[str]) -> str:
    """Return the record of these cells: RFC 4180, ended by a line feed. Cells are kept exactly as they are.

    A cell that begins with `=`, `+`, `-` or `@` is the user's own text and is written as it is: the file is data, and a
    spreadsheet that opens it should import these columns as text.
    """
    return ",".join([_quoted(cell) for cell in cells]) + "\n"


def _quoted(cell: str) -> str:
    if '"' in cell or "," in cell or "\n" in cell or "\r" in cell:
        return '"' + cell.replace('"', '""') + '"'
    return cell


def scan(text: str, width: int | None = None, *, any_width: bool = False) -> list[Record]:
    """Return every record of `text`; those without `width` cells (None: as many as the first has) have cells None.

    With `any_width` records of every width are good.

    A line that opens a quote which is never closed, or closed so that the width is wrong, is one bad record, and
    reading goes on with the line after it. Blank lines are none.
    """
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    has_nul = "\0" in text
    if has_nul:
        lines = [line.replace("\0", _NUL_STAND_IN) for line in lines]
    records = _scan_clean(lines, width, any_width) or _scan_lines(lines, width, any_width)
    return [_with_nul(record) for record in records] if has_nul else records


def _scan_clean(lines: Sequence[str], width: int | None, any_width: bool) -> list[Record] | None:
    """Return the records of lines that are all well; None when any is not."""
    records = []
    reader = csv.reader(lines, strict=True)
    at = 0
    try:
        for cells in reader:
            if cells:
                width = len(cells) if width is None else width
                if len(cells) != width and not any_width:
                    return None
                raw = lines[at] if reader.line_num == at + 1 else "".join(lines[at : reader.line_num])
                records.append(Record(at + 1, raw, cells))
            at = reader.line_num
    except csv.Error:
        return None
    return records


def _scan_lines(lines: Sequence[str], width: int | None, any_width: bool) -> list[Record]:
    """Return the records of lines of which some are bad, one attempt per line."""
    records = []
    at = 0
    while at < len(lines):
        if not lines[at].strip("\r\n"):
            at += 1
            continue
        reader = csv.reader(islice(lines, at, at + _MOST_LINES), strict=True)
        try:
            cells = next(reader, None)
        except csv.Error:
            cells = None
        if cells is not None and width is None:
            width = len(cells)
        if cells is None or (len(cells) != width and not any_width):
            records.append(Record(at + 1, lines[at], None))
            at += 1
        else:
            records.append(Record(at + 1, "".join(lines[at : at + reader.line_num]), cells))
            at += reader.line_num
    return records


def _with_nul(record: Record) -> Record:
    cells = None if record.cells is None else [cell.replace(_NUL_STAND_IN, "\0") for cell in record.cells]
    return Record(record.line, record.raw.replace(_NUL_STAND_IN, "\0"), cells)


def completion(records: Sequence[Record]) -> str:
    """Return what ends a torn last line: a line feed, after a quote where the bad lines at the end left one open."""
    open_quotes = 0
    for record in reversed(records):
        if record.cells is not None:
            break
        open_quotes += record.raw.count('"')
    return '"\n' if open_quotes % 2 else "\n"
