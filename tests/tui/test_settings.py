"""settings.toml: keys, theme, columns; what is wrong is said and the rest counts."""

from __future__ import annotations

import pytest

from lmtui import paths
from lmtui.errors import LmtuiError
from lmtui.tui import keys, settings
from lmtui.tui.app import LmtuiApp
from lmtui.tui.screens.configs import ConfigsScreen
from lmtui.tui.screens.results import ResultsScreen
from tests.tui.driving import screen_text, settle


def test_without_a_file_nothing_is_set() -> None:
    assert settings.load() == settings.Settings()


def test_what_is_wrong_is_named_and_the_rest_counts() -> None:
    paths.settings().write_text(
        'theme = "textual-light"\ncolour = 1\n[results]\ncolumns = "name"\n'
        '[keymap]\n"configs.run" = "f9"\nconfigs.histroy = "f8"\n"live.stop" = 3\n"configs.new" = "e"\n'
    )
    held = settings.load()
    assert held.theme == "textual-light"
    assert held.keymap == {"configs.run": "f9", "configs.new": "e"}
    text = "\n".join(held.problems)
    for words in (
        "no setting colour",
        "results.columns",
        "did you mean configs.history?",
        "live.stop = 3",
        "e is both",
    ):
        assert words in text
    assert len(held.problems) == 5


def test_a_file_that_is_no_toml_is_left_alone() -> None:
    paths.settings().write_text("theme = [")
    (problem,) = settings.load().problems
    assert "settings.toml" in problem
    with pytest.raises(LmtuiError, match="not TOML"):
        settings.remember("theme", "nord")
    assert paths.settings().read_text() == "theme = ["


def test_remembering_keeps_comments_and_other_settings() -> None:
    paths.settings().write_text('# mine\n[keymap]\n"configs.run" = "f9"  # as I like it\n')
    settings.remember("results.columns", ["name", "phase"])
    settings.remember("theme", "nord")
    assert "# mine" in paths.settings().read_text()
    assert "# as I like it" in paths.settings().read_text()
    held = settings.load()
    assert (held.theme, held.columns, held.keymap) == ("nord", ("name", "phase"), {"configs.run": "f9"})
    settings.remember("results.columns", None)
    assert settings.load().columns == ()


async def test_own_keys_work_and_are_what_footer_and_help_say() -> None:
    paths.settings().write_text('[keymap]\n"configs.history" = "f9"\n"app.jmup" = "f2"\n')
    app = LmtuiApp()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot, lambda: "F9 history" in screen_text(app))
        words = " ".join(screen_text(app).replace("▌", " ").split())  # of a long path, it begins a line later
        assert "did you mean app.jump?" in words
        await pilot.press("h")
        assert isinstance(app.screen, ConfigsScreen)
        await pilot.press("f9")
        await settle(pilot, lambda: isinstance(app.screen, ResultsScreen))


async def test_a_theme_that_is_chosen_is_remembered() -> None:
    app = LmtuiApp()
    async with app.run_test() as pilot:
        app.theme = "nord"
        await settle(pilot, lambda: settings.load().theme == "nord")
    paths.settings().write_text('theme = "no-such"')
    app = LmtuiApp()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot, lambda: "no theme no-such" in screen_text(app))


async def test_jump_puts_a_letter_on_the_parts_and_goes_there() -> None:
    from lmtui.config import presets
    from lmtui.tui.screens.form import FormScreen

    app = LmtuiApp()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = FormScreen(presets.load("simulated"), "simulated", is_saved=False)
        await app.push_screen(screen)
        await settle(pilot, lambda: screen.focused)
        await pilot.press("ctrl+o")
        await settle(pilot, lambda: app.screen is not screen)
        await pilot.press("f")
        await settle(pilot, lambda: app.screen is screen and "› Dataset" in screen_text(app))


def test_keys_are_written_as_people_read_them() -> None:
    assert keys.written("ctrl+x,f9, shift+tab") == "^x F9 ⇧tab"
