"""The application: opens screens and starts runs at their request. It wires; it computes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import WorkerFailed

from lmtui.errors import LmtuiError
from lmtui.tui import clipboard, keys, messages, settings, terminal
from lmtui.tui.ascii_filter import AsciiFilter, AsciiScrollBar
from lmtui.tui.screens.configs import ConfigsScreen
from lmtui.tui.screens.dialogs import Answer, Ask
from lmtui.tui.screens.help import HelpScreen
from lmtui.tui.screens.jump import JumpScreen
from lmtui.tui.typed_ahead import ACTIONS, OrderedKeysApp

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.runner.rundir import RunDirectory

TERMINAL_CHECK_S = 2.0


class LmtuiApp(OrderedKeysApp):
    """Configs, form, live, results, details: one stack of screens above the configs."""

    TITLE = "lmtui"
    CSS_PATH = "lmtui.tcss"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings("app")
    ENABLE_COMMAND_PALETTE = True
    ESCAPE_TO_MINIMIZE = False
    COMMAND_PALETTE_BINDING = "ctrl+p"

    def __init__(self, attach: str | None = None, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (160, "-very-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]
        self._attached_run = attach
        self.ascii_only = ascii_only
        self.last_run: RunDirectory | None = None
        """The run that was started or watched last."""
        self._started: list[RunDirectory] = []
        self.settings = settings.load()
        self.own_keys: Mapping[str, str] = self.settings.keymap
        """Id of a binding → the keys that the user gave it."""

    def get_line_filters(self) -> Sequence[object]:  # type: ignore[override]
        """Add the one that leaves nothing but ASCII, when that is asked for."""
        filters = list(super().get_line_filters())
        return [AsciiFilter(), *filters] if self.ascii_only else filters

    def on_mount(self) -> None:
        """Open the first screen."""
        if self.ascii_only:
            self.add_class("-ascii")
            AsciiScrollBar.install()
        self._take_settings()
        self.push_screen(ConfigsScreen())
        if not self.is_headless:
            self.set_interval(TERMINAL_CHECK_S, terminal.leave_when_lost)
        if self._attached_run is not None:
            self._replay(self._attached_run)

    def _take_settings(self) -> None:
        problems = list(self.settings.problems)
        self.set_keymap(dict(self.own_keys))
        if (theme := self.settings.theme) is not None:
            if theme in self.available_themes:
                self.theme = theme
            else:
                problems.append(
                    f"settings.toml: no theme {theme}; there are {', '.join(sorted(self.available_themes))}"
                )
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        for problem in problems:
            self.notify(problem, severity="warning", markup=False, timeout=10)

    def _keep_theme(self, theme: Theme) -> None:
        if theme.name != self.settings.theme:
            try:
                settings.remember("theme", theme.name)
            except LmtuiError as error:
                self.say(error)

    def _fatal_error(self) -> None:
        """End at a bug. `run` raises it again once the terminal is usable; nothing is printed over the screen."""
        self._close_messages_no_wait()

    @property
    def bug(self) -> BaseException | None:
        """The bug that ended the application, as it was raised."""
        error = self._exception
        return error.error if isinstance(error, WorkerFailed) else error

    def say(self, error: LmtuiError | str, *, title: str = "") -> None:
        """Show a sentence to the user; it is never read as markup."""
        self.notify(
            str(error),
            title=title,
            severity="error" if isinstance(error, LmtuiError) else "information",
            markup=False,
            timeout=8,
        )

    # What screens ask for

    @on(messages.FormWanted)
    def _open_form(self, message: messages.FormWanted) -> None:
        from lmtui.tui.screens.form import FormScreen

        self.push_screen(FormScreen(message.document, message.made_from, is_saved=message.is_saved))

    @on(messages.HistoryWanted)
    def _open_results(self) -> None:
        from lmtui.tui.screens.results import ResultsScreen

        self.push_screen(ResultsScreen())

    @on(messages.DetailsWanted)
    def _open_details(self, message: messages.DetailsWanted) -> None:
        from lmtui.tui.screens.details import DetailsScreen

        self.push_screen(DetailsScreen(message.run_id, message.row))

    @on(messages.CompareWanted)
    def _open_compare(self, message: messages.CompareWanted) -> None:
        from lmtui.tui.screens.compare import CompareScreen

        self.push_screen(CompareScreen(message.run_ids))

    @on(messages.PlotWanted)
    def _open_plot(self, message: messages.PlotWanted) -> None:
        from lmtui.tui.screens.plot import PlotScreen

        self.push_screen(PlotScreen(message.rows))

    @on(messages.WatchWanted)
    def _open_live(self, message: messages.WatchWanted) -> None:
        self.watch_run(message.run)

    @on(messages.ReplayWanted)
    def _on_replay(self, message: messages.ReplayWanted) -> None:
        self._replay(message.run_id)

    @on(messages.RunWanted)
    def _on_run(self, message: messages.RunWanted) -> None:
        self._start(message.config, message.notes)

    @on(messages.AgainWanted)
    def _on_again(self, message: messages.AgainWanted) -> None:
        self._again(message.run_id)

    @on(messages.CopyWanted)
    def _on_copy(self, message: messages.CopyWanted) -> None:
        self.copy_to_clipboard(message.text)
        file = clipboard.write(message.text, message.file_name)
        self.say(f"Copied. Also in {file}" + clipboard.hint(), title="Copied")

    def watch_run(self, run: RunDirectory) -> None:
        """Show a run in the live screen."""
        from lmtui.tui.feed import Feed
        from lmtui.tui.screens.live import LiveScreen

        self.last_run = run
        if isinstance(self.screen, LiveScreen):
            self.pop_screen()
        self.push_screen(LiveScreen(Feed(run)))

    def take_run(self, run: RunDirectory, instead_of: RunDirectory | None = None) -> None:
        """Show a run that was started here; one that comes `instead_of` another only where that one is watched."""
        self._started.append(run)
        if instead_of is None:
            self.clear_notifications()
        if instead_of is None or self._watches(instead_of):
            self.watch_run(run)
        else:
            self.say(f"{run.run_id} has started: a in the configs shows it")

    def compare_runs(self, run_ids: Sequence[str]) -> None:
        """Show runs side by side to who watches the last of them; tell others where to find them."""
        if self._watches(run_ids[-1]):
            self._open_compare(messages.CompareWanted(tuple(run_ids)))
        else:
            self.say(f"{' and '.join(run_ids)} are over: mark both in the results, and c compares them")

    def _watches(self, run: RunDirectory | str) -> bool:
        from lmtui.tui.screens.live import LiveScreen

        run_id = run if isinstance(run, str) else run.run_id
        return isinstance(self.screen, LiveScreen) and self.screen.run.run_id == run_id

    @work(exclusive=True, group="start")
    async def _start(self, config: Config, notes: Sequence[str]) -> None:
        from lmtui.config import guiding
        from lmtui.runner import spawn

        if (both := guiding.pair(config)) is not None:
            self._start_both(both, notes)
            return
        self.say(f"Starting {config.name} …")
        try:
            run = await asyncio.to_thread(spawn.start, config, notes)
        except LmtuiError as error:
            self.say(error, title="Not started")
            return
        self.take_run(run)

    @work(group="pair")
    async def _start_both(self, both: tuple[Config, Config], notes: Sequence[str]) -> None:
        from lmtui.tui import guided_pair

        try:
            await guided_pair.perform(self, both, notes)
        except LmtuiError as error:
            self.say(error, title="Not started")

    @work(group=ACTIONS)
    async def _again(self, run_id: str) -> None:
        from lmtui.runner import runs

        try:
            config = await asyncio.to_thread(lambda: runs.find(run_id).config())
        except LmtuiError as error:
            self.say(error, title="Cannot run again")
            return
        self._start(config, ())

    @work(group=ACTIONS)
    async def _replay(self, run_id: str) -> None:
        from lmtui.runner import runs

        try:
            run = await asyncio.to_thread(runs.find, run_id)
        except LmtuiError as error:
            self.say(error, title="Cannot show it")
            return
        self.watch_run(run)

    # Keys that work everywhere

    def action_help(self) -> None:
        """Show every key, those of this screen first."""
        if not self.screen.is_modal:
            self.push_screen(HelpScreen(getattr(self.screen, "PLACE", "app")))

    def action_jump(self) -> None:
        """Put a letter on every part of the screen that keys can go to."""
        if not self.screen.is_modal:
            self._jump(self.screen)

    @work(group=ACTIONS)
    async def _jump(self, screen: Screen[object]) -> None:
        goal = await self.push_screen_wait(JumpScreen(screen))
        if isinstance(goal, str):
            await self.run_action(goal, default_namespace=screen)
        elif goal is not None:
            screen.set_focus(goal)

    @work(group=ACTIONS)
    async def action_leave(self) -> None:
        """Quit; with a run that was started here and is live, ask what becomes of it."""
        live = await asyncio.to_thread(self._live_started)
        if not live:
            self.exit()
            return
        names = ", ".join(run.run_id for run in live)
        answer = await self.push_screen_wait(
            Ask(
                "A run is live. What becomes of it?",
                [
                    Answer("l", "leave it running and quit", "leave"),
                    Answer("s", "stop it, keep what it measured, and quit", "stop"),
                    Answer("b", "abort it at once and quit", "abort"),
                    Answer("n", "do not quit", "stay"),
                ],
                more=names,
            )
        )
        if answer == "stay":
            return
        if answer != "leave":
            from lmtui.runner import runs

            for run in live:
                await asyncio.to_thread(runs.stop, run, answer == "abort")
        self.exit()

    def _live_started(self) -> list[RunDirectory]:
        from lmtui.runner import runs

        return [run for run in self._started if not runs.current(run).is_final]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer the keys of the screen and the themes in the palette."""
        place = getattr(screen, "PLACE", "")
        for key in (*keys.of(place, self.own_keys), *keys.of("app", self.own_keys)):
            if key.action not in ("command_palette", "leave"):
                yield SystemCommand(
                    f"{key.label.capitalize()} ({key.display})", key.tooltip, lambda k=key: self._act(screen, k.action)
                )
        yield SystemCommand("Theme", "Choose the colours; ansi themes send the fewest bytes", self.action_change_theme)
        yield SystemCommand("Quit (^q)", "Quit; asks what to do with a live run", self.action_leave)

    @work(group=ACTIONS)
    async def _act(self, screen: Screen[object], action: str) -> None:
        await self.run_action(action, default_namespace=screen)


def run(attach: str | None = None, ascii_only: bool = False, mouse: bool = True) -> int:
    """Open the application; return the exit code once it is left.

    Args:
        attach: A run to show at once: a run_id, a unique beginning of one, or `last`.
        ascii_only: Draw with ASCII alone; a locale without UTF-8 asks for it by itself.
        mouse: Whether the mouse works here; without it the terminal's own selection does.
    """
    terminal.let_its_size_count()
    app = LmtuiApp(attach, ascii_only=ascii_only or not terminal.is_utf8())
    app.run(mouse=mouse)
    if app.bug is not None:
        raise app.bug
    if app.last_run is not None:
        from lmtui.tui.farewell import farewell

        print(farewell(app.last_run))
    return 0
