"""The clock of a run: nanoseconds of the machine's monotonic clock, or of the virtual one when the loop has one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from lmtui.targets.virtual import VirtualLoop


def clock(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """Return the function that every stamp of a run on `loop` is taken with."""
    return loop.now_ns if isinstance(loop, VirtualLoop) else time.monotonic_ns
