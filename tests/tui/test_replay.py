"""A run that is over is played again: the clock of a replay, its log folded up to a moment, its keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.runner.rundir import Counts
from lmtui.runner.ticklog import Kind, encode, encode_json
from lmtui.tui.app import LmtuiApp
from lmtui.tui.replay import Player, Recording, words
from lmtui.tui.screens.live import LiveScreen
from lmtui.tui.widgets.chart import Chart
from lmtui.tui.widgets.log_pane import LogPane
from lmtui.tui.widgets.panel import Panel
from tests.tui.driving import FakeFeed, result, screen_text, settle, status, view

S = 1_000_000_000
START = 7 * S


def log(folder: Path, seconds: int = 20) -> Path:
    """Write a tick log: each second a request is sent, ticks ten times, and ends."""
    folder.mkdir(parents=True, exist_ok=True)
    data = encode_json({"what": "start", "start_ns": START})
    for i in range(seconds):
        at = START + i * S
        ticks = tuple((i, at + (k + 1) * S // 20, k + 1) for k in range(10))
        end = (i, ticks[-1][1] - 1, Outcome.OK, 10, TokenSource.ENGINE, 5, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        data += encode(Kind.SENT, [(i, at, at, 5, 10, 0)]) + encode(Kind.TICKS, ticks) + encode(Kind.END, [end])
    (folder / "ticks-0.bin").write_bytes(data)
    return folder


def test_the_clock_plays_pauses_speeds_up_jumps_and_stops_at_the_end() -> None:
    now = [100.0]
    player = Player(60.0, lambda: now[0])
    now[0] += 5
    assert player.position_s == 0
    player.toggle()
    now[0] += 5
    assert player.position_s == 5
    player.change_speed(1)
    now[0] += 5
    assert player.position_s == 15
    player.toggle()
    now[0] += 5
    assert (player.position_s, player.is_playing) == (15, False)
    player.seek(-30)
    assert player.position_s == 0
    player.toggle()
    player.seek(50)
    assert player.is_playing
    now[0] += 100
    assert (player.position_s, player.is_playing) == (60, False)
    assert words(player) == "replay paused 2×  1:00 of 1:00"
    player.toggle()
    assert player.position_s == 0, "at the end it begins anew"
    for _ in range(20):
        player.change_speed(-1)
    assert player.speed == 0.25


def test_a_moment_is_what_had_come_by_then_forwards_and_backwards(tmp_path: Path) -> None:
    recording = Recording(log(tmp_path / "run"), status("done", counts=Counts(planned=20)))
    assert recording.length_s == pytest.approx(19.5)
    early = recording.view(4.9)
    assert (early.sent, early.done, early.tokens) == (5, 5, 50)
    assert early.status is not None
    assert early.status.phase == "running"
    late = recording.view(recording.length_s)
    assert (late.done, late.tokens) == (20, 200)
    assert late.status is not None
    assert late.status.phase == "done"
    again = recording.view(4.9)
    assert (again.sent, again.done, again.tokens) == (early.sent, early.done, early.tokens)
    assert again.percentiles["e2e_ms"].p50 == pytest.approx(500, rel=0.02)


def test_without_logs_there_is_nothing_to_play(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert Recording(tmp_path / "run", status("done")).length_s == 0


async def test_space_plays_a_run_that_is_over(tmp_path: Path) -> None:
    folder = log(tmp_path / "run")
    feed = FakeFeed(folder, view(status=status("done", counts=Counts(planned=20))), end=result())
    feed.is_over.set()
    app = LmtuiApp()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = LiveScreen(feed)
        await app.push_screen(screen)
        await settle(pilot, lambda: "grade good" in screen_text(app))
        await pilot.press("right")
        await settle(pilot, lambda: "space plays the run again" in screen_text(app))
        await pilot.press("space")
        await settle(pilot, lambda: "replay playing 1×" in screen_text(app) and "of 0:19" in screen_text(app))
        await pilot.press("space", "right", "plus")
        await settle(pilot, lambda: "replay paused 2×" in screen_text(app) and "0:05 of" in screen_text(app))
        await settle(pilot, lambda: "/20 done" in screen_text(app))
        await pilot.press("right", "right", "right", "right")
        await settle(pilot, lambda: "grade good" in screen_text(app))


async def test_space_and_a_run_that_is_live_or_without_logs(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    app = LmtuiApp()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await app.push_screen(LiveScreen(feed))
        await settle(pilot, lambda: "456/1000" in screen_text(app))
        await pilot.press("space")
        await settle(pilot, lambda: "still live" in screen_text(app))
        feed.moment = view(status=status("done"))
        await pilot.press("space")
        await settle(pilot, lambda: any("cannot be played again" in note.message for note in app._notifications))


async def test_w_shows_the_last_minute(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view(290))
    app = LmtuiApp()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = LiveScreen(feed)
        await app.push_screen(screen)
        await settle(pilot, lambda: "5:00" in screen_text(app))
        await pilot.press("w")
        await settle(pilot, lambda: "last minute" in screen_text(app) and "4:10" in screen_text(app))
        assert "0:00" not in screen_text(app).split("running")[1]
        assert screen.query_one("#latency-chart", Chart).size.width


async def test_a_log_that_is_scrolled_up_counts_what_comes(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    feed.log = "".join(f"line {i}\n" for i in range(100))
    app = LmtuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = LiveScreen(feed)
        await app.push_screen(screen)
        await settle(pilot, lambda: "line 99" in screen_text(app))
        await pilot.press("l", "home")
        feed.log = "one more\nand one\n"
        await settle(pilot, lambda: "2 new lines" in str(screen.query_one("#log", Panel).border_title))
        assert "line 0" in screen_text(app)
        await pilot.press("end")
        await settle(pilot, lambda: "new lines" not in str(screen.query_one("#log", Panel).border_title))
        assert screen.query_one(LogPane).lines[-1] == "and one"
