"""The listing commands: configs, runs, results, show, import. Text for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmtui import paths
from lmtui.errors import ConfigError
from lmtui.output import print_json

if TYPE_CHECKING:
    from lmtui.config.document import Document

EMPTY = "–"


def configs(*, as_json: bool) -> int:
    """List saved configs, then built-in presets that none of them hides; a file that cannot be read says why."""
    from lmtui.config import presets, store

    saved = store.names()
    rows = [_config_row(name, "saved", store.load) for name in saved]
    rows += [_config_row(name, "preset", presets.load) for name in presets.names() if name not in saved]
    if as_json:
        return _json(rows)
    for row in rows:
        row["runs"] = "yes" if not row["problems"] else f"no: `lmtui plan {row['name']}` says why"
    return _table(rows, ("name", "source", "kind", "model", "load", "runs"))


def _config_row(name: str, source: str, load: Callable[[str], Document]) -> dict[str, Any]:
    try:
        document = load(name)
    except ConfigError as error:
        row: dict[str, Any] = {"name": name, "source": source, "kind": None, "model": None, "load": None}
        return row | {"problems": [str(error)]}
    checked = document.check()
    config = checked.config
    return {
        "name": name,
        "source": source,
        "kind": document.get("target.kind"),
        "model": document.get("target.model"),
        "load": None if config is None else load_words(config.load.mode, config.load.concurrency, config.load.rate),
        "problems": [problem.message for problem in checked.problems],
    }


def load_words(mode: str, concurrency: int, rate: float | None) -> str:
    """Return a load in two words: `64 at once`, `4 req/s`."""
    return f"{concurrency} at once" if mode == "closed" else f"{mode} {rate:g} req/s" if mode == "open" else mode


def runs(*, as_json: bool) -> int:
    """List run directories, live ones first, then newest first."""
    from lmtui.runner import runs as run_list

    found = [(directory, run_list.current(directory)) for directory in run_list.all_runs()]
    found.sort(key=lambda pair: pair[1].is_final)
    rows = [
        {
            "run_id": directory.path.name,
            "phase": status.phase,
            "target": status.target_kind,
            "model": status.target_model,
            "done": status.counts.done,
            "planned": status.counts.planned,
            "failed": status.counts.failed,
            "started_at": status.started_at,
            "host": status.host,
            "message": status.message,
        }
        for directory, status in found
    ]
    if as_json:
        return _json(rows)
    return _table(rows, ("run_id", "phase", "target", "done", "planned", "failed", "message"))


def results(*, as_csv: bool, as_json: bool, with_trash: bool = False) -> int:
    """Print the history: the main figures as a table, or every column as JSON; or the file itself, which is CSV.

    Tags and notes that were added stand in for the row's own; rows in the trash are left out unless `with_trash`.
    """
    from lmtui.results import history, remarks

    path = paths.history()
    held = history.load(path)
    rows = remarks.applied(held.rows, remarks.read(path), with_trash=with_trash)
    if len(rows) < len(held.rows) and not as_csv:
        left_out = len(held.rows) - len(rows)
        print(f"{left_out} in the trash, left out; --trash lists {'it' if left_out == 1 else 'them'}", file=sys.stderr)
    for bad in held.bad:
        print(f"{path} line {bad.line} is no row; it stays in the file: {_plain(bad.text[:60])}", file=sys.stderr)
    if as_csv:
        if path.exists():
            sys.stdout.buffer.write(path.read_bytes())  # as it is, whatever stdout's encoding
        return 0
    if as_json:
        return _json([dict(row) for row in rows])
    shown = [
        {
            "run": row.get("run_id") or row.get("source"),
            "phase": row.get("phase"),
            "tok/s": row.get("output_throughput"),
            "req/s": row.get("request_throughput"),
            "TTFT p50 ms": row.get("ttft_ms.p50"),
            "TTFT p99 ms": row.get("ttft_ms.p99"),
            "ITL p50 ms": row.get("itl_ms.p50"),
            "ok": row.get("outcomes.ok"),
            "grade": row.get("grade"),
        }
        for row in rows
    ]
    return _table(shown, ("run", "phase", "tok/s", "req/s", "TTFT p50 ms", "TTFT p99 ms", "ITL p50 ms", "ok", "grade"))


def show(run_name: str, *, as_json: bool) -> int:
    """Print all figures of one run; a run whose process is gone is summarised first."""
    from lmtui.metrics.table import result_table
    from lmtui.runner import kept
    from lmtui.runner import runs as run_list

    result = kept.result(run_list.find(run_name))
    if as_json:
        print_json(result)
    else:
        print(result_table(result))
    return 0


def import_rows(file: str) -> int:
    """Take the rows of a CSV that LMDeploy's scripts wrote into the history."""
    from lmtui.results import history

    def report(sentence: str) -> None:
        print(sentence, file=sys.stderr)

    count = history.import_csv(Path(file), paths.history(), report)
    print(f"{count} new row{'' if count == 1 else 's'} imported into {paths.history()}")
    return 0


def _json(rows: list[dict[str, Any]]) -> int:
    print_json(rows)
    return 0


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> int:
    """Print rows under their column names; every column as wide as its widest cell."""
    if not rows:
        print("nothing yet: `lmtui run quickstart` makes a first run")
        return 0
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    for row in [list(columns), *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _cell(value: object) -> str:
    if value is None or value == "":
        return EMPTY
    if isinstance(value, list):
        return "; ".join(map(str, value)) or EMPTY
    text = str(value)
    try:
        return f"{float(text):.6g}" if "." in text else _plain(text)
    except ValueError:
        return _plain(text)


def _plain(text: str) -> str:
    """Return the text on one line without control characters: it may come from a server."""
    return "".join(character if character.isprintable() else " " for character in text)
