"""The results' actions on rows: marks, compare, plot, columns, tags, trash and undo, export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from lmtui import paths
from lmtui.results import history, remarks
from lmtui.results.export import Exported
from lmtui.results.rows import Row
from lmtui.runner import kept
from lmtui.tui import plotting, settings
from lmtui.tui.app import LmtuiApp
from lmtui.tui.screens.compare import CompareScreen
from lmtui.tui.screens.plot import PlotScreen
from lmtui.tui.screens.results import ResultsScreen
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.table import Table
from tests.tui.driving import result, screen_text, settle


@pytest.fixture(autouse=True)
def three_runs(home: Path) -> None:
    base = result()
    for number, throughput in ((1, 100.0), (2, 200.0), (3, 400.0)):
        metrics = msgspec.structs.replace(base.metrics, output_throughput=throughput)
        config = {"name": "fake", "load": {"concurrency": 8 * number}}
        history.append(
            paths.history(),
            result(
                run_id=f"2026010{number}T000000Z-run{number}-{number:06}", name=f"run{number}",
                started_at=f"2026-01-0{number}T00:00:00Z", metrics=metrics, config=config,
            ),
        )  # fmt: skip


@asynccontextmanager
async def results(size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[Pilot[None], ResultsScreen]]:
    app = LmtuiApp()
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = ResultsScreen()
        await app.push_screen(screen)
        await settle(pilot, lambda: "3 runs" in screen_text(app))
        yield pilot, screen


def names(screen: ResultsScreen) -> list[str]:
    return [row.text("name") for row in screen.query_one("#history", Table).rows]


async def test_two_marked_runs_are_compared_with_the_first_that_was_marked() -> None:
    async with results() as (pilot, screen):
        await pilot.press("c")
        await settle(pilot, lambda: "Mark two runs" in screen_text(pilot.app))
        await pilot.press("down", "space", "home", "space")
        assert "2 marked" in screen_text(pilot.app)
        await pilot.press("c")
        await settle(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await settle(pilot, lambda: "+100.0%" in screen_text(pilot.app))
        assert "A  20260102T000000Z" in screen_text(pilot.app)
        await pilot.press("c", "q")
        await settle(pilot, lambda: screen.is_current)
        assert "+100.0%" in (paths.cache() / "copied" / "compare.txt").read_text()
        await pilot.press("escape")
        await settle(pilot, lambda: "marked" not in screen.query_one("#results-title", Figures).text)


async def test_the_trash_hides_and_z_takes_back_while_the_history_keeps_every_row() -> None:
    before = paths.history().read_bytes()
    async with results() as (pilot, screen):
        await pilot.press("x")
        await settle(pilot, lambda: names(screen) == ["run2", "run1"])
        await pilot.press("space", "space", "x")
        await settle(pilot, lambda: "3 in the trash" in screen_text(pilot.app))
        await pilot.press("z")
        await settle(pilot, lambda: names(screen) == ["run2", "run1"])
        assert "marked" not in screen.query_one("#results-title", Figures).text
    async with results_of(2) as (pilot, screen):  # also in a later session
        await pilot.press("z")
        await settle(pilot, lambda: names(screen) == ["run3", "run2", "run1"])
        await pilot.press("z")
        await settle(pilot, lambda: "The trash is empty" in screen_text(pilot.app))
    assert paths.history().read_bytes() == before


@asynccontextmanager
async def results_of(rows: int) -> AsyncIterator[tuple[Pilot[None], ResultsScreen]]:
    app = LmtuiApp()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = ResultsScreen()
        await app.push_screen(screen)
        await settle(pilot, lambda: len(names(screen)) == rows)
        yield pilot, screen


async def test_tags_and_a_note_are_kept_shown_and_found() -> None:
    async with results((200, 60)) as (pilot, screen):
        await pilot.press("T", *"good,base", "tab", *"why not", "enter")
        await settle(pilot, lambda: "good base" in screen_text(pilot.app) and "why not" in screen_text(pilot.app))
        (added,) = remarks.read(paths.history()).values()
        assert added == remarks.Remark(tags=("good", "base"), note="why not")
        await pilot.press("slash", *"tag:base", "enter")
        await settle(pilot, lambda: names(screen) == ["run3"])


async def test_chosen_columns_are_remembered_and_the_usual_ones_come_back() -> None:
    async with results() as (pilot, screen):
        await pilot.press("C")
        await settle(pilot, lambda: "Which columns?" in screen_text(pilot.app))
        await pilot.press(*"load.conc", "space", "enter")
        await settle(pilot, lambda: "ttft_ms.p50" in settings.load().columns)
        assert "load.concurrency" not in settings.load().columns
    async with results() as (pilot, screen):
        await pilot.press("C", "ctrl+r", "enter")
        await settle(pilot, lambda: settings.load().columns == () and screen.is_current)


async def test_a_plot_has_the_columns_that_are_chosen() -> None:
    async with results() as (pilot, screen):
        await pilot.press("p")
        await settle(pilot, lambda: isinstance(pilot.app.screen, PlotScreen))
        await settle(pilot, lambda: "tok/s against Conc" in screen_text(pilot.app))
        assert sum(line.count("●") for line in screen_text(pilot.app).split("\n")) >= 3
        await pilot.press("y", *"ttft_ms.p99", "enter")
        await settle(pilot, lambda: "TTFT99 against Conc" in screen_text(pilot.app))
        await pilot.press("b", *"name", "enter", "l", "L")
        await settle(pilot, lambda: "lines by Name" in screen_text(pilot.app) and "◆ run3" in screen_text(pilot.app))
        await pilot.press("q")
        await settle(pilot, lambda: screen.is_current)


async def test_export_says_why_not_and_where(tmp_path: Path) -> None:
    async with results() as (pilot, screen):
        await pilot.press("e")
        await settle(pilot, lambda: "Write to which file?" in screen_text(pilot.app))
        await pilot.press("ctrl+u", *f"{tmp_path}/a.txt", "enter")
        await settle(pilot, lambda: "ending: give a name" in screen_text(pilot.app))
        await pilot.press("backspace", "backspace", "backspace", *"md", "enter")
        await settle(pilot, lambda: screen.is_current)
        await settle(pilot, lambda: any("there is no run" in note.message for note in pilot.app._notifications))
        assert not (tmp_path / "a.md").exists(), "a row whose run is not here has nothing to export"


async def test_marked_runs_go_into_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def to_export(name: str) -> Exported:
        asked.append(name)
        return Exported(result(run_id=name), None, {})

    monkeypatch.setattr(kept, "to_export", to_export)
    async with results() as (pilot, screen):
        await pilot.press("down", "space", "home", "space", "e")
        await settle(pilot, lambda: "2-runs.md" in screen_text(pilot.app))
        await pilot.press("ctrl+u", *f"{tmp_path}/both.md", "enter")
        await settle(pilot, lambda: "both.md: 2 runs" in screen_text(pilot.app))
        assert screen.is_current
    assert [name.split("-")[1] for name in asked] == ["run2", "run3"]
    text = (tmp_path / "both.md").read_text()
    assert all(name in text for name in asked)


def rows(*cells: tuple[str, str, str]) -> list[Row]:
    at = {"name": 0, "load.rate": 1, "output_throughput": 2}
    return [Row(at, one) for one in cells]


def test_points_are_grouped_ordered_and_what_is_missing_is_counted() -> None:
    held = rows(("b", "4", "40"), ("a", "2", "20"), ("b", "1", "10"), ("a", "", "5"), ("a", "inf", "9"))
    found = plotting.plot(held, "load.rate", "output_throughput", "name")
    assert [one.label for one in found.series] == ["a", "b"]
    assert found.series[1].x.tolist() == [1, 4]
    assert found.left_out == 2
    assert plotting.first_choice(held)[:2] == ("load.rate", "ttft_ms.p99")


def test_more_lines_than_can_be_told_apart_are_counted() -> None:
    held = rows(*((str(i), str(i), str(i)) for i in range(9)))
    found = plotting.plot(held, "load.rate", "output_throughput", "name")
    assert len(found.series) + found.undrawn == 9
    assert found.undrawn
