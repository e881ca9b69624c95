"""Helpers that drive the application: wait for a state, read the screen, feed a scripted run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from textual.app import App
from textual.pilot import Pilot

from lmtui.config.model import Config
from lmtui.metrics.result import Client, Distribution, ErrorGroup, Metrics, Result
from lmtui.runner.rundir import Counts, RunDirectory, Status
from lmtui.tui.live_view import CancelView, LiveView
from lmtui.tui.replay import Recording

GIVE_UP_S = 20.0


async def settle(pilot: Pilot[None], until: Callable[[], object] = lambda: True, give_up_s: float = GIVE_UP_S) -> None:
    """Let the application work until `until` holds."""
    deadline = time.monotonic() + give_up_s
    await pilot.pause()
    while not until():
        assert time.monotonic() < deadline, f"it never came true\n{screen_text(pilot.app)}"
        await asyncio.sleep(0.01)
        await pilot.pause()


async def until(holds: Callable[[], object]) -> None:
    """Let other tasks work until `holds` does."""
    deadline = time.monotonic() + GIVE_UP_S
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.001)


def screen_text(app: App[None]) -> str:
    """Return what is on the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def status(phase: str = "running", **more: object) -> Status:
    """Return a status of a run of this machine."""
    values: dict[str, object] = {
        "run_id": "20260101T000000Z-fake-000000",
        "name": "fake",
        "phase": phase,
        "pid": 1,
        "pid_started": None,
        "host": "here",
        "boot_id": "boot",
        "heartbeat": 0.0,
        "started_at": "2026-01-01T00:00:00Z",
        "target_kind": "simulated",
        "target_model": "tiny",
        "simulated": True,
        "counts": Counts(planned=1000),
    }
    return Status(**{**values, **more})  # type: ignore[arg-type]


def distribution(p50: float = 10.0) -> Distribution:
    return Distribution(
        mean=p50, std=1.0, min=1.0, p50=p50, p75=p50, p90=p50 * 2, p95=p50 * 2, p99=p50 * 3, p99_9=p50 * 3,
        max=p50 * 4, n=500, unresolved=("p99_9",),
    )  # fmt: skip


def view(seconds: int = 30, **more: object) -> LiveView:
    """Return a moment of a run that has gone on for so long."""
    x = np.arange(seconds, dtype=float)
    values: dict[str, object] = {
        "status": status(),
        "elapsed_s": float(seconds),
        "planned": 1000,
        "sent": 520,
        "in_flight": 64,
        "done": 456,
        "outcomes": {"ok": 450, "timeout": 4, "cancelled": 2},
        "tokens": 123_456,
        "output_tokens_per_s": 4000 + 100 * np.sin(x),
        "latencies": {"ttft_ms": (50 + x, 90 + x), "itl_ms": (20 + x / 10, 30 + x / 10)},
        "percentiles": {key: distribution() for key in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")},
        "errors": (ErrorGroup("timeout", "no byte for 120 s [red]\x1b[31m", 4),),
        "cancel": CancelView(planned=10, done=2, missed=1, wasted_tokens=None),
    }
    return LiveView(**{**values, **more})  # type: ignore[arg-type]


def result(**more: object) -> Result:
    """Return a result of a simulated run."""
    d = distribution()
    metrics = Metrics(
        duration_s=30.0, completed=450, request_throughput=15.0, input_throughput=1000.0, output_throughput=4012.5,
        total_input_tokens=30_000, total_output_tokens=120_000, all_output_tokens=123_456, all_output_throughput=4100.0,
        peak_output_throughput=4300.0, peak_in_flight=64, mean_in_flight=60.0, achieved_rate=None, asked_rate=None,
        ttft_ms=d, tpot_ms=d, itl_ms=d, token_gap_ms=d, e2e_ms=d, tokens_per_tick=d, queue_ms=Distribution(),
        connect_ms=Distribution(), ttft_from_due_ms=Distribution(), e2e_from_due_ms=Distribution(),
        asked_input_tokens=30_000, server_input_tokens=None, cached_tokens=None, goodput=None, goodput_share=None,
        cancel=None, steady=None,
    )  # fmt: skip
    client = Client(
        clock="user", send_lag_ms=d, loop_lag_ms=d, read_lag_ms=Distribution(), coalesced_share=0.0, cpu_s=1.0,
        grade="good", reasons=(),
    )  # fmt: skip
    values: dict[str, object] = {
        "run_id": "20260101T000000Z-fake-000000",
        "name": "fake",
        "phase": "done",
        "started_at": "2026-01-01T00:00:00Z",
        "target": {"kind": "simulated", "model": "tiny"},
        "config": {"name": "fake", "load": {"concurrency": 64}},
        "outcomes": {"ok": 450, "timeout": 4},
        "errors": (ErrorGroup("timeout", "no byte for 120 s", 4),),
        "metrics": metrics,
        "client": client,
        "tokens_from": "engine",
        "notes": ("a note",),
        "environment": {"python": "3.11"},
        "simulated": True,
    }
    return Result(**{**values, **more})  # type: ignore[arg-type]


class FakeFeed:
    """A run as a test scripts it."""

    def __init__(
        self, folder: Path, moment: LiveView, *, end: Result | None = None, config: Config | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.run = RunDirectory(folder)
        self.moment = moment
        self.log = ""
        self.end = end
        self.is_over = asyncio.Event()
        self._config = config

    async def follow(self) -> None:
        await self.is_over.wait()

    def view(self) -> LiveView:
        return self.moment

    def take_log(self) -> str:
        text, self.log = self.log, ""
        return text

    def config(self) -> Config | None:
        return self._config

    def result(self) -> Result | None:
        return self.end

    def recording(self) -> Recording:
        assert self.moment.status is not None
        return Recording(self.run.path, self.moment.status)
