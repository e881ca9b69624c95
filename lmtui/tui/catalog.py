"""What the start screen lists: live runs, saved configs, presets, each with its last result. No Textual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmtui import paths
from lmtui.charts.ticks import milliseconds, short
from lmtui.errors import LmtuiError
from lmtui.tui.plain import line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lmtui.config.document import Document
    from lmtui.config.model import Config
    from lmtui.results.rows import Row
    from lmtui.runner.rundir import RunDirectory, Status


@dataclass(frozen=True, slots=True)
class Last:
    """The last result of a config."""

    run_id: str
    output_throughput: str
    ttft_p50_ms: str
    itl_p50_ms: str
    grade: str
    phase: str
    started_at: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the start screen.

    Attributes:
        name: The config's name.
        source: "live", "saved" or "preset".
        target, model, load: What it measures, in a word or two; "" when it is not known.
        problem: The first thing wrong with the config; "" when nothing is.
        notes: The config's notes.
        text: Its file; "" for a live run.
        last: Its last result, when it has one.
        run: The run, when it is live.
        status: The run's status, when it is live.
    """

    name: str
    source: str
    target: str = ""
    model: str = ""
    load: str = ""
    problem: str = ""
    notes: str = ""
    text: str = ""
    last: Last | None = None
    run: RunDirectory | None = None
    status: Status | None = None

    @property
    def words(self) -> str:
        """What a filter looks through."""
        return f"{self.name} {self.source} {self.target} {self.model} {self.load} {self.notes}".lower()


def load(name: str, source: str) -> Document:
    """Return the config of an entry."""
    from lmtui.config import presets, store

    return presets.load(name) if source == "preset" else store.load(name)


def configs(last_results: LastResults) -> tuple[list[Entry], str]:
    """Return saved configs, then presets, and what is wrong with the history ("" when nothing is).

    A config that cannot be read says why in its entry.
    """
    from lmtui.config import presets, store

    problem = ""
    try:
        last = last_results.read()
    except LmtuiError as error:
        last, problem = {}, line(str(error))
    entries = [
        _entry(name, source, last)
        for source, names in (("saved", store.names()), ("preset", presets.names()))
        for name in names
    ]
    return entries, problem


def _entry(name: str, source: str, last: Mapping[str, Last]) -> Entry:
    try:
        document = load(name, source)
    except LmtuiError as error:
        return Entry(name, source, problem=line(str(error)))
    checked = document.check()
    problem = checked.problems[0].message if checked.problems else ""
    return Entry(
        name=name,
        source=source,
        target=_word(document, "target.kind"),
        model=_model(document),
        load=load_words(checked.config) if checked.config else "",
        problem=line(problem),
        notes=_word(document, "notes"),
        text=document.text(),
        last=last.get(_word(document, "name")) or last.get(name),
    )


def _word(document: Document, key: str) -> str:
    value = document.get(key)
    return "" if value is None else line(str(value))


def _model(document: Document) -> str:
    model = _word(document, "target.model") or _word(document, "target.base_url")
    return model.rstrip("/").rpartition("/")[2] if "/" in model and "://" not in model else model


def load_words(config: Config) -> str:
    """Return a load in two words: `64 at once`, `4 req/s`."""
    load = config.load
    if load.mode == "closed":
        return f"{load.concurrency} at once"
    if load.mode == "trace":
        return "trace"
    return "all at once" if load.rate == float("inf") else f"{load.rate:g} req/s"


def last_results() -> dict[str, Last]:
    """Return the last result of each config name.

    Raises:
        LmtuiError: The history cannot be read.
    """
    from lmtui.results import history

    rows = {row.text("name"): row for row in history.read(paths.history())}
    return {name: _last(row) for name, row in rows.items()}


def _last(row: Row) -> Last:
    return Last(
        run_id=row.text("run_id"),
        output_throughput=short(row.number("output_throughput")),
        ttft_p50_ms=milliseconds(row.number("ttft_ms.p50")),
        itl_p50_ms=milliseconds(row.number("itl_ms.p50")),
        grade=row.text("grade"),
        phase=row.text("phase"),
        started_at=row.text("started_at"),
    )


class LastResults:
    """The last result of each config name, read again only when the history changed."""

    def __init__(self) -> None:
        self._stamp: tuple[int, int] | None = None
        self._found: dict[str, Last] = {}

    def read(self) -> dict[str, Last]:
        """Return them. Raises LmtuiError as `last_results`."""
        stamp = history_stamp()
        if stamp != self._stamp:
            self._found = last_results()
            self._stamp = stamp
        return self._found


def history_stamp() -> tuple[int, int] | None:
    """Return what changes when the history does; None when there is none."""
    try:
        stat = paths.history().stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


class LiveRuns:
    """Finds the runs that are not over, without reading those that are again."""

    def __init__(self) -> None:
        self._over: set[str] = set()

    def poll(self) -> list[Entry]:
        """Return the live runs, newest first. A run whose process is gone is summarised on the way."""
        from lmtui.runner import runs
        from lmtui.runner.rundir import RunDirectory

        found = []
        for folder in sorted(paths.runs().iterdir(), reverse=True):
            if folder.name in self._over or folder.name.startswith(".") or not folder.is_dir():
                continue
            run = RunDirectory(folder)
            try:
                status = runs.current(run)
            except (LmtuiError, OSError):
                self._over.add(folder.name)  # it cannot be read: nothing to show of it
                continue
            if status.is_final:
                self._over.add(folder.name)
            else:
                found.append(_live(run, status))
        return found


def _live(run: RunDirectory, status: Status) -> Entry:
    return Entry(
        name=line(status.name),
        source="live",
        target=line(status.target_kind or ""),
        model=line(status.target_model or ""),
        load=progress_words(status),
        run=run,
        status=status,
    )


def progress_words(status: Status) -> str:
    """Return how far a run is: `running 45/100`."""
    counts = status.counts
    if status.phase in ("running", "draining") and counts.planned:
        return f"{status.phase} {counts.done}/{counts.planned}"
    return status.phase


def filtered(entries: Sequence[Entry], words: str) -> list[Entry]:
    """Return the entries that have all the words."""
    wanted = words.lower().split()
    return [entry for entry in entries if all(word in entry.words for word in wanted)]
