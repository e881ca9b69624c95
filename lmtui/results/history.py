"""history.csv: one row per finished point. Appends are locked and whole; what was written is never lost.

UTF-8, RFC 4180, one header; columns go by name, in any order. A row is appended by one write that either stands
whole or is taken back. New columns grow the header through a new file that replaces the old one. A file that is not
lmtui's is set aside under another name, never overwritten.
"""

from __future__ import annotations

import contextlib
import csv
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.errors import LmtuiError
from lmtui.metrics.result import Result
from lmtui.results import columns
from lmtui.results.csvtext import Record, completion, encode, scan
from lmtui.results.importer import read_script_csv
from lmtui.results.lock import locked
from lmtui.results.rows import Row


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of the file that is no row: its number, from 1, and its text. It stays in the file."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """What a history file holds: its columns, its rows from oldest to newest, and the lines that are no rows."""

    columns: tuple[str, ...]
    rows: list[Row]
    bad: tuple[BadLine, ...]


def load(path: Path) -> History:
    """Return what the file holds; nothing when it does not exist.

    Raises:
        LmtuiError: The file cannot be read, or is not a history of lmtui.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return History((), [], ())
    except OSError as error:
        raise _unreadable(path, error) from error
    records = scan(data.decode("utf-8-sig", errors="replace"))
    if not records:
        return History((), [], ())
    header = records[0].cells
    if header is None or not _is_ours(header):
        raise LmtuiError(f"{path}: this is not a history of lmtui. Move it away; the next run begins a new one")
    at: dict[str, int] = {}
    for place, column in enumerate(header):
        at.setdefault(column, place)
    rows = [Row(at, record.cells) for record in records[1:] if record.cells is not None]
    bad = tuple(BadLine(record.line, record.raw.rstrip("\r\n")) for record in records if record.cells is None)
    return History(tuple(header), rows, bad)


def read(path: Path) -> list[Row]:
    """Return the rows, oldest first; see `load`, which also tells the lines that are no rows."""
    return load(path).rows


def has_run(path: Path, run_id: str) -> bool:
    """Return whether a run has its row."""
    return any(row.text("run_id") == run_id for row in read(path))


def append(path: Path, result: Result) -> tuple[str, ...]:
    """Append the row of a result unless the run has one, decided under the lock.

    Returns:
        Sentences about what was done besides (a foreign file set aside).

    Raises:
        LmtuiError: The row could not be written; the file is as it was.
    """
    path = path.resolve()  # a linked history is locked and grown where it really is
    with locked(path):
        if path.exists() and _header(path) is not None and has_run(path, result.run_id):
            return ()
        return _append(path, [columns.cells(result)])


def append_new(path: Path, rows: Iterable[Mapping[str, str]], report: Callable[[str], None] | None = None) -> int:
    """Append those rows (column → cell) whose `run_id` the file does not have; return how many.

    `report` takes the sentences that `append` returns.
    """
    path = path.resolve()
    with locked(path):
        known = {row.text("run_id") for row in read(path)} if path.exists() and _header(path) is not None else set()
        new = [row for row in rows if row["run_id"] not in known]
        notes = _append(path, new) if new else ()
    if report is not None:
        for note in notes:
            report(note)
    return len(new)


def import_csv(path: Path, history: Path, report: Callable[[str], None] | None = None) -> int:
    """Append the rows of a CSV that LMDeploy's scripts wrote, without those that are there; return how many.

    `report` takes a sentence for each line that is no row, and for a foreign history set aside; without it such a line
    is an error and nothing is imported.

    Raises:
        LmtuiError: The file cannot be read, is none of the scripts', or has a bad line that nothing takes.
    """
    return append_new(history, read_script_csv(path, report).rows, report)


def _unreadable(path: Path, error: OSError) -> LmtuiError:
    return LmtuiError(f"{path}: the history cannot be read: {error.strerror}. Move it away, or make it readable")


def _is_ours(header: Sequence[str]) -> bool:
    return set(columns.IDENTITY) <= set(header)


def _header(path: Path) -> list[str] | None:
    """Return the columns of a file with something in it; None when it is not ours.

    Raises:
        LmtuiError: It cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            header = next((cells for cells in csv.reader(file, strict=True) if cells), None)
    except csv.Error:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    return header if header is not None and _is_ours(header) else None


def _append(path: Path, rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    header: list[str] | None = None
    try:
        if path.exists() and path.stat().st_size:
            header = _header(path)
            if header is None:
                notes = (_set_aside(path),)
        needed = list(dict.fromkeys(column for row in rows for column in row))
        if header is None:
            text, header = encode(needed), needed
        else:
            known = set(header)
            if new := [column for column in needed if column not in known]:
                _grow(path, header, new)
                header = [*header, *new]
            text = _completion_of(path)
        text += "".join(_row(header, row) for row in rows)
        _write_whole(path, text.encode("utf-8", errors="surrogatepass"))
    except OSError as error:
        raise LmtuiError(
            f"{path}: {_named(rows)} could not be written: {error.strerror}. The file is as it was, and what was "
            "measured stays in the run's own folder. Make room there (or make it writable), and try again"
        ) from error
    return notes


def _row(header: Sequence[str], row: Mapping[str, str]) -> str:
    left = dict(row)
    return encode([left.pop(column, "") for column in header])


def _named(rows: Sequence[Mapping[str, str]]) -> str:
    return f"the row of {rows[0]['run_id']}" if len(rows) == 1 else f"{len(rows)} rows"


def _set_aside(path: Path) -> str:
    """Move a file that is not ours out of the way, under a name that nothing has."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.stem}-foreign-{stamp}{path.suffix}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.stem}-foreign-{stamp}-{number}{path.suffix}")
    path.rename(aside)
    return f"{path.name} was not a history of lmtui: it is kept as {aside.name}, and a new history was begun"


def _completion_of(path: Path) -> str:
    """Return what a torn last line needs to end; "" when the file ends as it should."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return ""
    return completion(scan(_text(path)))


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig", errors="surrogateescape")


def _grow(path: Path, header: Sequence[str], new: Sequence[str]) -> None:
    """Replace the file by one with more columns; rows get empty cells, lines that are no rows stay as they are."""
    records = scan(_text(path), len(header))
    padding = "," * len(new)

    def grown(record: Record) -> str:
        return record.raw.rstrip("\r\n") + padding + "\n" if record.cells is not None else record.raw

    text = encode([*header, *new]) + "".join(map(grown, records[1:]))
    temporary = path.with_name(f".{path.name}.new")  # one writer at a time: the lock is held
    try:
        with temporary.open("wb") as file:
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            file.write(text.encode("utf-8", errors="surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _write_whole(path: Path, data: bytes) -> None:
    """Append the bytes, or leave the file as it was."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        before = os.fstat(descriptor).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)
    if is_new:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
