"""An event loop on a virtual clock: when nothing is left to do at an instant, time jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

START_NS = 1_000_000_000
"""Where virtual time begins: not at 0, which stands for a missing start in logs."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits for a timer: it asks the loop to jump there instead. Real events (pipes, sockets) come first."""

    def __init__(self) -> None:
        super().__init__()
        self.pass_time: Callable[[float | None], bool] = lambda _: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if events or (timeout is not None and timeout <= 0) or self.pass_time(timeout):
            return events
        return list(super().select(None))


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector event loop whose `time()` is virtual, so that minutes take milliseconds and are exact.

    Time stands still while work given to `run_in_executor` (or `asyncio.to_thread`) is under way, and while no timer is
    set; the loop then waits for real events. Work in other threads wakes it by `call_soon_threadsafe` as usual, but
    does not hold the clock.
    """

    def __init__(self) -> None:
        self._now_ns = START_NS
        self._jobs = 0
        self._settled: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.pass_time = self._pass_time

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now_ns / 1e9

    def now_ns(self) -> int:
        """Return the virtual time in whole nanoseconds."""
        return self._now_ns

    def call_settled(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back at this instant's end: after all that is due now, and after all that follows from it."""
        self._settled.append((callback, args))

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run in a thread, as asyncio does, and hold the clock until it is done."""
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads, as asyncio does, and hold the clock, so that its time limit is not jumped to."""
        self._jobs += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._jobs -= 1

    def _pass_time(self, timeout: float | None) -> bool:
        """End the instant, or jump by `timeout` seconds to the next timer. False: there is only the real world left."""
        if self._settled:
            for callback, args in self._settled:
                self.call_soon(callback, *args)
            self._settled.clear()
            return True
        if timeout is None or self._jobs:
            return False
        self._now_ns = max(self._now_ns, round((self.time() + timeout) * 1e9))
        return True
