"""The writer thread: encodes batches and appends whole frames. A full disk neither ends the run nor spoils the file."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtui.runner.ticklog import Kind, encode, encode_json

Row = tuple[int, ...]

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""What may wait in memory for a disk that takes nothing; frames past that are lost, and counted."""
RETRY_S = 1.0
MAX_FRAME_ROWS = 1024
"""Encoding so many rows holds the interpreter for some 0.1 ms; between two frames the load's thread may go on."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one flush hands over: rows of each kind, in the order they are written, and JSON objects."""

    sends: list[Row]
    ticks: list[Row]
    ends: list[Row]
    samples: list[Row]
    objects: list[dict[str, Any]]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.sends or self.ticks or self.ends or self.samples or self.objects)

    def frames(self) -> Iterator[bytes]:
        """Encode and yield the frames, one by one."""
        kinds = ((Kind.SENT, self.sends), (Kind.TICKS, self.ticks), (Kind.END, self.ends), (Kind.SAMPLES, self.samples))
        for kind, rows in kinds:
            for at in range(0, len(rows), MAX_FRAME_ROWS):
                yield encode(kind, rows[at : at + MAX_FRAME_ROWS])
        for data in self.objects:
            yield encode_json(data)


class Writer:
    """Appends to one tick log, in a thread of its own."""

    def __init__(self, path: Path, write: Callable[[int, memoryview], int] = os.write) -> None:
        self._path = path
        self._write_some = write
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._lost_frames = 0
        self._first_failure = ""
        self.failure = ""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._thread = threading.Thread(target=self._run, name=f"writer of {path.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Take a batch; its lists belong to the writer from now on."""
        self._queue.put(batch)

    def close(self) -> None:
        """Write what is left, as far as the disk takes it, and end the thread."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._fd)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the result; () when all went well."""
        if not self._first_failure:
            return ()
        lost = self._lost_frames + len(self._waiting)
        what = f"{lost} batches of the tick log are lost" if lost else "everything was written later"
        return (f"Writing {self._path.name} failed for a while ({self._first_failure}); {what}.",)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = self._first_failure = f"a bug: {error!r}"
            raise

    def _work(self) -> None:
        is_open = True
        while is_open:
            try:
                batch = self._queue.get(timeout=RETRY_S if self._waiting else None)
            except queue.Empty:
                batch = Batch([], [], [], [], [])
            is_open = batch is not None
            if batch is not None:
                self._take(batch)
            self._write()

    def _take(self, batch: Batch) -> None:
        for frame in batch.frames():
            time.sleep(0)  # gives the interpreter to the load's thread if that waits for it
            if self._waiting_bytes + len(frame) > MAX_WAITING_BYTES and self._waiting:
                self._lost_frames += 1
                continue
            self._waiting.append(memoryview(frame))
            self._waiting_bytes += len(frame)

    def _write(self) -> None:
        """Write as much as the disk takes; a frame that went in part is continued first, so the file stays whole."""
        while self._waiting:
            frame = self._waiting[0]
            try:
                written = self._write_some(self._fd, frame)
            except OSError as error:
                self._first_failure = self._first_failure or (error.strerror or str(error))
                self.failure = (
                    f"cannot write {self._path}: {error.strerror}; {self._waiting_bytes / 1e6:.1f} MB wait in memory, "
                    "free some space and they are written"
                )
                return
            self._waiting_bytes -= written
            if written == len(frame):
                self._waiting.popleft()
            else:
                self._waiting[0] = frame[written:]
        self.failure = ""
