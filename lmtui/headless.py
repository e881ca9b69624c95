"""Runs without a screen: start, show progress on stderr, print the result on stdout."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from lmtui.errors import BUG, VERDICT, LmtuiError, TargetError

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.metrics.result import Result
    from lmtui.runner.rundir import RunDirectory, Status

POLL_S = 0.25
PLAIN_LINE_S = 5.0
"""Without a terminal on stderr, progress is one line in this many seconds."""


def need_terminal() -> None:
    """Refuse to open the application where nobody could see or leave it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LmtuiError(
            "the application needs a terminal; without one use `lmtui run WHAT`, `lmtui runs` and `lmtui show RUN`"
        )


def run(what: str, sets: Sequence[str], *, as_json: bool, quiet: bool, detach: bool, strict: bool) -> int:
    """Run a config in its own process and follow it to its end; return the run's exit code."""
    from lmtui.config import guiding, store
    from lmtui.runner import spawn

    config, notes = store.resolve(what, sets)
    if not quiet:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    if (both := guiding.pair(config)) is not None:
        if detach:
            raise LmtuiError("--detach does one run, and guided.baseline = true asks for two: set it to false")
        return _both(both, notes, as_json=as_json, quiet=quiet, strict=strict)
    directory = spawn.start(config, notes)
    if detach:
        print(directory.path.name)
        return 0
    status = follow(directory, quiet=quiet)
    return report(directory, status, as_json=as_json, quiet=quiet, strict=strict)


def _both(configs: tuple[Config, Config], notes: Sequence[str], *, as_json: bool, quiet: bool, strict: bool) -> int:
    """Do the unguided and the guided run, print both results (as JSON: one a line), and what guiding costs."""
    import shutil

    from lmtui.metrics.guided_cost import guided_cost
    from lmtui.output import takes_signs
    from lmtui.results.compare import compare
    from lmtui.results.compare_text import compare_text
    from lmtui.runner import kept, spawn

    results = []
    for config, words in zip(configs, ("without", "with"), strict=True):
        if not quiet:
            print(f"the run {words} guided decoding", file=sys.stderr)
        directory = spawn.start(config, notes)
        code = report(directory, follow(directory, quiet=quiet), as_json=as_json, quiet=quiet, strict=strict)
        if code:
            return code
        results.append(kept.result(directory))
    if not as_json:
        compared = compare([kept.to_compare(result.run_id) for result in results])
        width = shutil.get_terminal_size((80, 24)).columns
        print(f"\n{compare_text(compared, width, ascii_only=not takes_signs())}")
        print(f"\n{guided_cost(*results)}")
    return 0


def follow(directory: RunDirectory, *, quiet: bool) -> Status:
    """Wait until a run has ended, with progress on stderr; the first INT or TERM stops it, the second aborts it."""
    from lmtui.runner import runs

    progress = Progress(quiet=quiet)
    with _signals(directory):
        while True:
            status = runs.current(directory)
            progress.show(status)
            if status.is_final:
                progress.clear()
                return status
            time.sleep(POLL_S)


@contextmanager
def _signals(directory: RunDirectory) -> Iterator[None]:
    from lmtui.runner import runs

    received = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        runs.stop(directory, abort=received > 1)
        if received == 1:
            print("\nstopping: requests in flight may finish; once more aborts them", file=sys.stderr)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report(directory: RunDirectory, status: Status, *, as_json: bool, quiet: bool, strict: bool) -> int:
    """Print the result of a finished run on stdout, and what went wrong on stderr."""
    import msgspec

    from lmtui.metrics.table import result_table

    result: Result | None = directory.result()
    if result is None:
        raise TargetError(f"{directory.path.name}: {status.message or status.phase}. Its log: {directory.log_path}")
    print(msgspec.json.encode(result).decode() if as_json else result_table(result))
    if status.phase != "done":
        print(f"lmtui: {status.phase}: {status.message}", file=sys.stderr)
    if not quiet:
        print(f"kept as {result.run_id} · `lmtui show last` · log: {directory.log_path}", file=sys.stderr)
    code = BUG if status.exit_code is None else status.exit_code
    if strict and code == 0 and result.client.grade != "good":
        print(f"lmtui: --strict: the grade is {result.client.grade}, not good", file=sys.stderr)
        return VERDICT
    return code


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

    import msgspec

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
        print(msgspec.json.encode(plan_object(drawn)).decode())
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
    runs.stop(directory, abort=abort)
    status = follow(directory, quiet=False)
    print(f"{directory.path.name} {status.phase}")
    return 0
