"""What sends a plan: the load in this process (engines), or a crew of load workers (servers)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lmtui.runner.load import Control, Load
from lmtui.runner.quiet import collector_off, lag_sampled
from lmtui.runner.recorder import Recorder
from lmtui.runner.rundir import Counts
from lmtui.runner.share import Share
from lmtui.runner.ticklog import Sample
from lmtui.runner.writer import Row
from lmtui.targets.base import Target
from lmtui.targets.clock import clock

if TYPE_CHECKING:
    from lmtui.wire.stats import WireStats

MAX_READ_LAGS = 500
"""About the most read lags kept of one flush: every second, third ... is, when more came."""


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
    """Sends from this process's loop."""

    def __init__(
        self,
        target: Target,
        share: Share,
        ticks: Path,
        control: Control,
        stats: WireStats | None = None,
        all_failed: Callable[[int], int] | None = None,
    ) -> None:
        """Send a share and record it.

        Args:
            target: What answers, open.
            share: What to send.
            ticks: The tick log.
            control: Ends it early.
            stats: What the wire to a server noticed; None: the engine is in this process.
            all_failed: See `Load`.
        """
        now_ns = clock(asyncio.get_running_loop())
        # The wire keeps the time limit of its requests itself.
        self._recorder = Recorder(ticks, now_ns, share.timeout_s if stats is None else None)
        self._recorder.self_report = self._report
        self._load = Load(target, share, self._recorder, control, all_failed)
        self._stats = stats
        if stats is not None:
            self._recorder.take_samples = self._read_lags
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

    async def run(self, start_ns: Awaitable[int | None] | None = None) -> None:
        """Send the plan, with nothing else going on in this process.

        Args:
            start_ns: Gives the time of the release once this process is quiet, None when there is none; without it,
                the release is then.
        """
        if self._stats is not None:
            self._stats.restart()
        self._recorder.start()
        try:
            with collector_off(), lag_sampled(self._recorder):
                if start_ns is None:
                    await self._load.run()
                elif (release_ns := await start_ns) is not None:
                    await self._load.run(release_ns)
        finally:
            self._load.close()
            self._recorder.close()

    def _report(self) -> dict[str, Any]:
        usage, stats = self._load.usage, self._stats
        return {
            "what": "worker",
            "clock": "user" if stats is None else stats.clock,
            "cpu_s": None if usage is None else usage.cpu_s,
            "wall_s": None if usage is None else usage.wall_s,
            "events": 0 if stats is None else stats.events,
            "coalesced": 0 if stats is None else stats.coalesced,
            "clock_steps": 0 if stats is None else stats.clock_steps,
            "replaced": 0 if stats is None else stats.replaced,
            "engine_inside": stats is None,
        }

    def _read_lags(self) -> list[Row]:
        assert self._stats is not None
        lags = self._stats.drain_read_lags()
        now_ns = self._recorder.clock()
        return [(Sample.READ_LAG_NS, now_ns, lag) for lag in lags[:: len(lags) // MAX_READ_LAGS + 1]]
