"""Loads on the virtual clock, and targets that do as they are told."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from lmtui.config.model import Config
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.runner import machine, recorded
from lmtui.runner.load import Control, Load
from lmtui.runner.recorded import Recorded
from lmtui.runner.recorder import Recorder
from lmtui.runner.rundir import RunDirectory, Status
from lmtui.runner.share import Share
from lmtui.targets.base import Session, TargetInfo
from lmtui.targets.clock import clock
from lmtui.targets.virtual import VirtualLoop
from lmtui.workload.plan import PlannedRequest

T = TypeVar("T")
MS = 1_000_000


def config(**sections: dict[str, Any]) -> Config:
    """Return a config of a simulated run on the virtual clock; sections are merged over it."""
    base: dict[str, dict[str, Any]] = {
        "target": {"kind": "simulated", "clock": "virtual", "step_ms": 10.0, "step_ms_per_seq": 0.0},
        "dataset": {"kind": "random", "input_len": 8, "output_len": 10},
        "load": {"concurrency": 4, "num_prompts": 20, "warmup_requests": 0},
    }
    for name, keys in sections.items():
        base[name] = {**base.get(name, {}), **keys}
    return Config.model_validate({"schema": 1, "name": "test run", **base})


def requests(count: int, gap_s: float | None = None, **fields: Any) -> tuple[PlannedRequest, ...]:
    """Return requests of 3 output tokens, due every `gap_s` (None: when a slot is free)."""
    fields = {"output_len": 3, "input_len": 5, **fields}
    return tuple(
        PlannedRequest(index=i, prompt="a prompt", due_s=None if gap_s is None else i * gap_s, **fields)
        for i in range(count)
    )


def share(planned: tuple[PlannedRequest, ...], **fields: Any) -> Share:
    """Return a share; closed with 2 slots unless told otherwise."""
    values: dict[str, Any] = {
        "requests": planned,
        "warmup": (),
        "is_closed": True,
        "concurrency": 2,
        "max_in_flight": None,
        "duration_s": None,
        "is_cycled": False,
        "period_s": 0.0,
        "grace_s": 10.0,
        "timeout_s": None,
        "max_errors": None,
        "connections": 2,
    }
    return Share(**{**values, **fields})


class Script:
    """A target whose requests tick every `gap_s` seconds; `fail` says for an index how it ends instead."""

    def __init__(self, gap_s: float = 0.01, *, let_go_s: float = 0.0, says_tokens: bool = True) -> None:
        self.gap_s = gap_s
        self.let_go_s = let_go_s
        self.says_tokens = says_tokens
        self.fail: Callable[[int], Outcome | Exception | None] = lambda _: None
        self.most_in_flight = 0
        self.is_deaf = False
        self._in_flight = 0

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        return TargetInfo()

    async def close(self) -> None:
        pass

    async def perform(self, request: PlannedRequest, session: Session) -> Coroutine[Any, Any, None] | None:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            await self._perform(request, session)
        finally:
            self._in_flight -= 1
        return None

    async def _perform(self, request: PlannedRequest, session: Session) -> None:
        loop = asyncio.get_running_loop()
        now = clock(loop)
        wake = asyncio.Event()
        session.on_cut = wake.set
        session.sent(now())
        failure = self.fail(request.index)
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            session.end(failure, now(), error=f"told to fail as {failure.label}")
            return
        if self.is_deaf:
            await loop.create_future()
        for tokens in range(1, request.output_len + 1):
            try:
                await asyncio.wait_for(wake.wait(), self.gap_s)
            except (asyncio.TimeoutError, TimeoutError):
                if not session.tick(now(), tokens if self.says_tokens else -1):
                    continue
            await asyncio.sleep(self.let_go_s)
            assert session.cut_as is not None
            session.end(session.cut_as, now(), output_tokens=tokens, token_source=TokenSource.ENGINE)
            return
        session.end(Outcome.OK, now(), output_tokens=request.output_len, token_source=TokenSource.ENGINE)


Act = Callable[[Control], Awaitable[None]]


def run_load(folder: Path, target: Script, part: Share, act: Act | None = None) -> tuple[Recorded, Control, Load]:
    """Run a load on a virtual clock, with `act` beside it, and return what it recorded."""

    async def main() -> tuple[Recorded, Control, Load]:
        control = Control()
        recorder = Recorder(folder / "ticks-0.bin", clock(asyncio.get_running_loop()), part.timeout_s)
        load = Load(target, part, recorder, control)
        recorder.start()
        acting = asyncio.ensure_future(act(control)) if act is not None else None
        await load.run()
        if acting is not None:
            acting.cancel()
        load.close()
        recorder.close()
        return recorded.read(folder, load.planned), control, load

    return on_virtual_loop(main())


def on_virtual_loop(work: Awaitable[T]) -> T:
    """Run a coroutine on a new virtual loop."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def outcomes(found: Recorded) -> dict[str, int]:
    """Return how many requests ended in each way that occurs, those never sent included."""
    counts: dict[str, int] = {}
    for code in found.sessions.outcome.tolist():
        label = Outcome(code).label
        counts[label] = counts.get(label, 0) + 1
    dropped = found.sessions.planned - len(found.sessions.index)
    if dropped:
        counts["dropped"] = counts.get("dropped", 0) + dropped
    return counts


def status(run: RunDirectory, **fields: Any) -> Status:
    """Return the status of a run that this process performs."""
    values: dict[str, Any] = {
        "run_id": run.run_id,
        "name": "test run",
        "phase": "running",
        "pid": os.getpid(),
        "pid_started": machine.process_started(os.getpid()),
        "host": machine.host(),
        "boot_id": machine.boot_id(),
        "heartbeat": time.time(),
        "started_at": "2026-01-01T00:00:00Z",
    }
    return Status(**{**values, **fields})
