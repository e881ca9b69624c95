"""A script command: flags → configs → runs → the script's table on stdout, its row in its file, the truth on stderr."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING

from lmtui.config.script_flags import GUIDED, NEWEST, OLDEST, RESTFUL
from lmtui.errors import INTERRUPTED, TARGET, LmtuiError
from lmtui.output import print_json
from lmtui.scripts import points as pointing
from lmtui.scripts.points import Point
from lmtui.scripts.typed import in_flags, refuse_missing

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.headless import Begin, Interrupts
    from lmtui.runner.rundir import RunDirectory, Status
    from lmtui.runner.spawn import Series
    from lmtui.scripts.report import Report


def run(options: argparse.Namespace) -> int:
    """Do what was asked and return the exit code. An error names the flags that were typed."""
    try:
        return _run(options)
    except LmtuiError as error:
        told = LmtuiError(in_flags(str(error), options))
        told.exit_code = error.exit_code
        raise told from error


def _run(options: argparse.Namespace) -> int:
    from lmtui.headless import Interrupts
    from lmtui.runner.spawn import Series
    from lmtui.scripts import row_file

    if notice := version_notice():
        _say(f"note: {notice}")
    url = _prepare(options)
    points, notes = pointing.points(options, url)
    if options.dry_run:
        return _show_plans(options, points, notes)
    row_file.refuse_unfit(options)
    ready = [(point, *pointing.checked(point)) for point in points]
    for _, config, _ in ready:
        refuse_missing(config)
    for note in dict.fromkeys((*notes, *(note for _, _, own in ready for note in own))):
        _say(f"note: {note}")
    if options.tui:
        from lmtui.headless import need_terminal

        if options.json:
            raise LmtuiError("--tui and --json do not go together: leave out one of them")
        need_terminal()
    with Series() as series, contextlib.nullcontext() if options.tui else Interrupts() as interrupts:
        return _in_turn(options, [(point, config, (*notes, *own)) for point, config, own in ready], series, interrupts)


def _in_turn(
    options: argparse.Namespace,
    ready: Sequence[tuple[Point, Config, Sequence[str]]],
    series: Series,
    interrupts: Interrupts | None,
) -> int:
    """Do the runs one after another and return the exit code; one that failed or was stopped is the last.

    Each is printed and has its row before the next one begins; an interrupt that comes then waits for that.
    """
    code, started = 0, 0
    done: list[tuple[Point, Report]] = []
    try:
        for point, config, notes in ready:
            started += 1
            if point.label and not _is_quiet(options):
                hint = " (leave the application with ctrl+q when it is done: the next one starts then)"
                _say(f"--- {point.label}{hint * (options.tui and started < len(ready))}")
            begin = partial(series.start, is_last=started == len(ready))
            directory, status, is_told = _perform(options, config, notes, begin, interrupts)
            made, one = _conclude(options, point, directory, status, is_first=not done, is_told=is_told)
            if interrupts is not None and interrupts.came and started < len(ready):
                one = INTERRUPTED
            if one in (TARGET, INTERRUPTED):
                return one
            done.append((point, made))
            code = code or one
    finally:
        if left := [point.label for point, _, _ in ready[started:]]:
            _say(f"lmtui: not started: {', '.join(left)}")
    if options.script == GUIDED.command and not options.json:
        from lmtui.scripts.report import comparison

        print(comparison(options, done), end="")
    return code


def version_notice() -> str | None:
    """Return a sentence when the installed LMDeploy is not one whose flags these are; None with none installed."""
    try:
        version = metadata.version("lmdeploy")
    except metadata.PackageNotFoundError:
        return None
    parts = version.split(".")
    if not all(part.isdecimal() for part in parts[:2]) or len(parts) < 2:
        return f"LMDeploy {version} is installed, and the flags here are those of {_span()}."
    found = (int(parts[0]), int(parts[1]))
    if OLDEST <= found <= NEWEST:
        return None
    age = "older" if found < OLDEST else "newer"
    return f"LMDeploy {version} is installed, which is {age} than the flags here ({_span()}): some may differ."


def _span() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def _prepare(options: argparse.Namespace) -> str | None:
    """Find out what the sample needs: for the restful script the server's URL, the model's name and the dataset."""
    if options.script != RESTFUL.command:
        return None
    from lmtui.scripts import server, sharegpt_file

    url = server.base_url(options)
    pointing.check_dataset(options)
    if note := server.name_tokenizer(options, url):
        _say(f"note: {note}")
    if note := server.template_note(options.model_path or options.tokenizer):
        _say(f"note: {note}")
    options.dataset_path = str(sharegpt_file.file(options.dataset_path, is_agreed=options.yes))
    return url


def _show_plans(options: argparse.Namespace, points: list[Point], notes: Sequence[str]) -> int:
    """Print the requests of every run; nothing is sent. One object, or one line per run of `--multi`."""
    import shutil

    from lmtui.workload.draw import draw
    from lmtui.workload.show import plan_object, plan_text

    def silent(line: str, share: float | None) -> None: ...

    configs = [pointing.planned(point) for point in points]
    for config in configs:
        refuse_missing(config)
    for note in notes:
        _say(f"note: {note}")
    for point, config in zip(points, configs, strict=True):
        plan = draw(config, silent)
        if options.json:
            print_json(plan_object(plan))
            continue
        if len(points) > 1:
            print(f"--- {point.label}")
        print(plan_text(plan, shutil.get_terminal_size().columns))
    return 0


def _perform(
    options: argparse.Namespace,
    config: Config,
    notes: Sequence[str],
    begin: Begin,
    interrupts: Interrupts | None,
) -> tuple[RunDirectory, Status, bool]:
    """Do one run to its end, in the application when that was asked for; whether that told of its figures."""
    from lmtui import headless
    from lmtui.runner import runs

    if not options.tui:
        return *headless.perform(config, notes, quiet=_is_quiet(options), begin=begin, interrupts=interrupts), False
    from lmtui.tui.app import run as application

    directory = headless.start(config, notes, begin)
    application(attach=directory.run_id)
    is_told = runs.current(directory).is_final
    return directory, headless.follow(directory, quiet=_is_quiet(options)), is_told


def _is_quiet(options: argparse.Namespace) -> bool:
    return bool(getattr(options, "disable_tqdm", False))


def _conclude(
    options: argparse.Namespace,
    point: Point,
    directory: RunDirectory,
    status: Status,
    *,
    is_first: bool,
    is_told: bool,
) -> tuple[Report, int]:
    """Print the table, append the row, and say on stderr what the script leaves out; return the exit code.

    `is_first`: no run came before. `is_told`: the application has printed lmtui's own account of the run.
    """
    from lmtui.headless import report as lmtui_report
    from lmtui.runner.recorded import read
    from lmtui.scripts import row_file
    from lmtui.scripts.report import is_whole, report

    if directory.result() is None:
        raise _nothing_sent(directory, status)
    found = read(directory.path)
    if len(found.sessions.index) == 0:  # no table of zeros
        raise _nothing_sent(directory, status)
    made = report(options, point, directory.config(), found)
    if options.json:
        code = lmtui_report(directory, status, as_json=True, quiet=_is_quiet(options))
    else:
        print(made.totals * is_first + made.text, end="", flush=True)
        code = _summarise(directory, status, is_told=is_told)
    for message in made.messages:
        _say(f"note: {message}")
    if (file := row_file.named(options)) is not None:
        if is_whole(found.sessions):
            try:
                row_file.append(file, options, made.row, is_first=is_first)
                _say(f"row appended to {file}")
            except LmtuiError as error:  # the other runs go on: their tables are worth as much
                _say(f"lmtui: {error}")
                code = code or error.exit_code
        else:
            _say(f"no row appended to {file}: the run was cut short ({status.phase}); `lmtui show` has what came")
    return made, code


def _nothing_sent(directory: RunDirectory, status: Status) -> LmtuiError:
    """Return why a run has no figures, with the run's own exit code."""
    cause = (status.message or status.phase).rstrip(".")
    error = LmtuiError(f"{directory.run_id} sent nothing: {cause}. Its log: {directory.log_path}")
    error.exit_code = TARGET if status.exit_code is None else status.exit_code
    return error


def _summarise(directory: RunDirectory, status: Status, *, is_told: bool) -> int:
    """Print lmtui's own account of a run on stderr: outcomes, real lengths, grade; its table only when it is news."""
    import io

    from lmtui.headless import report as lmtui_report

    with contextlib.redirect_stdout(io.StringIO() if is_told else sys.stderr):
        return lmtui_report(directory, status, as_json=False, quiet=is_told)


def _say(line: str) -> None:
    print(line, file=sys.stderr)
