"""Every screen starts in every terminal; the keys are told in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events
from textual.binding import Binding
from textual.screen import Screen

from lmtui import paths
from lmtui.config import presets
from lmtui.results import history
from lmtui.tui import keys
from lmtui.tui.app import LmtuiApp
from lmtui.tui.screens.compare import CompareScreen
from lmtui.tui.screens.configs import ConfigsScreen
from lmtui.tui.screens.details import DetailsScreen
from lmtui.tui.screens.form import FormScreen
from lmtui.tui.screens.help import HelpScreen
from lmtui.tui.screens.live import LiveScreen
from lmtui.tui.screens.plot import PlotScreen
from lmtui.tui.screens.results import ResultsScreen
from tests.tui.driving import FakeFeed, result, screen_text, settle, view

NEVER_BOUND = {"ctrl+i", "ctrl+m", "ctrl+j", "ctrl+h", "ctrl+left_square_bracket", "ctrl+a", "ctrl+b"}
PLACES: dict[str, type[Screen[None]]] = {
    "configs": ConfigsScreen,
    "form": FormScreen,
    "live": LiveScreen,
    "results": ResultsScreen,
    "details": DetailsScreen,
    "compare": CompareScreen,
    "plot": PlotScreen,
}

SIZES = [(80, 24), (120, 40), (200, 60)]
KINDS = ["normal", "no_color", "ascii", "ansi", "light"]
TERMINALS = [
    pytest.param(size, kind, marks=[] if size == (80, 24) or kind == "normal" else pytest.mark.slow)
    for size in SIZES
    for kind in KINDS
]


def _screens(folder: Path) -> dict[str, Callable[[], Screen[None]]]:
    history.append(paths.history(), result())
    history.append(paths.history(), result(run_id="20260102T000000Z-fake-000001", config={"load": {"concurrency": 8}}))
    rows = history.read(paths.history())
    row = rows[0]
    feed = FakeFeed(folder / "run", view())
    feed.log = "日本語のログ [b]\n"
    return {
        "configs": ConfigsScreen,
        "form": lambda: FormScreen(presets.load("lmdeploy-server"), "lmdeploy-server", is_saved=False),
        "live": lambda: LiveScreen(feed),
        "results": ResultsScreen,
        "details": lambda: DetailsScreen(row.text("run_id"), row),
        "compare": lambda: CompareScreen([row.text("run_id") for row in rows]),
        "plot": lambda: PlotScreen(rows),
        "help": lambda: HelpScreen("live"),
    }


@pytest.mark.parametrize(("size", "kind"), TERMINALS)
async def test_every_screen_starts(
    size: tuple[int, int], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "no_color":
        monkeypatch.setenv("NO_COLOR", "1")
    app = LmtuiApp(ascii_only=kind == "ascii")
    async with app.run_test(size=size) as pilot:
        if kind in ("ansi", "light"):
            app.theme = {"ansi": "ansi-dark", "light": "textual-light"}[kind]
        for name, make in _screens(tmp_path).items():
            screen = make()
            await app.push_screen(screen)
            await settle(pilot, lambda: "reading" not in screen_text(app))
            assert app.screen is screen
            lines = screen_text(app).split("\n")
            assert len(lines) == size[1], name
            if name != "help":
                assert "? keys" in lines[-1], name
                assert screen.focused is not None, name


@pytest.mark.parametrize(("place", "screen"), PLACES.items())
def test_every_key_of_a_screen_does_something(place: str, screen: type[Screen[None]]) -> None:
    assert keys.bindings(place) == screen.BINDINGS
    for key in keys.of(place):
        assert hasattr(screen, f"action_{key.action.partition('(')[0]}"), key


def test_keys_are_told_apart_and_never_those_that_terminals_take() -> None:
    ids = [binding.id for place in keys.PLACES for binding in keys.bindings(place) if isinstance(binding, Binding)]
    assert len(ids) == len(set(ids))
    for place in set(keys.PLACES) - {"app"}:
        bound = [one for key in (*keys.of(place), *keys.of("app")) for one in key.keys.split(",")]
        assert len(bound) == len(set(bound)), place
        assert not NEVER_BOUND & set(bound)
        for key in keys.of(place):
            assert "escape" not in key.keys or place == "configs" or len(key.keys.split(",")) > 1 or not key.is_shown
    table = keys.markdown_table()
    assert all(key.tooltip in table for key in keys.KEYS)


async def test_question_mark_shows_the_keys_of_the_screen() -> None:
    app = LmtuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, ConfigsScreen))
        await pilot.press("question_mark")
        await settle(pilot, lambda: "Make a config from a preset" in screen_text(app))
        await pilot.press("q")
        await settle(pilot, lambda: isinstance(app.screen, ConfigsScreen))
        await pilot.press("f1")
        await settle(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_the_palette_has_the_actions_of_the_screen() -> None:
    app = LmtuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: isinstance(app.screen, ConfigsScreen))
        await pilot.press("ctrl+p")
        await pilot.press(*"history")
        await settle(pilot, lambda: "History (h)" in screen_text(app))
        await pilot.press("enter", "enter")
        await settle(pilot, lambda: isinstance(app.screen, ResultsScreen))


def typed(app: LmtuiApp, *keys: str) -> None:
    """Let keys arrive in one packet."""
    for key in keys:
        app.post_message(events.Key(key, "/" if key == "slash" else key if len(key) == 1 else None))


async def test_keys_that_come_at_once_do_what_they_do_one_by_one() -> None:
    app = LmtuiApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "quickstart" in screen_text(app))
        typed(app, "slash", *"simulated", "enter", "e")
        await settle(pilot, lambda: "simulated › Target" in screen_text(app))
        typed(app, "slash", *"num_prompts", "enter", *"4000", "enter", "escape", "f6")
        await settle(pilot, lambda: "load.num_prompts=4000" in screen_text(app))


async def test_a_key_that_closes_a_screen_does_not_hold_up_the_next() -> None:
    app = LmtuiApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: "quickstart" in screen_text(app))
        typed(app, "h")
        await settle(pilot, lambda: isinstance(app.screen, ResultsScreen))
        typed(app, "q", "f1")
        await settle(pilot, lambda: isinstance(app.screen, HelpScreen))
        typed(app, "q", "h")
        await settle(pilot, lambda: isinstance(app.screen, ResultsScreen))
