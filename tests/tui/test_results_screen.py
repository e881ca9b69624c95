"""The history: filter, order, details; many rows cost no more than few."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from textual.pilot import Pilot

from lmtui import paths
from lmtui.results import history
from lmtui.results.row_filter import RunFilter
from lmtui.results.rows import Row
from lmtui.tui.app import LmtuiApp
from lmtui.tui.result_columns import USUAL as COLUMN_NAMES
from lmtui.tui.screens.details import DetailsScreen
from lmtui.tui.screens.results import ResultsScreen
from lmtui.tui.widgets.table import Table
from tests.tui.driving import result, screen_text, settle


def made(number: int, throughput: float | None, **more: object) -> None:
    base = result()
    metrics = msgspec.structs.replace(base.metrics, output_throughput=throughput)
    history.append(
        paths.history(),
        result(
            run_id=f"2026010{number}T000000Z-run-{number:06}",
            name=f"run{number}",
            started_at=f"2026-01-0{number}T00:00:00Z",
            metrics=metrics,
            **more,
        ),
    )


@asynccontextmanager
async def results(size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Pilot[None], ResultsScreen]]:
    app = LmtuiApp()
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = ResultsScreen()
        await app.push_screen(screen)
        await settle(pilot, lambda: "reading" not in screen_text(app) and screen.is_current)
        yield pilot, screen


def names(screen: ResultsScreen) -> list[str]:
    return [row.text("name") for row in screen.query_one("#history", Table).rows]


async def test_the_newest_is_first_and_columns_sort() -> None:
    made(1, 300.0)
    made(2, None)
    made(3, 1000.0)
    async with results() as (pilot, screen):
        assert names(screen) == ["run3", "run2", "run1"]
        for _ in range(COLUMN_NAMES.index("output_throughput") - COLUMN_NAMES.index("started_at")):
            await pilot.press("greater_than_sign")
        assert names(screen) == ["run3", "run1", "run2"], "largest first, as numbers; missing last"
        assert "tok/s▼" in screen_text(pilot.app)
        await pilot.press("o")
        assert names(screen) == ["run1", "run3", "run2"], "missing stays last"
        await pilot.press("less_than_sign")
        assert "Target▲" in screen_text(pilot.app)


async def test_filter_and_back() -> None:
    made(1, 300.0, target={"kind": "pytorch"})
    made(2, 500.0)
    async with results() as (pilot, screen):
        await pilot.press("slash", *"backend:pytorch")
        await settle(pilot, lambda: names(screen) == ["run1"])
        await pilot.press("enter", "escape")
        await settle(pilot, lambda: len(names(screen)) == 2)
        await pilot.press("slash", *"nonsense<3", "enter")
        await settle(pilot, lambda: "no column nonsense" in screen_text(pilot.app))
        await pilot.press("escape", "escape")
        await settle(pilot, lambda: not screen.is_attached)


async def test_details_come_from_the_row_when_the_run_is_not_here() -> None:
    made(1, 300.0)
    async with results(size=(120, 40)) as (pilot, screen):
        await pilot.press("enter")
        await settle(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))
        await settle(pilot, lambda: "output_throughput" in screen_text(pilot.app))
        await pilot.press("r")
        await settle(pilot, lambda: "20260101T000000Z-run-000001" in screen_text(pilot.app))
        await pilot.press("q")
        await settle(pilot, lambda: screen.is_current)


async def test_an_empty_history_says_what_to_do() -> None:
    async with results() as (pilot, _):
        await settle(pilot, lambda: "no run has finished yet" in screen_text(pilot.app))
        await pilot.press("enter", "r", "v", "o", "greater_than_sign")


async def test_a_file_that_is_no_history_is_said_so() -> None:
    paths.history().write_text("a,b\n1,2\n")
    async with results() as (pilot, _):
        await settle(pilot, lambda: any("not a history of lmtui" in note.message for note in pilot.app._notifications))


async def test_every_column_can_be_reached_at_80_cells() -> None:
    made(1, 300.0)
    async with results() as (pilot, _):
        for _ in COLUMN_NAMES:
            await pilot.press("right")
        await settle(pilot, lambda: "20260101T000000Z-run-000001" in screen_text(pilot.app))
        assert "run1" in screen_text(pilot.app), "the name stays"
        for _ in COLUMN_NAMES:
            await pilot.press("left")
        await settle(pilot, lambda: "tok/s" in screen_text(pilot.app))


async def test_only_what_is_seen_is_formatted() -> None:
    at = {"run_id": 0, "name": 1}
    rows = [Row(at, (str(i), f"name{i}")) for i in range(10_000)]
    async with results() as (pilot, screen):
        table: Table[Row] = screen.query_one("#history", Table)
        formatted: list[int] = []
        row = table.row
        table.row = lambda index, width: formatted.append(index) or row(index, width)  # type: ignore[method-assign,func-returns-value]
        table.show(rows)
        await pilot.pause()
        await pilot.press("end")
        await settle(pilot, lambda: 9_999 in formatted)
        assert len(set(formatted)) < 100
        assert "name9999" in screen_text(pilot.app)


COLUMNS = {
    "run_id": "a-1",
    "name": "base line",
    "target.kind": "pytorch",
    "target.model": "Qwen/Qwen2.5",
    "load.rate": "inf",
    "load.concurrency": "64",
    "ttft_ms.p50": "150.5",
    "ttft_ms.p99": "400",
    "grade": "good",
    "phase": "done",
    "goodput": "",
}


@pytest.mark.parametrize(
    ("words", "is_found"),
    [
        ("", True),
        ("base", True),
        ("BASE qwen", True),
        ("other", False),
        ("backend:pytorch", True),
        ("backend:turbomind", False),
        ("ttft<200", True),
        ("ttft<100", False),
        ("ttft.p99>=400", True),
        ("ttft_ms.p99>400", False),
        ("rate>=4", True),
        ("concurrency=64", True),
        ("concurrency!=64", False),
        ("grade=good", True),
        ("grade!=good", False),
        ("ttft<abc", False),
        ("goodput>0", False),
        ("base ttft<200 backend:py", True),
    ],
)
def test_filter_terms(words: str, is_found: bool) -> None:
    row = Row({column: i for i, column in enumerate(COLUMNS)}, list(COLUMNS.values()))
    found = RunFilter([row], COLUMNS).find(words)
    assert (found.rows == [0]) is is_found
    assert not found.problem


def test_a_term_about_no_column_filters_nothing_and_says_so() -> None:
    row = Row({column: i for i, column in enumerate(COLUMNS)}, list(COLUMNS.values()))
    found = RunFilter([row], COLUMNS).find("foo>3 base")
    assert found.rows == [0]
    assert "foo" in found.problem


@pytest.mark.parametrize("size", [(20, 5), (30, 8), (3, 3)])
async def test_sorting_by_any_column_ends_also_where_it_does_not_fit(size: tuple[int, int]) -> None:
    made(1, 300.0)
    async with results(size=size) as (pilot, screen):
        for _ in range(len(COLUMN_NAMES) + 1):
            screen.action_sort_right()
        for _ in range(len(COLUMN_NAMES) + 1):
            screen.action_sort_left()
        await pilot.pause()
        assert names(screen) == ["run1"]
