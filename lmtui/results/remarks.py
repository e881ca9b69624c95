"""What a person adds to rows of the history afterwards: tags, a note, the trash. The history itself is never changed.

`annotations.json` beside `history.csv`: run_id → what was added. A row in the trash stays in the history; it is only
not shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lmtui.errors import LmtuiError
from lmtui.results.lock import locked
from lmtui.results.rows import Row

SCHEMA = 1


class Remark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was added to one row.

    Attributes:
        tags, note: They stand for the row's own; None: the row's own count.
        trashed_at: When it went to the trash (ISO, UTC); None: it is not there.
    """

    tags: tuple[str, ...] | None = None
    note: str | None = None
    trashed_at: str | None = None


class _File(msgspec.Struct, frozen=True):
    schema: int
    runs: dict[str, Remark]


def place(history: Path) -> Path:
    """Return the file of annotations that belongs to a history."""
    return history.with_name("annotations.json")


def read(history: Path) -> dict[str, Remark]:
    """Return run_id → annotation; nothing when there is no file.

    Raises:
        LmtuiError: The file cannot be read, or is not one of this version.
    """
    path = place(history)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LmtuiError(f"{path}: tags and notes cannot be read: {error.strerror}. Make it readable") from error
    try:
        held = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:
        raise LmtuiError(
            f"{path}: these are no tags and notes of lmtui ({error}). Repair it, or move it away"
        ) from None
    if held.schema != SCHEMA:
        raise LmtuiError(f"{path}: it is of schema {held.schema}; this lmtui reads {SCHEMA}. Use a newer lmtui")
    return held.runs


def change(history: Path, changes: Mapping[str, Remark]) -> dict[str, Remark]:
    """Put these annotations in the place of those of the same runs, under a lock; return all.

    Raises:
        LmtuiError: The file cannot be read or written; it is as it was.
    """
    path = place(history)
    with locked(path):
        runs = {**read(history), **changes}
        runs = {run_id: one for run_id, one in runs.items() if one != Remark()}
        temporary = path.with_name(f".{path.name}.new")  # one writer at a time: the lock is held
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(_File(SCHEMA, runs)), indent=1) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise LmtuiError(f"{path} cannot be written: {error.strerror}. It is as it was; make room there") from error
    return runs


def applied(rows: Sequence[Row], annotations: Mapping[str, Remark], *, with_trash: bool = False) -> list[Row]:
    """Return the rows, without those in the trash unless `with_trash`, with the tags and notes that were added."""
    if not annotations:
        return list(rows)
    found = []
    for row in rows:
        one = annotations.get(row.text("run_id"))
        if one is None:
            found.append(row)
        elif with_trash or one.trashed_at is None:
            found.append(_with(row, one))
    return found


def _with(row: Row, one: Remark) -> Row:
    cells = dict(row)
    if one.tags is not None:
        cells["tags"] = msgspec.json.encode(one.tags).decode() if one.tags else ""
    if one.note is not None:
        cells["notes"] = one.note
    return Row({column: place for place, column in enumerate(cells)}, list(cells.values()))


def tags(row: Row) -> tuple[str, ...]:
    """Return the tags of a row; a cell that is no list is one tag."""
    text = row.text("tags")
    try:
        return msgspec.json.decode(text, type=tuple[str, ...]) if text else ()
    except msgspec.DecodeError:
        return (text,)
