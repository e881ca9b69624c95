"""The crew: load workers that send a plan to a server, each from a process of its own."""

from __future__ import annotations

import asyncio
import math
import os
import resource
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from lmtui.runner import machine
from lmtui.runner.channel import Channel, Done, Ended, Job, Message, Progress, Ready, Release, Stop, WarmUp
from lmtui.runner.failures import Failures
from lmtui.runner.load import Control, EndedBy
from lmtui.runner.rundir import Counts, RunDirectory
from lmtui.runner.share import Share, split
from lmtui.runner.turns import SharedPipe

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.targets.server import ServerPlan

STREAMS_EACH = 200
"""A worker is given about so many streams: at 20 ms a tick 10,000 ticks a second, some 12 % of a core as measured."""
TICK_S = 0.02
"""What a tick takes, as far as nobody knows yet."""
LEAD_S = 0.03
"""From the word to the release: time for the word to reach every worker."""
MOST_COPIED_CHARS = 256 * 1024 * 1024
"""Workers that take turns have all prompts each: no more than this in all, else each has its part of them."""
SPARE_FILES = 64
END_S = 15.0
"""A worker has this long to end after an abort; then it is killed. (Its load gives a deaf server up after 10 s.)"""


def worker_count(config: Config) -> int:
    """Return how many load workers a config asks for.

    `auto`: one for every `STREAMS_EACH` streams expected at once, and no more than half of the cores, since the other
    half belongs to whatever else runs here. Streams expected: the concurrency; of an open load, rate times the time
    that an answer takes at `TICK_S` a token, within `max_in_flight` and the number of requests.
    """
    load = config.load
    if load.workers != "auto":
        return load.workers
    requests = math.inf if load.duration_s is not None else load.num_prompts
    if load.mode == "closed":
        streams = min(load.concurrency, requests)
    else:
        answer_s = (config.dataset.output_len or 200) * TICK_S
        streams = min(load.rate * answer_s, load.max_in_flight or requests, requests)
    if math.isinf(streams):  # a trace, or all at once, for a duration: nobody knows
        streams = STREAMS_EACH
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(math.ceil(streams / STREAMS_EACH), cores // 2))


class Crew:
    """The workers of one run, and a `Sender` once they have their jobs.

    They are started before they are needed: they import while the plan is drawn and the server is asked.
    """

    def __init__(self, run: RunDirectory, config: Config) -> None:
        count = worker_count(config)
        self._failures, self._pipe = Failures.of(count), SharedPipe()
        fds = (self._failures.fd, self._pipe.fd, self._pipe.end)
        self._members = [Member(run, k, fds, is_uvloop=config.request.uvloop) for k in range(count)]
        self._config = config
        self._share: Share | None = None
        self._control = Control()
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the result."""
        return tuple(self._notes)

    def counts(self) -> Counts:
        """Return the counts that the workers told last."""
        told = [member.progress.counts for member in self._members]
        planned = sum(counts.planned for counts in told)
        if self._share is not None and not self._share.is_cycled:
            planned = len(self._share.requests)
        return Counts(
            planned=planned,
            sent=sum(counts.sent for counts in told),
            done=sum(counts.done for counts in told),
            ok=sum(counts.ok for counts in told),
            failed=sum(counts.failed for counts in told),
            cancelled=sum(counts.cancelled for counts in told),
            in_flight=sum(counts.in_flight for counts in told),
        )

    def problem(self) -> str:
        """Return what keeps a tick log from being written."""
        return next((member.progress.problem for member in self._members if member.progress.problem), "")

    def last_error(self) -> str:
        """Return a failed request's message."""
        return next((member.progress.last_error for member in self._members if member.progress.last_error), "")

    async def take(self, share: Share, prepared: ServerPlan, control: Control) -> None:
        """Give every worker its share and wait until it has its connections; workers without a share end.

        Raises:
            TargetError: A worker could not connect.
        """
        self._share, self._control = share, control
        parts = self._parts(share)
        self._members, idle = self._members[: len(parts)], self._members[len(parts) :]
        for member in idle:
            member.dismiss()
        self._note_open_files(share)
        for member in self._members:
            await member.connect()
        control.listeners.append(self._pass_on)
        await self._all(
            member.order(Job(self._config, prepared, part)) for member, part in zip(self._members, parts, strict=True)
        )

    def _parts(self, share: Share) -> list[Share]:
        """Divide the share, as little as can be: what workers can take in turns they share."""
        parts, pipe = split(share, len(self._members)), self._pipe
        if len(parts) > 1 and share.max_in_flight is not None and pipe.fill_places(share.max_in_flight):
            parts = [replace(part, places_fds=(pipe.fd, pipe.end)) for part in parts]
        copied = sum(len(request.prompt) for request in share.requests) * len(parts)
        ends_with_plan = share.is_closed and not share.is_cycled
        if len(parts) > 1 and ends_with_plan and copied <= MOST_COPIED_CHARS and pipe.fill_turns(len(share.requests)):
            parts = [replace(part, requests=share.requests, turns_fd=pipe.fd) for part in parts]
        pipe.close()
        return parts

    async def warm_up(self) -> None:
        """Let every worker send its warm-up requests."""
        await self._all(member.order(WarmUp()) for member in self._members)

    async def run(self) -> None:
        """Release all workers at one time, and wait until the last has ended."""
        await self._all(member.order(Ready()) for member in self._members)
        start_ns = None if self._control.is_stopping else time.monotonic_ns() + round(LEAD_S * 1e9)
        await self._all(self._run(member, start_ns) for member in self._members)
        for member in self._members:
            if member.ended is not None:
                self._notes += member.ended.notes

    async def _run(self, member: Member, start_ns: int | None) -> None:
        async for _ in member.follow(Release(start_ns)):
            limit = self._config.limits.max_errors
            if limit is not None and self._failures.total() > limit:
                self._control.stop(EndedBy.ERRORS)
        ended = member.ended
        if ended is None:
            self._control.abort(EndedBy.BUG, member.death())
        elif ended.error is not None:
            self._control.abort(ended.by, ended.error)
        elif ended.by in (EndedBy.DURATION, EndedBy.ERRORS):
            self._control.stop(ended.by)

    async def _all(self, works: Iterable[Coroutine[None, None, None]]) -> None:
        await asyncio.gather(*works)

    def _pass_on(self) -> None:
        for member in self._members:
            member.tell(Stop(abort=self._control.is_aborting))
            if self._control.is_aborting:
                asyncio.get_running_loop().call_later(END_S, member.kill)

    def _note_open_files(self, share: Share) -> None:
        """Note that the load may need more connections than the system allows: one too many is a failed request."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        streams, key = share.connections, "load.concurrency"
        if not share.is_closed:
            streams, key = min(share.max_in_flight or len(share.requests), len(share.requests)), "load.max_in_flight"
        needed = math.ceil(streams / len(self._members)) + SPARE_FILES
        if hard != resource.RLIM_INFINITY and needed > hard:
            self._notes.append(
                f"A load worker may need {needed} open files and the system allows {hard}: raise `ulimit -Hn` "
                f"(nofile in /etc/security/limits.conf) or load.workers, or lower {key}."
            )


class Member:
    """One worker as the run process sees it.

    Attributes:
        progress: What it told last.
        ended: Its last word; None before, and when it died without one.
    """

    def __init__(self, run: RunDirectory, k: int, shared_fds: tuple[int, ...], *, is_uvloop: bool) -> None:
        self.progress = Progress(Counts(), "", "")
        self.ended: Ended | None = None
        self._k = k
        self._channel: Channel | None = None
        self._ours, theirs = socket.socketpair()
        arguments = [str(run.path), str(k), str(theirs.fileno()), str(shared_fds[0]), str(os.getpid())]
        with theirs:
            self._process = subprocess.Popen(
                [*machine.python(), "-m", "lmtui.runner.worker", *arguments, *(["uvloop"] if is_uvloop else [])],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *shared_fds),
            )

    async def connect(self) -> None:
        """Begin to talk."""
        self._channel = await Channel.over(self._ours)

    def dismiss(self) -> None:
        """Let the worker end without work."""
        self._ours.close()

    def tell(self, message: Message) -> None:
        """Send a message that has no answer; nothing happens when the worker is gone."""
        if self._channel is not None:
            self._channel.send(message)

    async def order(self, message: Message) -> None:
        """Send a message and wait until it is done.

        Raises:
            TargetError: It cannot be done.
            RuntimeError: The worker failed or died.
        """
        self.tell(message)
        answer = await self._receive()
        if isinstance(answer, Ended):
            raise answer.error or self.death()
        if not isinstance(answer, Done):
            raise self.death()

    async def follow(self, message: Release) -> AsyncIterator[Progress]:
        """Release the worker, and yield what it tells until it has ended or died."""
        self.tell(message)
        while True:
            answer = await self._receive()
            if isinstance(answer, Progress):
                self.progress = answer
                yield answer
                continue
            if isinstance(answer, Ended):
                self.ended, self.progress = answer, answer.progress
            return

    def kill(self) -> None:
        """End the process, unless it has ended."""
        self._process.kill()

    def death(self) -> RuntimeError:
        """Return what is to be said of a worker that is gone."""
        code = self._process.wait()
        return RuntimeError(f"load worker {self._k} died with exit code {code}")

    async def _receive(self) -> Message | None:
        assert self._channel is not None, "the worker has no job yet"
        return await self._channel.receive()
