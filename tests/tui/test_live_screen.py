"""The live screen shows what its feed tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from lmtui import paths
from lmtui.config import presets
from lmtui.tui.app import LmtuiApp
from lmtui.tui.screens.details import DetailsScreen
from lmtui.tui.screens.live import LiveScreen
from lmtui.tui.widgets.chart import Chart
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.log_pane import LogPane
from tests.tui.driving import FakeFeed, result, screen_text, settle, status, view

SIZES = [(80, 24), (120, 40), (200, 60)]


@asynccontextmanager
async def live(
    feed: FakeFeed, size: tuple[int, int] = (80, 24), *, ascii_only: bool = False
) -> AsyncIterator[tuple[Pilot[None], LiveScreen]]:
    app = LmtuiApp(ascii_only=ascii_only)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = LiveScreen(feed)
        await app.push_screen(screen)
        await settle(pilot, lambda: "fake" in screen.query_one("#head", Figures).text)
        yield pilot, screen


@pytest.mark.parametrize("size", SIZES)
async def test_every_figure_is_on_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    feed.log = "engine ready\n"
    async with live(feed, size) as (pilot, _):
        await settle(pilot, lambda: "engine ready" in screen_text(pilot.app))
        text = screen_text(pilot.app)
        for words in (
            "SIMULATED",
            "running",
            "0:30",
            "456/1000 done",
            "64 in flight",
            "520/1000",
            "timeout",
            "cancelled",
        ):
            assert words in text
        for words in ("TTFT", "TPOT", "ITL", "E2E", "P50", "P99", "10.0", "30.0"):
            assert words in text
        assert "wasted – tokens" in text
        await settle(pilot, lambda: any("⠀" < c < "⣿" for c in screen_text(pilot.app)))


async def test_foreign_text_is_shown_and_never_interpreted(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    feed.log = "[bold]not markup[/bold] \x1b[31mred\x1b[0m \x1b]0;title\x07done\n"
    async with live(feed, (120, 40)) as (pilot, screen):
        await settle(pilot, lambda: screen.query_one(LogPane).lines)
        assert screen.query_one(LogPane).lines == ["[bold]not markup[/bold] red done"]
        text = screen_text(pilot.app)
        assert "[bold]not markup[/bold]" in text
        assert "no byte for 120 s [red]" in text
        assert "\x1b" not in text


async def test_keys_focus_panels_and_give_them_the_screen(tmp_path: Path) -> None:
    async with live(FakeFeed(tmp_path / "run", view())) as (pilot, screen):
        for number, name in enumerate(("throughput", "latency", "percentiles", "counts", "cancel", "errors"), start=1):
            await pilot.press(str(number))
            assert screen.focused is not None
            assert screen.focused.id == name
        await pilot.press("7")
        assert isinstance(screen.focused, LogPane)
        await pilot.press("3", "m")
        await settle(pilot, lambda: screen.maximized is not None)
        await settle(pilot, lambda: "mean" in screen.query_one("#percentiles-text", Figures).text)
        await pilot.press("m")
        assert screen.maximized is None


async def test_freeze_holds_the_view_while_the_run_goes_on(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    async with live(feed) as (pilot, screen):
        await pilot.press("f")
        assert "FROZEN" in screen.query_one("#head", Figures).text
        feed.moment = view(done=777)
        feed.log = "still logging\n"
        await settle(pilot, lambda: "still logging" in screen.query_one(LogPane).lines)
        assert "777" not in screen_text(pilot.app)
        await pilot.press("f")
        await settle(pilot, lambda: "777/1000 done" in screen_text(pilot.app))


async def test_t_shows_another_latency(tmp_path: Path) -> None:
    async with live(FakeFeed(tmp_path / "run", view())) as (pilot, _):
        await settle(pilot, lambda: "TTFT ms" in screen_text(pilot.app))
        await pilot.press("t")
        await settle(pilot, lambda: "ITL ms" in screen_text(pilot.app))


async def test_the_objective_of_the_config_is_drawn(tmp_path: Path) -> None:
    document = presets.load("simulated")
    document.set("slo.ttft_ms", 77.0)
    config = document.check().config
    async with live(FakeFeed(tmp_path / "run", view(), config=config), (120, 40)) as (pilot, _):
        await settle(pilot, lambda: "SLO 77 ms" in screen_text(pilot.app))


async def test_while_it_loads_its_message_is_shown(tmp_path: Path) -> None:
    moment = view(status=status("loading", message="loading weights 3/8"), elapsed_s=None)
    async with live(FakeFeed(tmp_path / "run", moment)) as (pilot, _):
        await settle(pilot, lambda: "loading weights 3/8" in screen_text(pilot.app))


async def test_at_the_end_come_grade_and_final_figures(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view(), end=result())
    async with live(feed) as (pilot, _):
        feed.moment = view(status=status("done"))
        feed.is_over.set()
        await settle(pilot, lambda: "grade good" in screen_text(pilot.app))
        assert "4.01k tok/s" in screen_text(pilot.app)
        await pilot.press("c")
        await settle(pilot, lambda: "Also in" in screen_text(pilot.app))
        (copy,) = (paths.cache() / "copied").iterdir()
        assert "SIMULATED" in copy.read_text()
        await pilot.press("enter")
        await settle(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))


async def test_the_result_is_seen_after_a_line_that_was_blank_while_the_size_changed(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view(), end=result())
    async with live(feed) as (pilot, _):
        feed.moment = view(status=status("done", message=""))
        await settle(pilot, lambda: "64 in flight" not in screen_text(pilot.app))
        await pilot.resize_terminal(120, 40)
        await pilot.resize_terminal(80, 24)
        feed.is_over.set()
        await settle(pilot, lambda: "grade good" in screen_text(pilot.app))


async def test_abort_asks_and_esc_lets_it_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[bool] = []
    monkeypatch.setattr("lmtui.runner.runs.stop", lambda run, abort=False: stops.append(abort))
    async with live(FakeFeed(tmp_path / "run", view())) as (pilot, screen):
        await pilot.press("S")
        await settle(pilot, lambda: pilot.app.screen is not screen)
        await pilot.press("escape")
        await settle(pilot, lambda: pilot.app.screen is screen)
        assert stops == []
        await pilot.press("S")
        await settle(pilot, lambda: pilot.app.screen is not screen)
        await pilot.press("y")
        await settle(pilot, lambda: stops == [True])
        await pilot.press("s")
        await settle(pilot, lambda: stops == [True, False])


async def test_d_leaves_the_screen_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[bool] = []
    monkeypatch.setattr("lmtui.runner.runs.stop", lambda run, abort=False: stops.append(abort))
    async with live(FakeFeed(tmp_path / "run", view())) as (pilot, screen):
        await pilot.press("d")
        await settle(pilot, lambda: pilot.app.screen is not screen)
    assert stops == []


async def test_equal_moments_draw_nothing(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    async with live(feed) as (pilot, screen):
        chart = screen.query_one("#throughput-chart", Chart)
        await settle(pilot, lambda: screen._ticks >= 3)
        drawn: list[object] = []
        chart.refresh = lambda *regions, **more: drawn.append(regions)  # type: ignore[method-assign,assignment]
        texts = screen.query_one("#percentiles-text", Figures)
        texts.update = lambda *args, **more: drawn.append(args)  # type: ignore[method-assign]
        feed.moment = view()
        before = screen._ticks
        await settle(pilot, lambda: screen._ticks >= before + 4)
        assert drawn == []
        feed.moment = view(31)
        await settle(pilot, lambda: drawn)
        (regions,) = drawn[:1]
        assert isinstance(regions, tuple)
        assert sum(region.area for region in regions) < chart.size.area / 4, "only the cells that changed"


async def test_ascii_leaves_nothing_else(tmp_path: Path) -> None:
    feed = FakeFeed(tmp_path / "run", view())
    feed.log = "naïve 中文\n"
    async with live(feed, (120, 40), ascii_only=True) as (pilot, screen):
        await settle(pilot, lambda: screen.query_one(LogPane).lines)
        await settle(pilot, lambda: "*" in screen_text(pilot.app))
        shot = "".join(
            segment.text
            for filter_ in pilot.app.get_line_filters()[:1]
            for strip in screen._compositor.render_strips()
            for segment in filter_.apply(list(strip), screen.background_colors[1])
        )
        assert shot.isascii()
        assert "na?ve ????" in shot


async def test_resizing_at_any_moment(tmp_path: Path) -> None:
    async with live(FakeFeed(tmp_path / "run", view())) as (pilot, _):
        for width, height in ((200, 60), (20, 5), (300, 90), (1, 1), (80, 24), (120, 40)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
        await settle(pilot, lambda: "TTFT" in screen_text(pilot.app))
