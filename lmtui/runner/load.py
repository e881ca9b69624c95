"""The load: closed (slots) or open (a schedule), on a target, until the plan, the time or a stop ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome
from lmtui.runner.pacer import Pacer
from lmtui.runner.recorder import Recorder, Session
from lmtui.runner.share import Share
from lmtui.runner.turns import give_place, take_place
from lmtui.targets.base import BatchTarget, Target
from lmtui.workload.plan import PlannedRequest

GIVE_UP_S = 10.0
"""A target has this long to let a cut request go; then its task is cancelled."""
LEAVE_S = 2.0
"""A task that swallows its cancellation (TurboMind's streams do) has this long to end; then it is left behind."""

_Rest = Coroutine[Any, Any, None]
"""What is left to do for a request whose place is free: counting its tokens, and ending it."""


class EndedBy(Enum):
    """What ended a load."""

    PLAN = "plan"
    DURATION = "duration"
    STOP = "stop"
    ERRORS = "errors"
    TARGET = "target"
    BUG = "bug"


class Control:
    """How a load is told to end early. It lives in the load's loop; the first reason given is the one that counts.

    Attributes:
        ended_by: Why, PLAN as long as nobody ended it.
        error: What was raised, for TARGET and BUG.
        listeners: Called after each change.
    """

    def __init__(self) -> None:
        self.ended_by = EndedBy.PLAN
        self.error: Exception | None = None
        self.is_stopping = False
        self.is_aborting = False
        self.listeners: list[Callable[[], None]] = []

    def stop(self, by: EndedBy = EndedBy.STOP) -> None:
        """Send nothing more; requests in flight have the grace time to end."""
        if not self.is_stopping:
            self.is_stopping = True
            self.ended_by = by
            self._tell()

    def abort(self, by: EndedBy = EndedBy.STOP, error: Exception | None = None) -> None:
        """Send nothing more, and cut what is in flight now."""
        self.stop(by)
        if not self.is_aborting:
            self.is_aborting = True
            self.error = error
            self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor and wall seconds of this process, from the release of the load to its last end (or so far)."""

    cpu_s: float
    wall_s: float


class Load:
    """Sends one share of a plan to a target. What ended it early, and the error that did, is told by its control."""

    def __init__(
        self,
        target: Target,
        share: Share,
        recorder: Recorder,
        control: Control,
        all_failed: Callable[[int], int] | None = None,
    ) -> None:
        """Send `share` once told to.

        Args:
            target: What answers.
            share: What to send.
            recorder: What happens is put down there.
            control: Ends it early.
            all_failed: Takes how many requests failed here and returns how many did in all workers; None: it is alone.
        """
        self._unresponsive = 0
        self._all_failed = all_failed
        self._target = target
        self._share = share
        self._recorder = recorder
        self._control = control
        self._clock = recorder.clock
        self._loop = asyncio.get_running_loop()
        self._pacer = Pacer(recorder.clock)
        self._live: set[Session] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._duration: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._all_over: asyncio.Future[None] | None = None
        self._started = 0
        self._missed = 0
        self._released: tuple[float, float] | None = None
        self._usage: Usage | None = None
        control.listeners.append(self._on_change)

    @property
    def planned(self) -> int:
        """Requests of the plan; of a cycled one, those that were due so far."""
        return self._started + self._missed if self._share.is_cycled else len(self._share.requests)

    @property
    def in_flight(self) -> int:
        """Requests that have begun and not ended."""
        return len(self._live)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the result."""
        if not self._unresponsive:
            return ()
        return (f"{self._unresponsive} requests were cut and not let go of by the target within {GIVE_UP_S:g} s.",)

    @property
    def usage(self) -> Usage | None:
        """What sending has cost so far; None before the release."""
        if self._usage is None and self._released is not None:
            cpu, wall = self._released
            return Usage(time.process_time() - cpu, time.monotonic() - wall)
        return self._usage

    async def warm_up(self) -> tuple[str, ...]:
        """Send the warm-up requests, `concurrency` at once, and measure nothing; return sentences about failures."""
        unmeasured = Recorder(None, self._clock, self._share.timeout_s)
        waiting = iter(self._share.warmup)

        async def slot() -> None:
            while not self._control.is_stopping and (request := next(waiting, None)) is not None:
                await self._perform(self._session(unmeasured, request, self._clock()))

        cap = min(self._share.concurrency, self._share.max_in_flight or self._share.concurrency)
        for _ in range(min(cap, len(self._share.warmup))):
            self._spawn(slot())
        await self._all_ended()
        if self._share.warmup_pause_s and not self._control.is_stopping:
            await asyncio.sleep(self._share.warmup_pause_s)
        failed = unmeasured.tally.failed
        if not failed:
            return ()
        return (f"{failed} of {len(self._share.warmup)} warm-up requests failed: {unmeasured.last_error}",)

    async def run(self, start_ns: int | None = None) -> None:
        """Release the load at `start_ns` (None: now) and return when the last request has ended."""
        while start_ns is not None and self._clock() < start_ns:
            await self._pacer.wait(start_ns)
        start_ns = self._clock() if start_ns is None else start_ns
        self._released = (time.process_time(), time.monotonic())
        self._recorder.release(start_ns)
        if self._share.duration_s is not None:
            self._duration = self._loop.call_later(self._share.duration_s, self._control.stop, EndedBy.DURATION)
        if isinstance(self._target, BatchTarget):
            self._spawn(self._send_together(self._target, start_ns))
        elif self._share.is_closed:
            self._send_when_free(start_ns)
        else:
            await self._send_when_due(start_ns)
        await self._all_ended()
        self._usage = self.usage

    def close(self) -> None:
        """Give the timers back."""
        self._control.listeners.remove(self._on_change)
        for timer in (self._duration, self._grace, self._patience):
            if timer is not None:
                timer.cancel()
        self._pacer.close()

    async def _send_together(self, target: BatchTarget, start_ns: int) -> None:
        """Give a target all requests in one call."""
        sessions = [self._session(self._recorder, request, start_ns) for request in self._share.requests]
        self._started = len(sessions)
        for session in sessions:
            session.when_ended = self._ended_together
        problem: Exception | None = None
        try:
            await target.perform_all(sessions)
            if self._live:
                problem = RuntimeError(f"the target left {len(self._live)} requests without an end")
        except Exception as error:
            problem = error
        finally:
            for session in tuple(self._live):
                session.end(Outcome.ABORTED, self._clock(), error=str(problem or "the target did not let go of it"))
        if problem is not None:
            self._fail(problem)

    def _ended_together(self, session: Session) -> None:
        self._live.discard(session)
        self._count_errors()

    def _send_when_free(self, start_ns: int) -> None:
        waiting = self._share.sequence()

        async def slot() -> None:
            free_ns = start_ns
            while not self._control.is_stopping and (request := next(waiting, None)) is not None:
                self._started += 1
                session = self._session(self._recorder, request, free_ns)
                await self._perform(session)
                free_ns = self._freed(session, free_ns)

        slots = self._share.concurrency
        if not self._share.is_cycled:
            slots = min(slots, len(self._share.requests))
        for _ in range(slots):
            self._spawn(slot())

    def _freed(self, session: Session, before_ns: int) -> int:
        """Return when a slot became free: at its request's end, not when a late loop came to hear of it."""
        now_ns = self._clock()
        if session.ended_ns == UNKNOWN:
            return now_ns
        return max(before_ns, min(session.ended_ns, now_ns))

    async def _send_when_due(self, start_ns: int) -> None:
        for request in self._share.sequence():
            due_ns = start_ns + round((request.due_s or 0.0) * 1e9)
            while not self._control.is_stopping:
                if self._clock() < due_ns:
                    await self._pacer.wait(due_ns)
                elif self._takes_place():
                    break
                else:
                    await self._place_is_free()
            if self._control.is_stopping:
                break
            self._started += 1
            self._spawn(self._perform(self._session(self._recorder, request, due_ns)))
        self._missed = self._due_but_not_sent(start_ns)

    def _takes_place(self) -> bool:
        """Take a place for another request in flight, where they are limited; whether there was one."""
        limit, shared = self._share.max_in_flight, self._share.places_fds
        if shared is not None:
            return take_place(shared[0])
        return limit is None or len(self._live) < limit

    async def _place_is_free(self) -> None:
        """Wait until a place may be free, or the load is told to end."""
        shared = self._share.places_fds
        if shared is not None:
            self._loop.add_reader(shared[0], self._pacer.wake)
        await self._pacer.wait(None)
        if shared is not None:
            self._loop.remove_reader(shared[0])

    def _leave_place(self, session: Session) -> None:
        self._live.discard(session)
        if self._share.places_fds is not None and self._released is not None:
            give_place(self._share.places_fds[1])
        elif self._share.max_in_flight is not None:
            self._pacer.wake()

    def _due_but_not_sent(self, start_ns: int) -> int:
        """Return how many requests of a cycled schedule a cap had held back when sending ended."""
        if not self._share.is_cycled:
            return 0
        over_s = (self._clock() - start_ns) / 1e9
        due = 0
        for request in self._share.sequence():
            if (request.due_s or 0.0) > over_s:
                break
            due += 1
        return max(due - self._started, 0)

    def _session(self, recorder: Recorder, request: PlannedRequest, due_ns: int) -> Session:
        session = recorder.session(request, due_ns)
        self._live.add(session)
        return session

    async def _perform(self, session: Session) -> None:
        """Perform a request; its place is free when this returns, and its tokens may still be counted."""
        try:
            rest = await self._ended_by(self._target.perform(session.request, session), session)
        finally:
            self._leave_place(session)
        if rest is not None:
            self._spawn(self._ended_by(rest, session))

    async def _ended_by(self, work: Coroutine[Any, Any, _Rest | None], session: Session) -> _Rest | None:
        """Await the target's work on a request, which has ended then, unless there is a rest that will end it."""
        problem: Exception | None = None
        rest: _Rest | None = None
        try:
            rest = await work
            if rest is None and not session.is_ended:
                problem = RuntimeError(f"the target left request {session.request.index} without an end")
        except Exception as error:
            problem = error
        finally:
            if rest is None and not session.is_ended:
                session.end(Outcome.ABORTED, self._clock(), error=str(problem or "the target did not let go of it"))
        if problem is not None:
            self._fail(problem)
        elif rest is None:
            self._count_errors()
        return rest

    def _fail(self, problem: Exception) -> None:
        self._control.abort(EndedBy.TARGET if isinstance(problem, TargetError) else EndedBy.BUG, problem)

    def _count_errors(self) -> None:
        failed, limit = self._recorder.tally.failed, self._share.max_errors
        if limit is None or not failed:
            return
        if (failed if self._all_failed is None else self._all_failed(failed)) > limit:
            self._control.stop(EndedBy.ERRORS)

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task: asyncio.Task[object] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._tell_all_over()
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._control.abort(EndedBy.BUG, error)

    async def _all_ended(self) -> None:
        if self._tasks:
            self._all_over = self._loop.create_future()
            await self._all_over

    def _on_change(self) -> None:
        self._pacer.wake()
        if self._control.is_aborting or self._released is None:
            self._cut_all()
        elif self._grace is None:
            self._grace = self._loop.call_later(self._share.grace_s, self._cut_all)

    def _cut_all(self) -> None:
        for session in tuple(self._live):
            session.cut(Outcome.ABORTED)
        if self._patience is None:
            self._patience = self._loop.call_later(GIVE_UP_S, self._give_up)

    def _give_up(self) -> None:
        self._unresponsive += len(self._live)
        for task in tuple(self._tasks):
            task.cancel()
        self._patience = self._loop.call_later(LEAVE_S, self._leave)

    def _leave(self) -> None:
        """Go on without the tasks that cannot be ended; what they know of their requests is not recorded any more."""
        for task in self._tasks:
            task.remove_done_callback(self._task_done)
            task.add_done_callback(_ignore)
        self._tasks.clear()
        for session in tuple(self._live):
            self._live.discard(session)
            session.end(Outcome.ABORTED, self._clock(), error="the target did not let go of it")
        self._tell_all_over()

    def _tell_all_over(self) -> None:
        if self._all_over is not None and not self._all_over.done():
            self._all_over.set_result(None)


def _ignore(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()
