"""Runs → a file that others read: JSON (everything), CSV (one row per request), Markdown (a report)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lmtui.errors import LmtuiError
from lmtui.metrics.result import Result
from lmtui.metrics.sessions import Sessions
from lmtui.results.columns import cell
from lmtui.results.csvtext import encode
from lmtui.results.markdown import report
from lmtui.results.request_rows import RequestRow, request_rows

ENDINGS = (".csv", ".json", ".md")
_TO_COME = (".html", ".png")
_TICK_COLUMNS = {"tick_s", "tick_tokens"}


@dataclass(frozen=True, slots=True)
class Exported:
    """What is kept of a run.

    Attributes:
        result: What it gave.
        sessions: Its requests; None when its tick logs are gone.
        errors: Index of a request → what went wrong with it.
    """

    result: Result
    sessions: Sessions | None
    errors: Mapping[int, str]


def export(runs: Sequence[Exported], path: Path, *, force: bool = False, with_ticks: bool = False) -> None:
    """Write runs to `path`, whole or not at all: one after the other.

    Of several, CSV has the column `run_id` before the others, and JSON is an array of the objects of one.

    Args:
        runs: One or more.
        path: The file; its ending is the format.
        force: Replace the file when it exists.
        with_ticks: JSON: every arrival of each request too.

    Raises:
        LmtuiError: The ending is not known, the file exists, a folder is missing, it cannot be written, or a CSV is
            asked for and there are no requests.
    """
    ending = path.suffix.lower()
    check(path, force=force, with_ticks=with_ticks)
    if ending == ".md":
        text = "\n".join(report(run.result) for run in runs)
    elif ending == ".json":
        objects = [as_json(run, with_ticks=with_ticks) for run in runs]
        text = objects[0] if len(objects) == 1 else f"[{','.join(objects)}]"
        text += "\n"
    else:
        text = as_csv(runs, path)
    _write(path, text.encode("utf-8", errors="replace"))


def check(path: Path, *, force: bool = False, with_ticks: bool = False) -> None:
    """Refuse a file that could not be written in the end.

    Raises:
        LmtuiError: See `export`.
    """
    ending = path.suffix.lower()
    if ending in _TO_COME:
        raise LmtuiError(f"{path}: {ending} is not built yet; give a name that ends in {_endings()}")
    if ending not in ENDINGS:
        raise LmtuiError(f"{path}: the format comes from the file's ending: give a name that ends in {_endings()}")
    if with_ticks and ending != ".json":
        raise LmtuiError(f"{path}: only .json holds ticks; give a name that ends in .json, or leave --ticks out")
    if not path.parent.is_dir():
        raise LmtuiError(f"{path}: there is no folder {path.parent}; make it, or give another name")
    if path.is_dir():
        raise LmtuiError(f"{path} is a folder; give a file's name")
    if path.exists() and not force:
        raise LmtuiError(f"{path} exists; give another name, or --force to replace it")


def as_json(run: Exported, *, with_ticks: bool = False) -> str:
    """Return the object of `show --json` with one more key, `requests`: null when there is no tick log."""
    rows = None if run.sessions is None else request_rows(run.sessions, run.errors, with_ticks=with_ticks)
    return msgspec.json.encode({**msgspec.to_builtins(run.result), "requests": rows}).decode()


def as_csv(runs: Sequence[Exported], path: Path) -> str:
    """Return one line per request under the names of its fields; missing is empty. Raises LmtuiError: see `export`."""
    names = [name for name in RequestRow.__struct_fields__ if name not in _TICK_COLUMNS]
    with_id = len(runs) > 1
    lines = [encode(["run_id", *names] if with_id else names)]
    for run in runs:
        if run.sessions is None:
            raise LmtuiError(
                f"{run.result.run_id} has no tick log any more, so there are no requests for {path}: give a name that "
                "ends in .json or .md"
            )
        identity = [run.result.run_id] if with_id else []
        for row in request_rows(run.sessions, run.errors):
            lines.append(encode([*identity, *(cell(getattr(row, name)) for name in names)]))
    return "".join(lines)


def _endings() -> str:
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"


def _write(path: Path, data: bytes) -> None:
    """Replace the file so that a reader sees the old one or the new one; a link stays one."""
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise LmtuiError(f"{path} cannot be written: {error.strerror}. Make room or give another name") from error
