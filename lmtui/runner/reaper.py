"""Ending what a run's process has started: engines leave children behind, some in process groups of their own.

A run process leads a session, so that everything it started, and what those started, carries its number (Linux keeps
that number from any new process as long as one of them lives).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

POLL_S = 0.02
GRACE_S = 5.0
"""A straggler has this long to end after TERM; then it is killed."""
ENDS_ITSELF = b"multiprocessing.resource_tracker"
"""Cleans up shared memory when its parent is gone: it must outlive it."""


def stragglers(session: int) -> list[int]:
    """Return the processes of a session besides this one and its leader, and besides those that end by themselves."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) in (os.getpid(), session):
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it is gone by now
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            fields = stat[stat.rindex(")") + 2 :].split()
            if fields[0] in "ZX" or int(fields[3]) != session:
                continue
            if ENDS_ITSELF not in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def end(session: int, grace_s: float = GRACE_S) -> list[int]:
    """End the stragglers of a session: TERM, and KILL after `grace_s`; return those that there were.

    It returns at once when there are none, as soon as all are gone, or when what is left was killed.
    """
    first = stragglers(session)
    _signal(first, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    left = first
    while left and time.monotonic() < deadline:
        time.sleep(POLL_S)
        left = stragglers(session)
    _signal(left, signal.SIGKILL)
    return first


def end_own(grace_s: float = GRACE_S) -> list[int]:
    """End what this process has started; nothing when it leads no session, for then others' processes are in it."""
    return end(os.getpid(), grace_s) if os.getsid(0) == os.getpid() else []


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
