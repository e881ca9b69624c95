"""A load worker, a child of the run process.

    python -m lmtui.runner.worker RUN_DIRECTORY K FD FAILURES_FD PARENT [uvloop]

It sends one share of the plan to a server, from a loop of its own, and writes a tick log of its own. It dies with the
run process.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from lmtui.errors import LmtuiError, TargetError
from lmtui.runner.channel import Channel, Done, Ended, Job, Progress, Ready, Release, Stop, WarmUp
from lmtui.runner.failures import Failures
from lmtui.runner.load import Control, EndedBy
from lmtui.runner.loops import new_loop
from lmtui.runner.rundir import Counts, RunDirectory
from lmtui.runner.sender import LocalSender
from lmtui.targets.server import ServerTarget

_M = TypeVar("_M")
PROGRESS_S = 0.25
_PR_SET_PDEATHSIG = 1


class Worker:
    """One worker's work, as the run process tells it."""

    def __init__(self, channel: Channel, ticks: Path, all_failed: Callable[[int], int]) -> None:
        self._channel = channel
        self._all_failed = all_failed
        self._ticks = ticks
        self._control = Control()
        self._told: asyncio.Queue[Job | WarmUp | Ready | Release] = asyncio.Queue()
        self._listening = asyncio.ensure_future(self._listen())

    async def work(self) -> None:
        """Do what comes, and tell how it ended."""
        try:
            ended = await self._work()
        except Exception as error:
            if not isinstance(error, LmtuiError):
                traceback.print_exc()
            by = EndedBy.TARGET if isinstance(error, TargetError) else EndedBy.BUG
            ended = Ended(by, Progress(Counts(), "", ""), (), _portable(error))
        self._listening.cancel()
        self._channel.send(ended)
        await self._channel.close()

    async def _work(self) -> Ended:
        job = await self._next(Job)
        target = ServerTarget.from_prepared(job.config, job.prepared)
        await target.open(lambda _: None)
        sender = LocalSender(target, job.share, self._ticks, self._control, target.stats, self._all_failed)
        await target.prepare(job.share.connections, job.share.requests)
        self._channel.send(Done())
        await self._next(WarmUp)
        await sender.warm_up()
        await target.prepare(job.share.connections)  # a server may close each connection with its answer
        self._channel.send(Done())
        await self._next(Ready)
        reporting = asyncio.ensure_future(self._report(sender))
        self._control.listeners.append(lambda: self._channel.send(_progress(sender)))  # the others may have to stop too
        await sender.run(self._release())
        reporting.cancel()
        await target.close()
        error = None if self._control.error is None else _portable(self._control.error)
        return Ended(self._control.ended_by, _progress(sender), sender.notes, error)

    async def _release(self) -> int | None:
        self._channel.send(Done())
        return (await self._next(Release)).start_ns

    async def _report(self, sender: LocalSender) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            self._channel.send(_progress(sender))

    async def _next(self, kind: type[_M]) -> _M:
        message = await self._told.get()
        assert isinstance(message, kind), f"{message} came instead of {kind.__name__}"
        return message

    async def _listen(self) -> None:
        while True:
            message = await self._channel.receive()
            if message is None:
                os._exit(0)  # the run process is gone: nobody is left to tell
            if isinstance(message, Stop):
                self._control.abort() if message.abort else self._control.stop()
            else:
                assert isinstance(message, (Job, WarmUp, Ready, Release))
                self._told.put_nowait(message)


def _progress(sender: LocalSender) -> Progress:
    return Progress(sender.counts(), sender.problem(), sender.last_error())


def _portable(error: Exception) -> Exception:
    """Return an error that a pipe carries: a bug is told by its type and text, its traceback is in the log."""
    return error if isinstance(error, LmtuiError) else RuntimeError(f"{type(error).__name__}: {error}")


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when the run process ends, however that happens."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main() -> int:
    """Be the worker that the command line names."""
    folder, k, fd, failures_fd, parent, *options = sys.argv[1:]
    _die_with(int(parent))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the run process says when to stop

    all_failed = partial(Failures(int(failures_fd)).tell, int(k))

    async def work() -> None:
        channel = await Channel.over(socket.socket(fileno=int(fd)))
        await Worker(channel, RunDirectory(Path(folder)).ticks_path(int(k)), all_failed).work()

    loop = new_loop(is_uvloop="uvloop" in options)
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
