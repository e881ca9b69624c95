"""Runs without a screen: start, show progress on stderr, print the result on stdout."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from lmtui.errors import TARGET, VERDICT, LmtuiError
from lmtui.output import print_json

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.metrics.result import Result
    from lmtui.results.verdicts import Verdicts
    from lmtui.runner.rundir import RunDirectory, Status

    Begin = Callable[[Config, Sequence[str]], RunDirectory]

POLL_S = 0.25
PLAIN_LINE_S = 5.0
"""Without a terminal on stderr, progress is one line in this many seconds."""


def need_terminal() -> None:
    """Refuse to open the application where nobody could see or leave it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LmtuiError(
            "the application needs a terminal; without one use `lmtui run WHAT`, `lmtui runs` and `lmtui show RUN`"
        )


def run(
    what: str,
    sets: Sequence[str],
    *,
    as_json: bool,
    quiet: bool,
    detach: bool,
    strict: bool,
    fail_if: Sequence[str] = (),
) -> int:
    """Run a config in its own process and follow it to its end; return the run's exit code."""
    from lmtui.config import guiding, store
    from lmtui.results.verdicts import Verdicts

    verdicts = Verdicts(fail_if, strict=strict)
    config, notes = store.resolve(what, sets)
    if not quiet:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    if (both := guiding.pair(config)) is not None:
        if detach:
            raise LmtuiError("--detach does one run, and guided.baseline = true asks for two: set it to false")
        return _both(both, notes, as_json=as_json, quiet=quiet, verdicts=verdicts)
    if detach:
        if strict or fail_if:
            raise LmtuiError("--detach returns before there is a result: leave --strict and --fail-if out")
        print(start(config, notes).path.name)
        return 0
    directory, status = perform(config, notes, quiet=quiet)
    return report(directory, status, as_json=as_json, quiet=quiet, verdicts=verdicts)


def _both(
    configs: tuple[Config, Config], notes: Sequence[str], *, as_json: bool, quiet: bool, verdicts: Verdicts
) -> int:
    """Do the unguided and the guided run, print both results (as JSON: one a line), and what guiding costs.

    A baseline that failed ends it; one that alone a verdict fails does not. Returns the worst exit code.
    """
    import shutil

    from lmtui.metrics.guided_cost import guided_cost
    from lmtui.output import takes_signs
    from lmtui.results.compare import compare
    from lmtui.results.compare_text import compare_text
    from lmtui.runner import kept
    from lmtui.runner.spawn import Series

    results, worst = [], 0
    with Series() as series:
        for config, words in zip(configs, ("without", "with"), strict=True):
            begin = partial(series.start, is_last=config is configs[-1])
            if not quiet:
                print(f"the run {words} guided decoding", file=sys.stderr)
            directory, status = perform(config, notes, quiet=quiet, begin=begin)
            code = report(directory, status, as_json=as_json, quiet=quiet, verdicts=verdicts)
            if code not in (0, VERDICT):
                return code
            worst = max(worst, code)
            results.append(kept.result(directory))
    if not as_json:
        compared = compare([kept.to_compare(result.run_id) for result in results])
        width = shutil.get_terminal_size((80, 24)).columns
        print(f"\n{compare_text(compared, width, ascii_only=not takes_signs())}")
        print(f"\n{guided_cost(*results)}")
    return worst


def follow(directory: RunDirectory, *, quiet: bool) -> Status:
    """Wait until a run has ended, with progress on stderr; the first INT or TERM stops it, the second aborts it."""
    with Interrupts() as interrupts:
        return _until_end(directory, interrupts, quiet=quiet)


def perform(
    config: Config,
    notes: Sequence[str],
    *,
    quiet: bool,
    begin: Begin | None = None,
    interrupts: Interrupts | None = None,
) -> tuple[RunDirectory, Status]:
    """Start a run and follow it to its end; an INT or TERM that comes before it has started is passed on then.

    Args:
        config: What to run.
        notes: Sentences for the result.
        quiet: Whether no progress is shown.
        begin: Starts it; None: `spawn.start`.
        interrupts: What hears INT and TERM already, in a series of runs; None: it is heard for this run alone.
    """
    from lmtui.runner import spawn

    with Interrupts() if interrupts is None else contextlib.nullcontext(interrupts) as hearing:
        directory = (begin or spawn.start)(config, notes)
        return directory, _until_end(directory, hearing, quiet=quiet)


def start(config: Config, notes: Sequence[str], begin: Begin | None = None) -> RunDirectory:
    """Start a run that goes on by itself; `begin` is that of `perform`.

    Raises:
        KeyboardInterrupt: An INT or TERM came meanwhile; the run was told to stop.
    """
    from lmtui.runner import spawn

    with Interrupts() as interrupts:
        directory = (begin or spawn.start)(config, notes)
        if interrupts.pass_on(directory):
            raise KeyboardInterrupt
        return directory


def _until_end(directory: RunDirectory, interrupts: Interrupts, *, quiet: bool) -> Status:
    from lmtui.runner import runs

    progress = Progress(quiet=quiet)
    while True:
        if interrupts.pass_on(directory):
            print("\nstopping: requests in flight may finish; once more aborts them", file=sys.stderr)
        status = runs.current(directory)
        if status.is_final:  # what is printed next tells it
            progress.clear()
            return status
        progress.show(status)
        time.sleep(POLL_S)


class Interrupts:
    """Hears INT and TERM while it is entered, from before a run exists: the first stops it, the second aborts it."""

    def __init__(self) -> None:
        self._heard = self._told = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def came(self) -> bool:
        """Whether an INT or TERM came."""
        return self._heard > 0

    def pass_on(self, directory: RunDirectory) -> bool:
        """Tell the run what was heard since the last time; return whether it hears of it for the first time."""
        from lmtui.runner import runs

        heard, told = self._heard, self._told
        self._told = heard
        if heard > told:
            runs.stop(directory, abort=heard > 1)
        return heard > told == 0

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard += 1


def report(
    directory: RunDirectory, status: Status, *, as_json: bool, quiet: bool, verdicts: Verdicts | None = None
) -> int:
    """Print the result of a finished run on stdout, and what went wrong on stderr; return its exit code.

    A run that is well otherwise has VERDICT when one of `verdicts` fails.

    Raises:
        LmtuiError: There is no result; it has the run's exit code.
    """
    from lmtui.metrics.table import result_table

    code = TARGET if status.exit_code is None else status.exit_code  # None: it died before it could say
    result: Result | None = directory.result()
    if result is None:
        cause = (status.message or status.phase).rstrip(".")
        error = LmtuiError(f"{directory.path.name}: {cause}. Its log: {directory.log_path}")
        error.exit_code = code
        raise error
    if as_json:
        print_json(result)
    else:
        print(result_table(result), flush=True)
    if code or status.phase != "done":
        words = (status.phase * (status.phase != "done"), status.message)
        print(f"lmtui: {': '.join(filter(None, words))}", file=sys.stderr)
    if not quiet:
        print(f"kept as {result.run_id} · `lmtui show last` · log: {directory.log_path}", file=sys.stderr)
    failed = list(verdicts.failed(result)) if verdicts is not None and code == 0 else []
    for sentence in failed:
        print(f"lmtui: {sentence}", file=sys.stderr)
    return VERDICT if failed else code


class Progress:
    """The progress line on stderr: redrawn in place on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._line = ""
        self._next_at = 0.0

    def show(self, status: Status) -> None:
        """Draw the line of this status, unless nothing changed."""
        line = progress_line(status)
        if self._quiet or line == self._line:
            return
        if self._terminal:
            import shutil

            width = shutil.get_terminal_size().columns
            print(f"\r\x1b[K{line[: width - 1]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next_at:
            print(line, file=sys.stderr, flush=True)
            self._next_at = time.monotonic() + PLAIN_LINE_S
        self._line = line

    def clear(self) -> None:
        """Take the line away."""
        if self._terminal and not self._quiet:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def progress_line(status: Status) -> str:
    """Return one line: phase, a bar, counts, and the message of a phase without counts."""
    counts = status.counts
    if status.phase in ("running", "draining") and counts.planned:
        share = counts.done / counts.planned
        bar = "#" * round(20 * share)
        failed = f", {counts.failed} failed" if counts.failed else ""
        cancelled = f", {counts.cancelled} cancelled" if counts.cancelled else ""
        return (
            f"{status.phase} [{bar:<20}] {counts.done}/{counts.planned} done, "
            f"{counts.in_flight} in flight{failed}{cancelled}"
        )
    return f"{status.phase} {status.message}".rstrip()


def plan(what: str, sets: Sequence[str], *, as_json: bool) -> int:
    """Draw a plan and print it; nothing is sent."""
    import shutil

    from lmtui.config import store
    from lmtui.workload.draw import draw
    from lmtui.workload.show import plan_object, plan_text

    config, notes = store.resolve(what, sets)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    terminal = sys.stderr.isatty()

    def progress(line: str, share: float | None) -> None:
        if terminal:
            done = "" if share is None else f" {share:.0%}"
            print(f"\r\x1b[K{line}{done}", end="", file=sys.stderr, flush=True)

    drawn = draw(config, progress)
    if terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if as_json:
        print_json(plan_object(drawn))
    else:
        print(plan_text(drawn, shutil.get_terminal_size().columns))
    return 0


def stop(run_name: str, *, abort: bool) -> int:
    """Stop a run and wait for its end."""
    from lmtui.runner import runs

    directory = runs.find(run_name)
    status = runs.current(directory)
    if status.is_final:
        raise LmtuiError(f"{directory.path.name} is {status.phase}: there is nothing to stop")
    if not status.pid:
        raise LmtuiError(f"{directory.path.name} has no process yet that could be stopped; try again in a moment")
    if status.is_told_to_stop and not abort:
        print(f"{directory.path.name} is stopping already; --abort cuts what is in flight", file=sys.stderr)
    runs.stop(directory, abort=abort)
    status = follow(directory, quiet=False)
    print(f"{directory.path.name} {status.phase}")
    return 0
