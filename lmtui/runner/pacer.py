"""Waking at an exact time: event loops round their timers to a millisecond, a kernel timer does not."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from functools import cache

from lmtui.targets.virtual import VirtualLoop

_ITIMERSPEC = struct.Struct("qqqq")
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class ExactTimer:
    """One timer of the running loop, by the run's clock.

    With a timerfd it is late by some 40 us; asyncio's own timers by 0.5 ms on average, and uvloop's round a wait of
    less than a millisecond to none, so that a pacing loop would spin. On a virtual clock the loop's timers are exact.
    """

    def __init__(self, clock: Callable[[], int], callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1 if isinstance(self._loop, VirtualLoop) else _timerfd()
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._went_off)

    def set(self, at_ns: int) -> None:
        """Call back at that time (once), instead of at the time set before."""
        if self._fd >= 0:
            # A time in the past goes off at once; 0 would disarm the timer.
            value = _ITIMERSPEC.pack(0, 0, *divmod(max(at_ns, 1), 1_000_000_000))
            if _libc().timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, value, None) != 0:
                raise OSError(ctypes.get_errno(), "timerfd_settime failed")
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(at_ns - self._clock(), 0) / 1e9, self._callback)

    def _went_off(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set anew between the event and this call
            return
        self._callback()

    def close(self) -> None:
        """Give the timer back; it calls no more."""
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class Pacer:
    """Waits until a time of the run's clock or until it is woken, whichever comes first."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._timer = ExactTimer(clock, self.wake)
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] | None = None
        self._is_woken = False

    def wake(self) -> None:
        """End the wait under way, or the next one at once."""
        self._is_woken = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self, until_ns: int | None) -> None:
        """Wait until that time; None: until woken. A wait may end early: look at the clock."""
        if not self._is_woken:
            self._wake = self._loop.create_future()
            if until_ns is not None:
                self._timer.set(until_ns)
            await self._wake
            self._wake = None
        self._is_woken = False

    def close(self) -> None:
        """Give the timer back."""
        self._timer.close()


def _timerfd() -> int:
    """Return a non-blocking timerfd of the monotonic clock, or -1 where there is none."""
    if not sys.platform.startswith("linux"):
        return -1
    try:
        fd: int = _libc().timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return -1
    return fd


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
