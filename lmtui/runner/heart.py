"""The heart of a run process: a thread that writes the status each second, also while the loop is blocked."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from lmtui.runner.rundir import Counts, RunDirectory, Status

BEAT_S = 1.0


class Heart:
    """Keeps `status.json` up to date.

    Attributes:
        counts: Gives the counts of the moment.
        is_told_to_stop: Gives whether a stop came.
        problem: Gives a sentence that is shown instead of the message while there is one ("": none).
    """

    def __init__(self, run: RunDirectory, status: Status) -> None:
        self.counts: Callable[[], Counts] = Counts
        self.is_told_to_stop: Callable[[], bool] = bool
        self.problem: Callable[[], str] = str
        self._run = run
        self._status = status
        self._lock = threading.Lock()
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put may interrupt itself, as a signal does
        self._is_over = False
        self._deadline: tuple[float, Callable[[], None]] | None = None
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)

    def start(self) -> None:
        """Write the first status, and go on.

        Raises:
            OSError: The disk takes nothing: nobody could see this run.
        """
        self._run.write_status(self.status)
        self._thread.start()

    @property
    def status(self) -> Status:
        """The status as it stands, with the counts of the moment."""
        with self._lock:
            return msgspec.structs.replace(self._status, counts=self.counts())

    def set(self, **fields: Any) -> None:
        """Change fields of the status; it is written at once, by the heart's thread."""
        with self._lock:
            self._status = msgspec.structs.replace(self._status, **fields)
        self._news.put(None)

    def nudge(self) -> None:
        """Write the status now. A signal handler may call this."""
        self._news.put(None)

    def within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        """Call `otherwise` in the heart's thread unless `in_time` is called before that time has passed.

        A signal handler may call this.
        """
        self._deadline = (time.monotonic() + seconds, otherwise)
        self._news.put(None)

    def in_time(self) -> None:
        """Take the deadline back."""
        self._deadline = None

    def stop(self) -> None:
        """End the thread, and write the status a last time."""
        self._is_over = True
        self._news.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._write()

    def _beat(self) -> None:
        while self._wait():
            self._write()
            deadline = self._deadline
            if deadline is not None and time.monotonic() >= deadline[0]:
                self._deadline = None
                deadline[1]()

    def _wait(self) -> bool:
        """Wait for news, a deadline or the next beat; False: it is over."""
        deadline = self._deadline
        wait_s = BEAT_S if deadline is None else min(BEAT_S, deadline[0] - time.monotonic())
        with contextlib.suppress(queue.Empty):
            self._news.get(timeout=max(wait_s, 0.0))
            while True:  # what else came meanwhile is told by the same write
                self._news.get_nowait()
        return not self._is_over

    def _write(self) -> None:
        with self._lock:
            status = msgspec.structs.replace(
                self._status, heartbeat=time.time(), counts=self.counts(), is_told_to_stop=self.is_told_to_stop()
            )
            if problem := self.problem():
                status = msgspec.structs.replace(status, message=problem)
        try:
            self._run.write_status(status)
        except OSError:  # a full disk must not end the run: the old status stays, and the next beat tries again
            return
