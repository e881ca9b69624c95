"""Runs one after another in one process: it keeps its engine, and hears through a pipe on stdin of the next run.

Each line of the pipe is a JSON list: the run's directory, its notes, and whether another may follow. Its end means that
there is no other run, also when it ends because whoever started the runs is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from lmtui.runner.rundir import RunDirectory

KEEP = "--keep"
"""Tells a run process that stdin is such a pipe."""
AT_ONCE_BYTES = 65536


def line(run: RunDirectory, notes: Sequence[str], *, keeps: bool) -> bytes:
    """Return what tells the process of its next run, and whether the engine is to be kept after that one, too."""
    return json.dumps([str(run.path), list(notes), keeps]).encode() + b"\n"


class Succession:
    """The process's end of the pipe."""

    def __init__(self) -> None:
        """Take the pipe from stdin, which is empty from now on: an engine and its children must not read it."""
        self._pipe = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def next(self, loop: asyncio.AbstractEventLoop) -> tuple[RunDirectory, list[str], bool] | None:
        """Wait for the next run with the engine's loop running; None when there is none, or an INT or TERM came."""
        heard = loop.create_future()
        signals = (signal.SIGINT, signal.SIGTERM)

        def end(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(_set, heard, b"")

        for number in signals:
            signal.signal(number, end)
        try:
            said: bytes = loop.run_until_complete(self._read(loop, heard))
        finally:
            for number in signals:
                signal.signal(number, _no_matter)
        if not said:
            return None
        path, notes, keeps = json.loads(said)
        return RunDirectory(Path(path)), notes, keeps

    async def _read(self, loop: asyncio.AbstractEventLoop, heard: asyncio.Future[bytes]) -> bytes:
        said = bytearray()

        def read() -> None:
            part = os.read(self._pipe, AT_ONCE_BYTES)
            said.extend(part)
            if not part:
                _set(heard, b"")
            elif part.endswith(b"\n"):
                _set(heard, bytes(said))

        loop.add_reader(self._pipe, read)
        try:
            return await heard
        finally:
            loop.remove_reader(self._pipe)


def write_to(run: RunDirectory, loaded_by: str) -> None:
    """Put the log of a run behind stdout and stderr, at file-descriptor level; it begins with who loaded the engine.

    Raises:
        OSError: The log cannot be made.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(run.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(log, f"The engine was loaded by the run {loaded_by}; how is in that run's engine.log.\n".encode())
        os.dup2(log, 1)
        os.dup2(log, 2)
    finally:
        os.close(log)


def _set(heard: asyncio.Future[bytes], said: bytes) -> None:
    if not heard.done():
        heard.set_result(said)


def _no_matter(number: int, frame: FrameType | None) -> None:
    """Hear a signal for which it is too late, or too early."""
