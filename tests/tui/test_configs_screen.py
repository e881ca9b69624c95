"""The start screen by its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from lmtui import paths
from lmtui.config import presets, store
from lmtui.config.model import Config
from lmtui.errors import LmtuiError
from lmtui.results import history
from lmtui.runner import runs, spawn
from lmtui.runner.rundir import Counts, RunDirectory, Status
from lmtui.tui.app import LmtuiApp
from lmtui.tui.catalog import Entry
from lmtui.tui.screens.configs import ConfigsScreen
from lmtui.tui.screens.form import FormScreen
from lmtui.tui.screens.live import LiveScreen
from lmtui.tui.screens.results import ResultsScreen
from lmtui.tui.widgets.table import Table
from tests.tui.driving import result, screen_text, settle, status


@asynccontextmanager
async def configs(size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Pilot[None], ConfigsScreen]]:
    app = LmtuiApp()
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, ConfigsScreen) and table(app.screen).rows)
        assert isinstance(app.screen, ConfigsScreen)
        yield pilot, app.screen


def table(screen: ConfigsScreen) -> Table[Entry]:
    return screen.query_one("#configs", Table)


def current(screen: ConfigsScreen) -> str:
    entry = table(screen).current
    return entry.name if entry is not None else ""


def live_run(name: str = "busy") -> tuple[RunDirectory, Status]:
    """Make a directory of a run that seems to be live."""
    document = presets.load("simulated")
    document.set("name", name)
    config = document.check().config
    assert config is not None
    run = RunDirectory.create(config)
    state = status(run_id=run.run_id, name=name, counts=Counts(planned=100, done=45))
    run.write_status(state)
    return run, state


async def test_the_first_screen_of_all_says_what_to_press() -> None:
    async with configs() as (pilot, screen):
        text = screen_text(pilot.app)
        assert "Welcome" in text
        assert all(name in text for name in presets.names())
        assert current(screen) == "quickstart"


async def test_a_new_config_is_made_from_a_preset() -> None:
    async with configs() as (pilot, screen):
        await pilot.press("n")
        await settle(pilot, lambda: "Start from which preset" in screen_text(pilot.app))
        await pilot.press(*"simul", "enter")
        await settle(pilot, lambda: "Name of the new config" in screen_text(pilot.app))
        await pilot.press("ctrl+u", *"mine", "enter")
        await settle(pilot, lambda: isinstance(pilot.app.screen, FormScreen))
        assert store.load("mine").get("name") == "mine"
        await pilot.press("escape")
        await settle(pilot, lambda: "mine" in screen_text(pilot.app) and screen.is_current)


async def test_a_copy_and_the_trash() -> None:
    store.save("mine", presets.load("simulated"))
    async with configs() as (pilot, screen):
        assert current(screen) == "mine"
        await pilot.press("d")
        await settle(pilot, lambda: "Name of the copy" in screen_text(pilot.app))
        await pilot.press("enter")
        await settle(pilot, lambda: current(screen) == "mine-2")
        assert store.names() == ["mine", "mine-2"]
        await pilot.press("x")
        await settle(pilot, lambda: "to the trash" in screen_text(pilot.app))
        await pilot.press("escape")
        await settle(pilot, lambda: screen.is_current)
        assert store.names() == ["mine", "mine-2"]
        await pilot.press("x")
        await settle(pilot, lambda: "to the trash" in screen_text(pilot.app))
        await pilot.press("y")
        await settle(pilot, lambda: store.names() == ["mine"])
        assert len(list(paths.trash().iterdir())) == 1


async def test_the_filter_narrows_and_esc_takes_it_away() -> None:
    async with configs() as (pilot, screen):
        await pilot.press("slash", *"server", "enter")
        await settle(pilot, lambda: all("server" in e.words for e in table(screen).rows))
        assert 0 < len(table(screen).rows) < len(presets.names())
        await pilot.press("escape")
        await settle(pilot, lambda: len(table(screen).rows) == len(presets.names()))


async def test_live_runs_stand_on_top_and_a_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run, state = live_run()
    monkeypatch.setattr(runs, "current", lambda _: state)
    async with configs() as (pilot, screen):
        await settle(pilot, lambda: table(screen).rows[0].source == "live")
        assert "running 45/100" in screen_text(pilot.app)
        await pilot.press("end", "a")
        await settle(pilot, lambda: isinstance(pilot.app.screen, LiveScreen))
        assert isinstance(pilot.app, LmtuiApp)
        assert pilot.app.last_run is not None
        assert pilot.app.last_run.run_id == run.run_id
        await pilot.press("d")
        await settle(pilot, lambda: screen.is_current)


async def test_r_starts_the_config_under_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Config] = []

    def start(config: Config, notes: object = ()) -> RunDirectory:
        started.append(config)
        return live_run()[0]

    monkeypatch.setattr(spawn, "start", start)
    monkeypatch.setattr(runs, "current", lambda run: run.status())
    async with configs() as (pilot, screen):
        await pilot.press("end")
        await settle(pilot, lambda: current(screen) == "simulated")
        await pilot.press("r")
        await settle(pilot, lambda: isinstance(pilot.app.screen, LiveScreen))
        assert [config.name for config in started] == ["simulated"]


async def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(config: Config, notes: object = ()) -> RunDirectory:
        raise LmtuiError("the run process did not start [sic]")

    monkeypatch.setattr(spawn, "start", start)
    async with configs() as (pilot, screen):
        await pilot.press("end", "r")
        await settle(pilot, lambda: "the run process did not start [sic]" in screen_text(pilot.app))
        assert screen.is_current


async def test_a_config_with_errors_opens_its_form_instead_of_running() -> None:
    document = presets.load("simulated")
    document.set("load.concurrency", 0)
    store.save("broken", document)
    async with configs() as (pilot, _):
        assert "errors" in screen_text(pilot.app)
        await pilot.press("r")
        await settle(pilot, lambda: isinstance(pilot.app.screen, FormScreen))


async def test_a_file_that_is_not_toml_is_listed_with_its_problem() -> None:
    (paths.configs() / "torn.toml").write_text("= 1 [")
    async with configs() as (pilot, screen):
        await settle(pilot, lambda: current(screen) == "torn" and "not TOML" in screen_text(pilot.app))
        await pilot.press("enter")
        await settle(pilot, lambda: screen.is_current)


async def test_h_shows_the_history_and_the_last_result_is_listed() -> None:
    history.append(paths.history(), result(name="simulated"))
    async with configs(size=(120, 40)) as (pilot, screen):
        await settle(pilot, lambda: "4.01k" in screen_text(pilot.app))
        await pilot.press("h")
        await settle(pilot, lambda: isinstance(pilot.app.screen, ResultsScreen))
        await pilot.press("q")
        await settle(pilot, lambda: screen.is_current)


@pytest.mark.parametrize(("key", "stopped"), [("l", []), ("s", [False]), ("b", [True])])
async def test_quitting_asks_what_becomes_of_a_run_started_here(
    key: str, stopped: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, state = live_run()
    stops: list[bool] = []
    monkeypatch.setattr(runs, "current", lambda _: state)
    monkeypatch.setattr(runs, "stop", lambda run, abort=False: stops.append(abort))
    async with configs() as (pilot, screen):
        assert isinstance(pilot.app, LmtuiApp)
        pilot.app._started.append(run)
        await pilot.press("ctrl+c")
        await settle(pilot, lambda: "What becomes of it" in screen_text(pilot.app))
        await pilot.press("escape")
        await settle(pilot, lambda: screen.is_current)
        await pilot.press("ctrl+q")
        await settle(pilot, lambda: "What becomes of it" in screen_text(pilot.app))
        await pilot.press(key)
        await settle(pilot, lambda: pilot.app._exit)
    assert stops == stopped


async def test_quitting_without_a_live_run_asks_nothing() -> None:
    async with configs() as (pilot, _):
        await pilot.press("ctrl+q")
        await settle(pilot, lambda: pilot.app._exit)
