"""One run as it happens, or as it happened: charts, percentiles, counts, errors, log. It may be left at any moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer

from lmtui import paths
from lmtui.charts.draw import Limit, Series
from lmtui.config.model import Config
from lmtui.errors import LmtuiError
from lmtui.metrics.result import Distribution, Result
from lmtui.tui import keys, live_text, messages
from lmtui.tui.live_view import LiveView, RunFeed, bin_times_s
from lmtui.tui.replay import Player, Recording, words
from lmtui.tui.screens.dialogs import Answer, Ask
from lmtui.tui.typed_ahead import ACTIONS
from lmtui.tui.widgets.chart import Chart
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.key_line import KeyLine
from lmtui.tui.widgets.log_pane import LogPane
from lmtui.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from lmtui.runner.rundir import RunDirectory

REFRESH_S = 0.25
CHARTS_EVERY = 2
"""Charts are drawn at every second refresh."""
PANELS = ("throughput", "latency", "percentiles", "counts", "cancel", "errors", "log")
LATENCIES = (("TTFT", "ttft_ms"), ("ITL", "itl_ms"))
WINDOWS: tuple[tuple[str, float | None], ...] = (("", None), ("last minute", 60.0), ("last 5 min", 300.0))
SEEK_S = 5.0


class LiveScreen(Screen[None]):
    """Shows what a feed tells, four times a second at most; what did not change is not drawn."""

    PLACE = "live"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self, feed: RunFeed) -> None:
        super().__init__()
        self._timer: Timer | None = None
        self._feed = feed
        self._view = LiveView()
        self._config: Config | None = None
        self._result: Result | None = None
        self._latency = 0
        self._is_frozen = False
        self._has_new_metric = False
        self._ticks = 0
        self._window = 0
        self._recording: Recording | None = None
        self._player: Player | None = None
        self._is_looking = False
        self._at_rate_0: Mapping[str, Distribution] | None = None

    @property
    def run(self) -> RunDirectory:
        """The run that is shown."""
        return self._feed.run

    def compose(self) -> ComposeResult:
        """Lay out the header, the panels and the keys."""
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        with Vertical(id="live-header"):
            yield Figures("reading the run …", id="head")
            yield Figures("", id="progress")
        with Horizontal(id="live-body"):
            with Vertical(id="live-left"):
                with Panel(1, "output tok/s", id="throughput"):
                    yield Chart(ascii_only=ascii_only, nothing="no data yet", id="throughput-chart")
                with Panel(2, "latency", id="latency"):
                    yield Chart(ascii_only=ascii_only, nothing="no data yet", id="latency-chart")
            with Vertical(id="live-right"):
                with Panel(3, "percentiles", id="percentiles"):
                    yield Figures("", id="percentiles-text")
                with Panel(4, "requests", id="counts"):
                    yield Figures("", id="counts-text")
                with Panel(5, "cancelled by plan", id="cancel"):
                    yield Figures("", id="cancel-text")
                with Panel(6, "errors", id="errors"):
                    yield Figures("none", id="errors-text")
                with Panel(7, "log", id="log"):
                    yield LogPane(id="log-lines")
        yield KeyLine(self.PLACE, state="live")

    def on_mount(self) -> None:
        """Follow the run."""
        self.set_focus(self.query_one("#throughput"))
        self._name_latency()
        self._follow()
        self._timer = self.set_interval(REFRESH_S, self._tick)

    def on_screen_suspend(self) -> None:
        """Rest below another screen: Textual sends that one whole again when something stirs below it."""
        if self._timer is not None:
            self._timer.pause()

    def on_screen_resume(self) -> None:
        """Go on; what came meanwhile is drawn at once."""
        if self._timer is not None:
            self._timer.resume()

    @work(exclusive=True, group="follow")
    async def _follow(self) -> None:
        self._config = await asyncio.to_thread(self._feed.config)
        if self._config is not None and self._config.cancel.rate > 0:
            self._at_rate_0 = await asyncio.to_thread(_at_rate_0, self._config)
        await self._feed.follow()
        result = await asyncio.to_thread(self._feed.result)
        self._result = result
        self._is_frozen = False
        self._tick()
        self._draw_charts()

    def on_resize(self) -> None:
        """Fit the texts to the new width."""
        self.call_after_refresh(self._draw_texts)

    def _tick(self) -> None:
        self.query_one(LogPane).write(self._feed.take_log())
        self._ticks += 1
        if self._player is not None:
            self._look()
        elif not self._is_frozen:
            self._take(self._feed.view())

    def _take(self, view: LiveView) -> None:
        self._view = view
        self.query_one(KeyLine).take_state("replay" if self._player else "over" if self._is_over else "live")
        self._draw_texts()
        if self._ticks % CHARTS_EVERY == 0 or self._player is not None:
            self._draw_charts()

    # Drawing

    def _draw_texts(self) -> None:
        view, duration_s = self._view, self._config.load.duration_s if self._config else None
        head, progress = self.query_one("#head", Figures), self.query_one("#progress", Figures)
        replay = words(self._player) if self._player else ""
        head.show(
            live_text.head(view, head.size.width, duration_s=duration_s, is_frozen=self._is_frozen, replay=replay)
        )
        is_at_end = view.status is not None and view.status.is_final
        result = self._result if is_at_end else None
        progress.show(live_text.progress(view, progress.size.width, result, duration_s=duration_s))
        figures = live_text.final_figures(result) if result else view.percentiles
        self._fill("percentiles", lambda width: live_text.percentiles(figures, width))
        self._fill("counts", lambda width: live_text.counts(view, width))
        self._fill("cancel", lambda width: live_text.cancel(view, width, self._at_rate_0))
        self._fill("errors", lambda width: live_text.errors(view, width))
        self.query_one("#cancel").set_class(view.cancel is not None, "-used")

    def _fill(self, name: str, text: Callable[[int], str]) -> None:
        widget = self.query_one(f"#{name}-text", Figures)
        widget.show(text(widget.size.width or self.query_one(f"#{name}").size.width))

    def _draw_charts(self) -> None:
        view = self._view
        end_s = view.elapsed_s or 0.0
        window_s = WINDOWS[self._window][1]
        rate = view.output_tokens_per_s
        times = bin_times_s(len(rate))
        self.query_one("#throughput-chart", Chart).show(
            [Series("tok/s", times, rate)], end_s=end_s, unit="", log=False, new=self._has_new_metric, window_s=window_s
        )
        name, key = LATENCIES[self._latency]
        pair = view.latencies.get(key)
        series = []
        if pair is not None:
            times = bin_times_s(len(pair[0]))
            series = [Series("P50", times, pair[0]), Series("P99", times, pair[1], dashed=True)]
        self.query_one("#latency-chart", Chart).show(
            series,
            end_s=end_s,
            unit=f"{name} ms",
            limit=self._objective(name, key),
            new=self._has_new_metric,
            window_s=window_s,
        )
        self._has_new_metric = False

    def _objective(self, name: str, key: str) -> Limit | None:
        value = getattr(self._config.slo, key) if self._config is not None else None
        return Limit(f"SLO {value:g} ms", value) if value is not None else None

    def _name_latency(self) -> None:
        name, _ = LATENCIES[self._latency]
        window = f", {WINDOWS[self._window][0]}" if self._window else ""
        self.query_one("#throughput", Panel).retitle(f"output tok/s{window}")
        self.query_one("#latency", Panel).retitle(f"{name} over time{window} (t: {LATENCIES[self._latency - 1][0]})")

    @on(LogPane.Behind)
    def _on_behind(self, event: LogPane.Behind) -> None:
        self.query_one("#log", Panel).hint(f"{event.lines} new lines, End: follow" if event.lines else "")

    # Keys

    @property
    def _is_over(self) -> bool:
        status = self._feed.view().status
        return status is not None and status.is_final

    @work(group=ACTIONS)
    async def action_stop(self) -> None:
        """Stop sending; what is in flight may finish."""
        await self._stop(abort=False)

    @work(group=ACTIONS)
    async def action_abort(self) -> None:
        """End at once, after asking."""
        if self._is_over:
            self._say("This run is over")
            return
        answer = await self.app.push_screen_wait(
            Ask(
                "Abort this run? Requests in flight are cut; what was measured is kept",
                [Answer("y", "abort it", "yes"), Answer("n", "let it run", "no")],
            )
        )
        if answer == "yes":
            await self._stop(abort=True)

    async def _stop(self, *, abort: bool) -> None:
        from lmtui.runner import runs

        if self._is_over:
            self._say("This run is over: r runs it again")
            return
        try:
            await asyncio.to_thread(runs.stop, self._feed.run, abort)
        except LmtuiError as error:
            self._say(str(error))
            return
        self._say("Aborting …" if abort else "Stopping: requests in flight may finish. S aborts them")

    def action_detach(self) -> None:
        """Leave; the run goes on."""
        if self.maximized is not None:
            self._restore()
            return
        self.dismiss()

    def action_metric(self) -> None:
        """Show the next latency."""
        self._latency = (self._latency + 1) % len(LATENCIES)
        self._has_new_metric = True
        self._name_latency()
        self._draw_charts()

    def action_window(self) -> None:
        """Show another part of the run."""
        self._window = (self._window + 1) % len(WINDOWS)
        self._has_new_metric = True
        self._name_latency()
        self._draw_charts()

    # Replay

    @work(group=ACTIONS)
    async def action_play(self) -> None:
        """Play the run again, or pause."""
        if not self._is_over:
            self._say("This run is still live: f holds the view still")
            return
        if self._player is None:
            try:
                self._recording = await asyncio.to_thread(self._feed.recording)
            except (LmtuiError, OSError) as error:
                self._say(f"It cannot be played again: {error}")
                return
            if not self._recording.length_s:
                self._say("The tick logs of this run are gone, or hold nothing: it cannot be played again")
                return
            self._player = Player(self._recording.length_s, time.monotonic)
        self._player.toggle()
        self._tick()

    @work(group="look")
    async def _look(self) -> None:
        if self._is_looking or self._player is None or self._recording is None:
            return
        self._is_looking = True
        try:
            view = await asyncio.to_thread(self._recording.view, self._player.position_s)
        finally:
            self._is_looking = False
        self._take(view)

    def _change_replay(self, change: Callable[[Player], None]) -> None:
        if self._player is None:
            self._say("space plays the run again" if self._is_over else "This run is still live")
            return
        change(self._player)
        self._tick()

    def action_back_s(self) -> None:
        """Go back."""
        self._change_replay(lambda player: player.seek(-SEEK_S))

    def action_on_s(self) -> None:
        """Go on."""
        self._change_replay(lambda player: player.seek(SEEK_S))

    def action_faster(self) -> None:
        """Play faster."""
        self._change_replay(lambda player: player.change_speed(1))

    def action_slower(self) -> None:
        """Play slower."""
        self._change_replay(lambda player: player.change_speed(-1))

    # Panels

    def action_maximize(self) -> None:
        """Give the focused panel the whole screen, or take it back."""
        if self.maximized is not None:
            self._restore()
            return
        focused = self.focused
        panel = next((p for p in (focused.ancestors_with_self if focused else ()) if isinstance(p, Panel)), None)
        if panel is not None:
            self.maximize(panel, container=False)
            panel.hint("m: back")

    def _restore(self) -> None:
        if isinstance(self.maximized, Panel):
            self.maximized.hint("")
        self.minimize()

    def action_freeze(self) -> None:
        """Hold the view still, or go on."""
        self._is_frozen = not self._is_frozen
        self._draw_texts()

    def action_log(self) -> None:
        """Go to the log."""
        self.set_focus(self.query_one(LogPane))

    def action_panel(self, number: int) -> None:
        """Go to a panel."""
        name = PANELS[number - 1]
        widget = self.query_one(LogPane) if name == "log" else self.query_one(f"#{name}")
        if widget.display:
            if self.maximized is not None:
                self._restore()
            self.set_focus(widget)
        else:
            self._say("The plan of this run cancels nothing")

    def action_copy(self) -> None:
        """Copy the summary, or what is known so far."""
        from lmtui.metrics.table import result_table

        if self._result is not None:
            text = result_table(self._result)
        else:
            names = ("head", "progress", "percentiles-text", "counts-text", "errors-text")
            text = "\n".join(self.query_one(f"#{name}", Figures).text for name in names)
        self.post_message(messages.CopyWanted(text, f"{self._feed.run.run_id}.txt"))

    def action_again(self) -> None:
        """Run the same once more."""
        if self._is_over:
            self.post_message(messages.AgainWanted(self._feed.run.run_id))
        else:
            self._say("This run is still live: s stops it")

    def action_details(self) -> None:
        """Show every number."""
        if self._result is not None:
            self.post_message(messages.DetailsWanted(self._feed.run.run_id))
        elif self._is_over:
            self._say(f"This run has no result. Its log: {self._feed.run.log_path}")
        else:
            self._say(f"The result comes when the run is over, into {paths.history()}")

    def _say(self, text: str) -> None:
        self.notify(text, markup=False, timeout=5)


def _at_rate_0(config: Config) -> Mapping[str, Distribution] | None:
    from lmtui.results import baseline

    row = baseline.find(config.flat())
    return None if row is None else {key: baseline.latency(row, key) for _, key in live_text.METRICS}
