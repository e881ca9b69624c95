"""A run directory to moments of the live screen: tail, fold, snapshot. All of it happens off the screen's loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtui.errors import LmtuiError
from lmtui.metrics.live import LiveFold, Snapshot
from lmtui.runner.ticklog import Frame, Kind
from lmtui.runner.watch import Batch, Watch
from lmtui.tui.live_view import BIN_S, CancelView, LiveView

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.metrics.result import Result
    from lmtui.runner.rundir import RunDirectory, Status
    from lmtui.tui.replay import Recording

LOG_KEPT = 256 * 1024
"""Characters of the log that wait for the screen at most; the newest are kept."""
LEAST_PART = 0.25
"""The least share of the last bin from which a rate is told."""


class Feed:
    """Follows one run. The screen asks for the newest moment when it wants one; nothing queues up."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._fold: LiveFold | None = None
        self._view = LiveView()
        self._log = ""

    @property
    def run(self) -> RunDirectory:
        """The run."""
        return self._run

    async def follow(self) -> None:
        """Read the run until it is over and all of it was read."""
        queue: asyncio.Queue[Batch] = asyncio.Queue(maxsize=2)
        reader = asyncio.create_task(Watch(self._run.path).follow(queue))
        try:
            while True:
                batch = await queue.get()
                self._log = (self._log + batch.log_text)[-LOG_KEPT:]
                self._view = await asyncio.to_thread(self._take, batch)
                if batch.is_last:
                    return
        finally:
            reader.cancel()

    def view(self) -> LiveView:
        """Return the newest moment; the same object when nothing came since."""
        return self._view

    def take_log(self) -> str:
        """Return the text of the log that came since the last call."""
        text, self._log = self._log, ""
        return text

    def config(self) -> Config | None:
        """Return the run's config; None when it cannot be read."""
        try:
            return self._run.config()
        except LmtuiError:
            return None  # of another version: the run is shown without its objectives

    def result(self) -> Result | None:
        """Return the result of a run that is over."""
        return self._run.result()

    def recording(self) -> Recording:
        """Return the tick logs of a run that is over, to be played again (reads them)."""
        from lmtui.tui.replay import Recording

        status = self._run.status()
        if status is None:
            raise LmtuiError(f"{self._run.path} is gone: there is nothing to play")
        return Recording(self._run.path, status)

    def _take(self, batch: Batch) -> LiveView:
        status = batch.status
        if status is None:
            return LiveView(is_gone=True)
        if self._fold is None:
            if not batch.frames:
                return LiveView(status=status)
            self._fold = LiveFold(status.counts.planned)
        for frame in batch.frames:
            apply(self._fold, frame)
        return view_of(status, self._fold.snapshot())


def apply(fold: LiveFold, frame: Frame) -> None:
    """Give a frame of the tick log to the fold."""
    if frame.kind is Kind.SENT:
        fold.sent(**frame.columns)
    elif frame.kind is Kind.TICKS:
        fold.ticks(**frame.columns)
    elif frame.kind is Kind.END:
        fold.ends(**frame.columns)
    elif frame.kind is Kind.JSON and frame.data.get("what") == "start":
        fold.start(int(frame.data["start_ns"]))
    elif frame.kind is Kind.JSON and frame.data.get("what") == "error":
        fold.error(int(frame.data["index"]), str(frame.data["message"]))


def view_of(status: Status, of: Snapshot) -> LiveView:
    """Return the moment of a snapshot."""
    rate = _rate(of, is_over=status.is_final)
    whole = len(rate)
    return LiveView(
        status=status,
        elapsed_s=of.elapsed_s,
        planned=status.counts.planned or of.planned,
        sent=of.sent,
        in_flight=of.in_flight,
        done=of.done,
        outcomes=of.outcomes,
        tokens=of.tokens,
        output_tokens_per_s=rate,
        latencies={
            key: (lines.p50_ms[:whole], lines.p99_ms[:whole])
            for key, lines in (("ttft_ms", of.ttft), ("itl_ms", of.itl))
        },
        percentiles={"ttft_ms": of.ttft_ms, "tpot_ms": of.tpot_ms, "itl_ms": of.itl_ms, "e2e_ms": of.e2e_ms},
        errors=of.errors,
        cancel=None
        if of.cancel is None
        else CancelView(
            of.cancel.planned,
            of.cancel.done,
            of.cancel.missed,
            of.cancel.wasted_tokens,
            of.cancel.let_go_ms.p50,
            {"ttft_ms": of.cancel.survivors_ttft_ms, "itl_ms": of.cancel.survivors_itl_ms},
        ),
    )


def _rate(of: Snapshot, *, is_over: bool) -> NDArray[np.float64]:
    """Return tokens per second, bin by bin.

    The last bin is not full. While the run goes on it is left out, for it would look like a dip; at the end its tokens
    count for the part of it that the run took, unless that part is too small to tell.
    """
    if len(of.output_tokens) == 0 or of.elapsed_s is None:
        return of.output_tokens
    part = of.elapsed_s / BIN_S - (len(of.output_tokens) - 1)
    if not is_over or part < LEAST_PART:
        return of.output_tokens[:-1]
    rate = of.output_tokens.copy()
    rate[-1] /= min(part, 1.0)
    return rate
