"""Quiet while requests are in flight: the garbage collector off, with a bound on memory; and how late the loop is."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lmtui.runner.pacer import ExactTimer
from lmtui.runner.recorder import Recorder
from lmtui.runner.ticklog import Sample
from lmtui.targets.virtual import VirtualLoop

LAG_EVERY_S = 0.05
MEMORY_EVERY_S = 1.0
MAX_GROWTH_BYTES = 512 * 1024 * 1024
"""Memory may grow by this much with the collector off; then it runs once, between two turns of the loop."""


def resident_bytes() -> int:
    """Return the process's resident memory; 0 where /proc does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@contextmanager
def collector_off(memory: Callable[[], int] = resident_bytes) -> Iterator[None]:
    """Freeze and switch off the garbage collector; collect once whenever memory has grown by `MAX_GROWTH_BYTES`.

    Reading the size of the process takes some 10 us once a second.
    """
    loop = asyncio.get_running_loop()
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    base = memory()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal base, timer
        if memory() - base > MAX_GROWTH_BYTES:
            gc.collect()
            base = memory()
        timer = loop.call_later(MEMORY_EVERY_S, look)

    timer = loop.call_later(MEMORY_EVERY_S, look)
    try:
        yield
    finally:
        timer.cancel()
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def lag_sampled(recorder: Recorder) -> Iterator[None]:
    """Record every `LAG_EVERY_S` how late the loop serves a timer; a virtual clock has no such lag."""
    if isinstance(asyncio.get_running_loop(), VirtualLoop):
        yield
        return
    every_ns = round(LAG_EVERY_S * 1e9)
    due_ns = recorder.clock() + every_ns

    def sample() -> None:
        nonlocal due_ns
        now = recorder.clock()
        recorder.sample(Sample.LOOP_LAG_NS, now, max(now - due_ns, 0))
        due_ns = now + every_ns
        timer.set(due_ns)

    timer = ExactTimer(recorder.clock, sample)
    timer.set(due_ns)
    try:
        yield
    finally:
        timer.close()
