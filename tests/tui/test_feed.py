"""A run directory becomes moments: everything in it, from its first frame to its last."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from lmtui.config import presets
from lmtui.metrics.sessions import UNKNOWN, Outcome
from lmtui.runner import watch
from lmtui.runner.rundir import Counts, RunDirectory
from lmtui.runner.ticklog import Kind, encode, encode_json
from lmtui.tui.feed import Feed
from tests.tui.driving import result, status, until

S = 1_000_000_000
MS = 1_000_000


def directory() -> RunDirectory:
    config = presets.load("simulated").check().config
    assert config is not None
    return RunDirectory.create(config)


def frames(requests: int, *, ticks: int = 10) -> bytes:
    """Return the log of requests that are sent at once, with a tick each 100 ms from 0.5 s on."""
    sent = [(i, 0, 0, 8, ticks, 0) for i in range(requests)]
    came = [(i, 500 * MS + t * 100 * MS, t + 1) for t in range(ticks) for i in range(requests)]
    end = 500 * MS + (ticks - 1) * 100 * MS
    ended = [
        (i, end, Outcome.TIMEOUT if i == 0 else Outcome.OK, ticks, 1, 8, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        for i in range(requests)
    ]
    return (
        encode_json({"what": "start", "start_ns": 0})
        + encode(Kind.SENT, sent)
        + encode(Kind.TICKS, came)
        + encode(Kind.END, ended)
        + encode_json({"what": "error", "index": 0, "message": "no byte"})
    )


async def test_a_finished_run_is_read_whole() -> None:
    run = directory()
    run.ticks_path(0).write_bytes(frames(4))
    run.log_path.write_text("one\ntwo\n")
    run.write_result(result())
    run.write_status(status("done", counts=Counts(planned=4, done=4)))
    feed = Feed(run)
    await asyncio.wait_for(feed.follow(), 20)
    view = feed.view()
    assert (view.planned, view.sent, view.done, view.in_flight, view.tokens) == (4, 4, 4, 0, 40)
    assert view.outcomes["ok"] == 3
    assert view.outcomes["timeout"] == 1
    assert [(e.outcome, e.message, e.count) for e in view.errors] == [("timeout", "no byte", 1)]
    assert view.percentiles["ttft_ms"].p50 == pytest.approx(500, rel=0.02)
    assert view.percentiles["e2e_ms"].p50 == pytest.approx(1400, rel=0.02)
    assert view.output_tokens_per_s[0] == 20, "five ticks of four requests in the first second"
    assert view.output_tokens_per_s[1] == pytest.approx(20 / 0.4), "the last 0.4 s count as 0.4 s"
    assert feed.take_log() == "one\ntwo\n"
    assert feed.take_log() == ""
    assert feed.result() is not None
    config = feed.config()
    assert config is not None
    assert config.name == "simulated"


async def test_frames_that_come_before_the_plan_is_known_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.001)
    monkeypatch.setattr("lmtui.runner.runs.current", lambda run: run.status())
    run = directory()
    run.write_status(status("loading", counts=Counts(), message="loading weights"))
    feed = Feed(run)
    following = asyncio.create_task(feed.follow())
    await until(lambda: feed.view().status is not None)
    assert feed.view().elapsed_s is None
    run.ticks_path(0).write_bytes(frames(3))
    await until(lambda: feed.view().done == 3)
    run.write_status(status("running", counts=Counts(planned=3)))
    await until(lambda: feed.view().planned == 3)
    assert feed.view().sent == 3
    assert len(feed.view().output_tokens_per_s) == 1, "a second that is not over is left out"
    run.write_status(status("done", counts=Counts(planned=3, done=3)))
    await asyncio.wait_for(following, 20)


async def test_a_directory_that_goes_away_ends_it(tmp_path: Path) -> None:
    feed = Feed(RunDirectory(tmp_path / "gone"))
    await asyncio.wait_for(feed.follow(), 20)
    assert feed.view().is_gone


async def test_a_short_end_is_not_told_as_a_rate() -> None:
    run = directory()
    run.ticks_path(0).write_bytes(frames(1, ticks=6))
    run.write_status(status("done", counts=Counts(planned=1, done=1)))
    feed = Feed(run)
    await asyncio.wait_for(feed.follow(), 20)
    assert np.array_equal(feed.view().output_tokens_per_s, [5.0])
