"""What sends a plan: the load in this process (engines), or a crew of load workers (servers)."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from lmtui.runner.load import Control, Load
from lmtui.runner.quiet import collector_off, lag_sampled
from lmtui.runner.recorder import Recorder
from lmtui.runner.rundir import Counts, RunDirectory
from lmtui.runner.share import Share
from lmtui.targets.base import Target
from lmtui.targets.clock import clock


class Sender(Protocol):
    """Sends a plan and records it in the run's directory."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the result."""

    def counts(self) -> Counts:
        """Return the counts of the moment; any thread may ask."""

    def problem(self) -> str:
        """Return a sentence about what goes wrong right now; "" when nothing does."""

    def last_error(self) -> str:
        """Return the last failed request's message; "" when none failed."""

    async def warm_up(self) -> None:
        """Send the warm-up requests."""

    async def run(self) -> None:
        """Send the plan; the tick logs are complete when this returns."""


class LocalSender:
    """Sends from this process's loop: an engine lives in it."""

    def __init__(self, target: Target, share: Share, run: RunDirectory, control: Control) -> None:
        now_ns = clock(asyncio.get_running_loop())
        self._recorder = Recorder(run.ticks_path(0), now_ns, share.timeout_s)
        self._recorder.self_report = self._report
        self._load = Load(target, share, self._recorder, control)
        self._warm_up_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the result."""
        return (*self._warm_up_notes, *self._load.notes, *self._recorder.notes)

    def counts(self) -> Counts:
        """Return the counts of the moment."""
        tally = self._recorder.tally
        return Counts(
            planned=self._load.planned,
            sent=tally.sent,
            done=tally.done,
            ok=tally.ok,
            failed=tally.failed,
            cancelled=tally.cancelled,
            in_flight=self._load.in_flight,
        )

    def problem(self) -> str:
        """Return what keeps the tick log from being written."""
        return self._recorder.failure

    def last_error(self) -> str:
        """Return the last failed request's message."""
        return self._recorder.last_error

    async def warm_up(self) -> None:
        """Send the warm-up requests."""
        self._warm_up_notes = await self._load.warm_up()

    async def run(self) -> None:
        """Send the plan, with nothing else going on in this process."""
        self._recorder.start()
        try:
            with collector_off(), lag_sampled(self._recorder):
                await self._load.run()
        finally:
            self._load.close()
            self._recorder.close()

    def _report(self) -> dict[str, Any]:
        usage = self._load.usage
        return {
            "what": "worker",
            "clock": "user",
            "cpu_s": None if usage is None else usage.cpu_s,
            "wall_s": None if usage is None else usage.wall_s,
            "events": 0,
            "coalesced": 0,
            "clock_steps": 0,
            "engine_inside": True,
        }
