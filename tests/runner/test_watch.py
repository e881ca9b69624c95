"""Watching: the same batches for the first viewer, a second one, and a replay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtui.runner import watch
from lmtui.runner.rundir import RunDirectory
from lmtui.runner.ticklog import Kind, encode
from lmtui.runner.watch import MAX_LOG_BYTES, Batch, Watch
from tests.runner.harness import config, status


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def run() -> RunDirectory:
    run = RunDirectory.create(config())
    run.write_status(status(run))
    return run


def add(run: RunDirectory, rows: int, worker: int = 0) -> None:
    with run.ticks_path(worker).open("ab") as file:
        file.write(encode(Kind.TICKS, [(i, i, i) for i in range(rows)]))


def ticks(batches: list[Batch]) -> int:
    return sum(len(frame.columns["index"]) for batch in batches for frame in batch.frames)


def test_polling_gives_what_is_new(run: RunDirectory) -> None:
    viewer = Watch(run.path)
    assert viewer.poll().frames == []
    add(run, 3)
    add(run, 4, worker=1)
    run.log_path.write_bytes("weights ✓\n".encode()[:-2])
    batch = viewer.poll()
    assert (ticks([batch]), batch.log_text) == (7, "weights ")
    with run.log_path.open("ab") as file:
        file.write("✓".encode()[2:] + b"\n\xff")
    batch = viewer.poll()
    assert (batch.frames, batch.log_text) == ([], "✓\n�")
    assert batch.status is not None
    assert (batch.status.phase, batch.is_last) == ("running", False)


def test_a_second_viewer_and_a_replay_see_the_same(run: RunDirectory) -> None:
    first = Watch(run.path)
    add(run, 3)
    seen = [first.poll()]
    add(run, 4)
    seen.append(first.poll())
    second = Watch(run.path)
    assert ticks(seen) == ticks([second.poll()]) == 7
    run.write_status(status(run, phase="done"))
    replay = Watch(run.path)
    batches = [replay.poll(), replay.poll()]
    assert ticks(batches) == 7
    assert [batch.is_last for batch in batches] == [False, True]


def test_a_long_log_is_skipped_to_its_end(run: RunDirectory) -> None:
    line = b"x" * 99 + b"\n"
    run.log_path.write_bytes(line * 10_000)
    text = Watch(run.path).poll().log_text
    assert len(text) <= MAX_LOG_BYTES + 100
    assert text.startswith("[934,464 bytes skipped]\nxxx")
    assert set(text.split("\n")[1:]) == {"x" * 99, ""}


def test_a_directory_that_is_gone_ends_the_watch(run: RunDirectory) -> None:
    viewer = Watch(run.path)
    for path in run.path.iterdir():
        path.unlink()
    run.path.rmdir()
    batch = viewer.poll()
    assert (batch.status, batch.is_last) == (None, True)


def test_a_lost_run_is_settled_by_its_viewer(run: RunDirectory) -> None:
    run.write_status(status(run, pid_started=1))
    batch = Watch(run.path).poll()
    assert batch.status is not None
    assert batch.status.phase == "lost"
    assert run.result() is not None


async def within(true: Callable[[], bool], seconds: float = 30.0) -> None:
    give_up_at = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0)


async def test_following_ends_with_the_last_batch(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.001)
    queue: asyncio.Queue[Batch] = asyncio.Queue(4)
    following = asyncio.ensure_future(Watch(run.path).follow(queue))
    add(run, 5)
    seen: list[Batch] = []
    while ticks(seen) < 5:
        seen.append(await queue.get())
    add(run, 2)
    run.write_status(status(run, phase="stopped"))
    while not seen[-1].is_last:
        seen.append(await queue.get())
    await following
    assert ticks(seen) == 7


async def test_a_full_queue_holds_the_reader_back(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.0)
    queue: asyncio.Queue[Batch] = asyncio.Queue(1)
    viewer = Watch(run.path)
    polls = 0
    poll = viewer.poll

    def counted() -> Batch:
        nonlocal polls
        polls += 1
        return poll()

    monkeypatch.setattr(viewer, "poll", counted)
    following = asyncio.ensure_future(viewer.follow(queue))
    await within(lambda: polls == 2 and queue.full())
    for _ in range(20):
        await asyncio.sleep(0)
    assert polls == 2
    following.cancel()
