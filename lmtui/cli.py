"""The commands: parse, then import what the command needs. `lmtui --help` loads nothing heavy."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from lmtui import __version__, output
from lmtui.config.script_flags import SCRIPTS, Script
from lmtui.errors import BUG, INTERRUPTED, USAGE, LmtuiError

WHAT = "a file (contains / or ends in .toml), else a saved config, else a built-in preset"
RUN = "a run_id, a unique beginning of one, or `last`"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
EPILOG = """exit codes: 0 done; 1 a bug (traceback in the log, its path printed); 2 bad usage or config;
3 the target could not be opened, or died; 4 no ok request, or more errors than limits allow;
5 a verdict failed (--strict, --fail-if); 130 stopped, with what was measured kept

try:  lmtui run quickstart     a real engine on this machine's CPU or GPU
      lmtui run simulated      no engine at all
      lmtui                    the application"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        output.prepare()
        options = _parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        code = run(options)
        sys.stdout.flush()
    except LmtuiError as error:
        print(f"lmtui: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        output.give_up()  # the reader left
        return 0
    except Exception as error:
        problem = _of_a_disk(error)
        if not problem:
            return _bug(error)
        print(f"lmtui: {problem}", file=sys.stderr)
        return USAGE
    return code


def _of_a_disk(error: Exception) -> str:
    """Return a sentence about a disk that takes nothing; "" when that is not what went wrong."""
    if not isinstance(error, OSError) or error.errno not in _DISK:
        return ""
    if output.is_problem(error):
        return f"stdout: {error.strerror}"
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror}. Make room (or make it writable), or set LMTUI_HOME to another folder"


def _bug(error: Exception) -> int:
    import time
    import traceback

    from lmtui import paths

    try:
        place = paths.error_log()
        with place.open("a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} lmtui {__version__} {' '.join(sys.argv[1:])}\n")
            traceback.print_exception(error, file=log)
        where = f"The traceback is in {place}"
    except (OSError, LmtuiError) as unwritable:
        traceback.print_exception(error)
        where = f"The traceback is above, since its file cannot be written ({unwritable})"
    print(f"lmtui: a bug: {type(error).__name__}: {error}. {where}", file=sys.stderr)
    return BUG


ALIKE = 0.75
"""Likeness (0 to 1, of difflib) from which an unknown flag is taken for a slip of another."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name the way to the help, and which may get its arguments only when it is chosen.

    Attributes:
        later: Adds the arguments; None once that is done.
    """

    later: Callable[[_Parser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, after adding what was put off; a flag that does not exist is an error that names the closest."""
        if self.later is not None:
            add, self.later = self.later, None
            add(self)
        options, rest = super().parse_known_args(args, namespace)
        flags = [text for text in rest if text.startswith("-") and text != "-"]
        if flags:
            import difflib

            name = flags[0].partition("=")[0]
            near = difflib.get_close_matches(name, self._option_string_actions, 1, ALIKE)
            self.error(f"unknown flag {name}" + (f"; the closest is {near[0]}" if near else ""))
        if rest:
            self.error(f"{rest[0]!r} is one argument too many")
        return options, rest

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}. See `{self.prog} --help`\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lmtui",
        description="Measure LLM inference, live, from a terminal. Without a command it opens the application.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lmtui {__version__}")
    _screen_flags(parser)
    parser.set_defaults(run=_application)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="run a config; progress on stderr, the result on stdout")
    run.add_argument("what", metavar="WHAT", help=WHAT)
    _set_flag(run)
    run.add_argument("--json", action="store_true", help="print one JSON object per point instead of the table")
    run.add_argument("--quiet", action="store_true", help="no progress on stderr")
    run.add_argument("--detach", action="store_true", help="print the run_id once the run has started, and return")
    run.add_argument("--strict", action="store_true", help="exit with 5 unless the run's grade is good")
    run.add_argument(
        "--fail-if",
        metavar="TERMS",
        action="append",
        default=[],
        help="exit with 5 when the result meets all of TERMS (ttft.p99>200) or lacks a figure of them; may be repeated",
    )
    run.set_defaults(run=_run)

    plan = commands.add_parser("plan", help="show the requests a config asks for; nothing is sent")
    plan.add_argument("what", metavar="WHAT", help=WHAT)
    _set_flag(plan)
    plan.add_argument("--json", action="store_true", help="every request, as one JSON object")
    plan.set_defaults(run=_plan)

    for name, function, about in (
        ("configs", _configs, "list saved configs and built-in presets"),
        ("runs", _runs, "list run directories, live ones first"),
    ):
        listing = commands.add_parser(name, help=about)
        listing.add_argument("--json", action="store_true", help="one JSON array")
        listing.set_defaults(run=function)

    attach = commands.add_parser("attach", help="watch a run in the application")
    attach.add_argument("run_name", metavar="RUN", nargs="?", default="last", help=RUN)
    _screen_flags(attach)
    attach.set_defaults(run=_attach)

    stop = commands.add_parser("stop", help="stop a run and keep what it measured")
    stop.add_argument("run_name", metavar="RUN", help=RUN)
    stop.add_argument("--abort", action="store_true", help="at once: do not let requests in flight finish")
    stop.set_defaults(run=_stop)

    results = commands.add_parser("results", help="the history: one row per finished point")
    results.add_argument("--csv", action="store_true", help="the file as it is: every column and row")
    results.add_argument("--json", action="store_true", help="every column, as one JSON array")
    results.add_argument("--trash", action="store_true", help="with the rows that were moved to the trash")
    results.set_defaults(run=_results)

    show = commands.add_parser("show", help="all figures of one run")
    show.add_argument("run_name", metavar="RUN", help=RUN)
    show.add_argument("--json", action="store_true", help="the object that `run --json` prints")
    show.set_defaults(run=_show)

    compare = commands.add_parser("compare", help="runs side by side: what is better, and what differs")
    compare.add_argument("first", metavar="A", help=f"{RUN}, or that of a row of the history")
    compare.add_argument("others", metavar="B", nargs="+", help="what is compared with A")
    compare.add_argument("--json", action="store_true", help="one JSON object")
    compare.add_argument("--ascii", action="store_true", help="signs in ASCII only")
    compare.set_defaults(run=_compare)

    export = commands.add_parser("export", help="write runs to a file: CSV, JSON or Markdown")
    export.add_argument("run_names", metavar="RUN", nargs="+", help=RUN)
    export.add_argument(
        "--to", metavar="FILE", required=True, help=".csv: a row per request; .json: everything; .md: a report"
    )
    export.add_argument("--force", action="store_true", help="replace the file when it exists")
    export.add_argument("--ticks", action="store_true", help=".json: every arrival of each request too")
    export.set_defaults(run=_export)

    imports = commands.add_parser("import", help="take the CSV rows that LMDeploy's scripts wrote into the history")
    imports.add_argument("file", metavar="FILE.csv")
    imports.set_defaults(run=_import)

    selftest = commands.add_parser("selftest", help="what this client adds on this machine, against known truth")
    selftest.add_argument(
        "--streams", metavar="N,N,...", type=_counts, help="the steps' numbers of streams (10,50,100,200,500,1000)"
    )
    selftest.add_argument("--json", action="store_true", help="one JSON array of steps")
    selftest.add_argument("--quiet", action="store_true", help="no progress on stderr")
    selftest.set_defaults(run=_selftest)

    for name, script in SCRIPTS.items():
        command = commands.add_parser(
            name, help=script.help, description=f"{script.help}, with the script's own flags and defaults"
        )
        command.later = partial(_fill, script)
        command.set_defaults(run=_script, script=name)

    doctor = commands.add_parser("doctor", help="check the environment, and what a config needs")
    doctor.add_argument("what", metavar="WHAT", nargs="?", help=WHAT)
    _set_flag(doctor)
    doctor.add_argument("--json", action="store_true", help="one JSON array of checks")
    doctor.set_defaults(run=_doctor)
    return parser


def _fill(script: Script, parser: argparse.ArgumentParser) -> None:
    from lmtui.scripts.parser import fill

    fill(parser, script)


def _set_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="sets",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set a key, such as load.concurrency=8 (a TOML value, else text); may be repeated",
    )


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(int(part) if part.strip().isdigit() else 0 for part in text.split(","))
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be whole numbers from 1 on, such as 10,100")
    return counts


def _screen_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII only: no braille, no boxes")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")


def _application(options: argparse.Namespace) -> int:
    from lmtui.headless import need_terminal
    from lmtui.tui.app import run

    need_terminal()
    return run(ascii_only=options.ascii, mouse=not options.no_mouse)


def _attach(options: argparse.Namespace) -> int:
    from lmtui.headless import need_terminal
    from lmtui.runner import runs
    from lmtui.tui.app import run

    found = runs.find(options.run_name)
    need_terminal()
    return run(attach=found.path.name, ascii_only=options.ascii, mouse=not options.no_mouse)


def _run(options: argparse.Namespace) -> int:
    from lmtui.headless import run

    return run(
        options.what,
        options.sets,
        as_json=options.json,
        quiet=options.quiet,
        detach=options.detach,
        strict=options.strict,
        fail_if=options.fail_if,
    )


def _plan(options: argparse.Namespace) -> int:
    from lmtui.headless import plan

    return plan(options.what, options.sets, as_json=options.json)


def _configs(options: argparse.Namespace) -> int:
    from lmtui.listings import configs

    return configs(as_json=options.json)


def _runs(options: argparse.Namespace) -> int:
    from lmtui.listings import runs

    return runs(as_json=options.json)


def _stop(options: argparse.Namespace) -> int:
    from lmtui.headless import stop

    return stop(options.run_name, abort=options.abort)


def _results(options: argparse.Namespace) -> int:
    from lmtui.listings import results

    return results(as_csv=options.csv, as_json=options.json, with_trash=options.trash)


def _show(options: argparse.Namespace) -> int:
    from lmtui.listings import show

    return show(options.run_name, as_json=options.json)


def _compare(options: argparse.Namespace) -> int:
    from lmtui.comparing import compare

    return compare([options.first, *options.others], as_json=options.json, ascii_only=options.ascii)


def _export(options: argparse.Namespace) -> int:
    from lmtui.comparing import export

    return export(options.run_names, options.to, force=options.force, with_ticks=options.ticks)


def _import(options: argparse.Namespace) -> int:
    from lmtui.listings import import_rows

    return import_rows(options.file)


def _doctor(options: argparse.Namespace) -> int:
    from lmtui.doctor import doctor

    return doctor(options.what, options.sets, as_json=options.json)


def _script(options: argparse.Namespace) -> int:
    from lmtui.scripts.command import run

    return run(options)


def _selftest(options: argparse.Namespace) -> int:
    from lmtui.selftest import STREAMS, selftest

    return selftest(options.streams or STREAMS, as_json=options.json, quiet=options.quiet)
