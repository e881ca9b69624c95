"""The form by its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from lmtui.config import presets, store
from lmtui.config.model import Config
from lmtui.runner import spawn
from lmtui.tui.app import LmtuiApp
from lmtui.tui.screens.form import FormScreen
from lmtui.tui.widgets.path_suggester import completed
from tests.tui.driving import screen_text, settle


@asynccontextmanager
async def form(
    preset: str = "simulated", size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Pilot[None], FormScreen]]:
    app = LmtuiApp()
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = FormScreen(presets.load(preset), preset, is_saved=False)
        await app.push_screen(screen)
        await settle(pilot, lambda: screen.is_current)
        yield pilot, screen


async def go_to(pilot: Pilot[None], words: str) -> None:
    """Put the cursor on the only field with these words."""
    await pilot.press("slash", *words, "enter")
    await pilot.pause()


async def test_a_value_is_edited_in_place(tmp_path: Path) -> None:
    async with form() as (pilot, screen):
        await go_to(pilot, "concurr")
        await pilot.press("9", "6", "enter")
        assert screen._draft.document.get("load.concurrency") == 96
        assert "96" in screen_text(pilot.app)
        await pilot.press("enter", "backspace", "escape")
        assert screen._draft.document.get("load.concurrency") == 96, "esc reverts"
        await pilot.press("u")
        assert screen._draft.document.get("load.concurrency") is None


async def test_letters_are_text_inside_an_edit_and_commands_outside() -> None:
    async with form() as (pilot, screen):
        await go_to(pilot, "notes")
        await pilot.press("enter", "ctrl+u", *"cut", "enter")
        assert screen._draft.document.get("notes") == "cut"
        await pilot.press("u")
        assert screen._draft.document.get("notes") is None


async def test_choices_turn_and_long_ones_open_a_list() -> None:
    async with form() as (pilot, screen):
        await go_to(pilot, "load.mode")
        await pilot.press("space")
        assert screen._draft.document.get("load.mode") == "open"
        await pilot.press("left", "left")
        assert screen._draft.document.get("load.mode") == "trace"
        await pilot.press("enter")
        await settle(pilot, lambda: pilot.app.screen is not screen)
        await pilot.press(*"clo", "enter")
        await settle(pilot, lambda: pilot.app.screen is screen)
        assert screen._draft.document.get("load.mode") == "closed"


async def test_tab_goes_through_the_sections() -> None:
    async with form() as (pilot, screen):
        seen = [screen._section]
        for _ in screen._draft.sections():
            await pilot.press("tab")
            seen.append(screen._section)
        assert seen[0] == seen[-1]
        assert set(seen) == {row.section for row in screen._draft.sections()}
        await pilot.press("shift+tab")
        assert screen._section == seen[-2]


async def test_a_wrong_value_stays_and_is_saved_and_f5_goes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Config] = []
    monkeypatch.setattr(spawn, "start", lambda config, notes=(): started.append(config))
    async with form() as (pilot, screen):
        await go_to(pilot, "concurr")
        await pilot.press("0", "enter")
        assert "must be at least 1" in screen_text(pilot.app)
        await pilot.press("ctrl+s")
        assert store.load("simulated").get("load.concurrency") == 0
        await pilot.press("tab", "tab", "tab", "f5")
        await settle(pilot, lambda: screen._fields.current and screen._fields.current.key == "load.concurrency")
        assert not started


async def test_f5_saves_what_was_edited_and_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Config] = []

    def start(config: Config, notes: object = ()) -> None:
        started.append(config)
        from lmtui.errors import LmtuiError

        raise LmtuiError("no run in this test")

    monkeypatch.setattr(spawn, "start", start)
    async with form() as (pilot, _):
        await go_to(pilot, "concurr")
        await pilot.press("7", "f5")
        await settle(pilot, lambda: started)
        assert started[0].load.concurrency == 7, "an edit that is open counts"
        assert store.load("simulated").get("load.concurrency") == 7
        await settle(pilot, lambda: "no run in this test" in screen_text(pilot.app))


async def test_f6_shows_the_command_line() -> None:
    async with form(size=(120, 40)) as (pilot, _):
        await go_to(pilot, "concurr")
        await pilot.press("7", "enter", "f6")
        await settle(pilot, lambda: "lmtui run simulated --set load.concurrency=7" in screen_text(pilot.app))


async def test_leaving_asks_only_when_something_would_be_lost() -> None:
    async with form() as (pilot, screen):
        await pilot.press("escape")
        await settle(pilot, lambda: not screen.is_attached)
    async with form() as (pilot, screen):
        await go_to(pilot, "concurr")
        await pilot.press("7", "enter", "escape")
        await settle(pilot, lambda: not screen._words)
        await pilot.press("escape")
        await settle(pilot, lambda: "is not saved" in screen_text(pilot.app))
        await pilot.press("escape")
        await settle(pilot, lambda: screen.is_current)
        await pilot.press("q")
        await settle(pilot, lambda: "is not saved" in screen_text(pilot.app))
        await pilot.press("s")
        await settle(pilot, lambda: not screen.is_attached)
        assert store.load("simulated").get("load.concurrency") == 7


def test_paths_are_completed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data.json").touch()
    (tmp_path / ".hidden").touch()
    assert completed(f"{tmp_path}/da") == f"{tmp_path}/data/"
    assert completed(f"{tmp_path}/data.") == f"{tmp_path}/data.json"
    assert completed(f"{tmp_path}/none") is None
    assert completed("Qwen") is None
    assert completed("/no/such/place/") is None
