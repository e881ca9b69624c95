"""Watching a run: one reader that tails its directory. To attach, to replay, a second terminal: all are this."""

from __future__ import annotations

import asyncio
import codecs
import os
from dataclasses import dataclass
from pathlib import Path

from lmtui.runner import runs
from lmtui.runner.rundir import RunDirectory, Status
from lmtui.runner.ticklog import Frame, TailReader

POLL_S = 0.22
MAX_LOG_BYTES = 64 * 1024
"""The most of the log that one batch carries; a reader that is further behind skips to the newest lines."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What came since the last batch.

    Attributes:
        frames: New frames of the tick logs, in order for each load worker.
        status: The status as it is now; None when the directory is gone.
        log_text: New text of the log, whole characters.
    """

    frames: list[Frame]
    status: Status | None
    log_text: str

    @property
    def is_last(self) -> bool:
        """Whether nothing comes after it."""
        return self.status is None or (self.status.is_final and not self.frames and not self.log_text)


class Watch:
    """Reads one run's directory as it grows; a finished one from its beginning to its end."""

    def __init__(self, folder: Path) -> None:
        self._run = RunDirectory(folder)
        self._ticks = TailReader(folder)
        self._log_offset = 0
        self._log_decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def poll(self) -> Batch:
        """Return what came since the last call. A run that is found lost is settled first."""
        # The status is read before what it tells of, so that a final one is followed by all that the run wrote.
        status = runs.current(self._run) if self._run.path.is_dir() else None
        return Batch(self._ticks.read(), status, self._new_log_text())

    async def follow(self, queue: asyncio.Queue[Batch]) -> None:
        """Put batches into the queue, at most one in `POLL_S` s, until the run has ended and all of it was read.

        While the queue is full nothing is read: what was not taken stays in the files. The last batch has `is_last`.
        """
        while True:
            batch = await asyncio.to_thread(self.poll)
            await queue.put(batch)
            if batch.is_last:
                return
            await asyncio.sleep(POLL_S)

    def _new_log_text(self) -> str:
        try:
            with self._run.log_path.open("rb") as file:
                behind = file.seek(0, os.SEEK_END) - self._log_offset
                skipped = max(behind - MAX_LOG_BYTES, 0)
                file.seek(self._log_offset + skipped)
                data = file.read(MAX_LOG_BYTES)
        except OSError:
            return ""
        self._log_offset += skipped + len(data)
        if not skipped:
            return self._log_decoder.decode(data)
        self._log_decoder.reset()
        _, _, whole_lines = data.partition(b"\n")
        return f"[{skipped:,} bytes skipped]\n{self._log_decoder.decode(whole_lines)}"
