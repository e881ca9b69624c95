"""The file that gains a script's rows: `--csv`, or `--output-file`. What it holds already is never harmed."""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import sys
import time
from pathlib import Path

from lmtui.config.script_flags import GUIDED, RESTFUL
from lmtui.errors import LmtuiError
from lmtui.metrics import script_columns

_HEADER_BYTES = 64 * 1024
"""The first line of a script's file is shorter."""


def named(options: argparse.Namespace) -> Path | None:
    """Return the file that is asked for, else the script's own name for it; None when there is to be none."""
    if options.script != RESTFUL.command:
        return Path(options.csv) if options.csv else None
    if options.output_file:
        return Path(options.output_file)
    start = f"{options.backend}_{time.strftime('%m%d')}_{options.num_prompts}"
    if options.dataset_name == "random":  # both endings hold CSV
        return Path(f"{start}_{options.random_input_len}_{options.random_output_len}.jsonl")
    return Path(f"{start}_sharegpt.csv")


def columns(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the columns of its rows."""
    known = {RESTFUL.command: script_columns.RESTFUL, GUIDED.command: script_columns.GUIDED}
    return known.get(options.script, script_columns.ENGINE)


def refuse_unfit(options: argparse.Namespace) -> None:
    """Refuse a file that cannot gain a row, before anything is sent; nothing is made.

    Raises:
        LmtuiError: Names the flag, the file and the reason.
    """
    file = named(options)
    if file is not None and (why := _why_not(file, columns(options))):
        flag = "--output-file" if options.script == RESTFUL.command else "--csv"
        raise LmtuiError(f"{flag} {file} {why}")


def _why_not(file: Path, wanted: tuple[str, ...]) -> str:
    if file.is_dir():
        return "is a folder: give the name of a file"
    if file.exists():
        if not os.access(file, os.W_OK):
            return "cannot be written: give another file"
        if file.is_file() and not os.access(file, os.R_OK):
            return "cannot be read, so that its columns are not known: give another file"
        return _of_another(file, wanted)
    if not file.parent.is_dir():
        return f"cannot be made, for there is no folder {file.parent}: make it, or give another file"
    if not os.access(file.parent, os.W_OK | os.X_OK):
        return f"cannot be made in {file.parent}: give a file in a folder that can be written"
    return ""


def _of_another(file: Path, wanted: tuple[str, ...]) -> str:
    """Return why a row does not belong under what an existing file begins with; "" when it does."""
    if not file.is_file() or _standard_stream(file) is not None:
        return ""
    with file.open("rb") as text:
        first = text.readline(_HEADER_BYTES).decode("utf-8-sig", "replace").strip("\r\n")
    if not first:
        return ""
    cells = next(csv.reader([first]), [])
    if tuple(cells) == wanted:
        return ""
    return (
        f"begins with other columns ({first[:60]}{'…' * (len(first) > 60)}): give another file, or move that one away"
    )


def append(file: Path, options: argparse.Namespace, row: bytes, *, is_first: bool) -> None:
    """Append a row, with the header where none is there. A last line that was cut off is ended before.

    Args:
        file: Where to; what is no regular file (a pipe, `/dev/stdout`) gets the header with the first row.
        options: What was parsed.
        row: The row, whole.
        is_first: Whether it is the first row of this command.

    Raises:
        LmtuiError: The file cannot be written; the text has the row.
    """
    header = script_columns.line(columns(options))
    try:
        if (stream := _standard_stream(file)) is not None:
            sys.stdout.flush()
            _write(stream, header * is_first + row)
            return
        if file.exists() and not file.is_file():
            pipe = os.open(file, os.O_WRONLY | os.O_NONBLOCK)  # one that nobody reads is an error, not a wait
            try:
                os.set_blocking(pipe, True)
                _write(pipe, header * is_first + row)
            finally:
                os.close(pipe)
            return
        if file.exists() and (why := _of_another(file, columns(options))):
            raise LmtuiError(f"{file} {why}; the row is: {row.decode().strip()}")
        with file.open("a+b") as target:
            size = target.seek(0, os.SEEK_END)
            before = header if size == 0 else b""
            if size:
                target.seek(size - 1)
                before = b"" if target.read(1) == b"\n" else b"\r\n"
            target.write(before + row)
    except OSError as error:
        raise LmtuiError(f"{file} cannot be written ({error.strerror}); the row is: {row.decode().strip()}") from error


def _standard_stream(file: Path) -> int | None:
    """Return the descriptor of stdout or stderr when the file is one of them, for both keep a place of their own."""
    for number in (1, 2):
        with contextlib.suppress(OSError):  # closed, or no such file
            if os.path.samestat(os.fstat(number), file.stat()):
                return number
    return None


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
