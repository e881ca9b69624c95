"""Several runs side by side: their figures, what is better, what differs between them, and what to beware of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from lmtui.errors import LmtuiError
from lmtui.metrics import bootstrap
from lmtui.metrics.distribution import PERCENTILES
from lmtui.metrics.latencies import latencies
from lmtui.metrics.result import Number, Result
from lmtui.metrics.sessions import Sessions
from lmtui.results import columns
from lmtui.results.beware import warnings
from lmtui.results.differences import Differs, differences
from lmtui.results.figures import FIGURES, SURVIVORS, Better, Figure
from lmtui.results.rows import Row

MOST_RUNS = len(ascii_uppercase)
SEED = 95
SHOWN_SHARE = 0.0005
"""A difference of less than 0.05 % is shown as 0.0 % and called none."""

_SMALLEST = {name: smallest for name, _, smallest in PERCENTILES}
_Replicates = dict[str, dict[str, NDArray[np.float64]]]
"""Sample → figure → replicates."""


class Verdict(Enum):
    """What a difference says of a run against the first one."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "no clear difference"
    """The 95 % interval of the difference contains 0."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A run to compare: its row of the history and, where its tick logs are at hand, its sessions."""

    row: Row
    sessions: Sessions | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One of the compared runs. `simulated` and `tokens_from` are None where they are not known.

    `has_requests`: whether its requests are at hand, so that its figures have intervals.
    """

    label: str
    run_id: str
    name: str
    phase: str
    started_at: str
    source: str
    grade: str
    simulated: bool | None
    tokens_from: str | None
    has_requests: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A run's figure against the first run's. Null: a figure is missing, or nothing can be said.

    Attributes:
        absolute: Its value − the first's. percent: that, of the first's.
        interval: 95 % of the differences between runs drawn from the requests of both lie in it.
        verdict: Null also for a figure that is neither better nor worse, a percentile that a sample cannot resolve,
            token counts of different sources, and a latency without the interval that the runs' requests could give.
    """

    absolute: Number = None
    percent: Number = None
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of all runs.

    Attributes:
        values: One per run; null is missing.
        unresolved: Per run, whether its sample is too small for this percentile.
        intervals: Per run, the 95 % interval over its requests.
        changes: One per run after the first.
        best: Place of the run that is clearly better than every other; None when there is none.
    """

    figure: Figure
    values: tuple[Number, ...]
    unresolved: tuple[bool, ...]
    intervals: tuple[tuple[float, float] | None, ...]
    changes: tuple[Change, ...]
    best: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs side by side. Figures that no run has are left out."""

    runs: tuple[Run, ...]
    lines: tuple[Line, ...]
    differs: tuple[Differs, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def subject(result: Result, sessions: Sessions | None = None) -> Subject:
    """Return a result as something to compare."""
    cells = columns.cells(result)
    return Subject(Row({column: place for place, column in enumerate(cells)}, list(cells.values())), sessions)


def compare(subjects: Sequence[Subject]) -> Comparison:
    """Return the comparison; differences are to the first run.

    Raises:
        LmtuiError: There are fewer than two, or more than there are letters.
    """
    if not 2 <= len(subjects) <= MOST_RUNS:
        raise LmtuiError(f"{len(subjects)} runs cannot be compared: name two to {MOST_RUNS}")
    runs = tuple(_run(label, one) for label, one in zip(ascii_uppercase, subjects, strict=False))
    drawn = [_drawn(one, place) for place, one in enumerate(subjects)]
    rows = [one.row for one in subjects]
    is_one_source = len({run.tokens_from for run in runs if run.tokens_from}) <= 1
    cancels = any(row.text("cancel.planned") for row in rows)
    lines = [
        _line(figure, rows, drawn, comparable=is_one_source or not figure.counts_tokens)
        for figure in FIGURES
        if cancels or not figure.column.startswith(SURVIVORS)
    ]
    return Comparison(
        runs,
        tuple(line for line in lines if any(value is not None for value in line.values)),
        differences(rows),
        warnings([run.label for run in runs], rows),
        tuple(_notes(runs)),
    )


def _run(label: str, one: Subject) -> Run:
    row = one.row
    return Run(
        label=label,
        run_id=row.text("run_id"),
        name=row.text("name"),
        phase=row.text("phase"),
        started_at=row.text("started_at"),
        source=row.text("source"),
        grade=row.text("grade"),
        simulated=row.flag("simulated"),
        tokens_from=row.text("tokens_from") or None,
        has_requests=one.sessions is not None,
    )


def _drawn(one: Subject, place: int) -> _Replicates | None:
    """Return the replicates of a run's figures; each run has a generator of its own."""
    if one.sessions is None:
        return None
    random = np.random.default_rng((SEED, place))
    samples = latencies(one.sessions, closed_load=one.row.text("load.mode") == "closed")
    return {name: bootstrap.replicates(latency, random) for name, latency in samples.items()}


def _line(figure: Figure, rows: Sequence[Row], drawn: Sequence[_Replicates | None], *, comparable: bool) -> Line:
    values = [row.number(_column(row, figure)) for row in rows]
    unresolved = [_is_unresolved(row, figure) for row in rows]
    replicates = [_replicates(row, figure, of_run) for row, of_run in zip(rows, drawn, strict=True)]

    def change(place: int, base: int = 0) -> Change:
        pair = (base, place)
        is_proven = all(replicates[at] is not None for at in pair)
        could_be = bool(figure.sample) and all(drawn[at] is not None for at in pair)
        is_judged = comparable and not any(unresolved[at] for at in pair) and (is_proven or not could_be)
        better = figure.better if is_judged else None
        return _change(better, values[base], values[place], replicates[base], replicates[place])

    known = [place for place, value in enumerate(values) if value is not None]
    return Line(
        figure,
        tuple(values),
        tuple(unresolved),
        tuple(None if found is None else bootstrap.interval(found) for found in replicates),
        tuple(change(place) for place in range(1, len(rows))),
        next((place for place in known if _is_best(place, known, change)), None),
    )


def _is_best(place: int, known: Sequence[int], change: Callable[[int, int], Change]) -> bool:
    others = [base for base in known if base != place]
    return bool(others) and all(change(place, base).verdict is Verdict.BETTER for base in others)


def _change(
    better: Better | None,
    first: Number,
    value: Number,
    of_first: NDArray[np.float64] | None,
    of_value: NDArray[np.float64] | None,
) -> Change:
    if first is None or value is None:
        return Change()
    absolute = value - first
    interval = None if of_first is None or of_value is None else bootstrap.interval(of_value - of_first)
    verdict = None
    if better is not None:
        if abs(absolute) <= SHOWN_SHARE * abs(first):
            verdict = Verdict.SAME
        elif interval is not None and interval[0] <= 0 <= interval[1]:
            verdict = Verdict.UNCLEAR
        else:
            verdict = Verdict.BETTER if (absolute > 0) is (better is Better.HIGHER) else Verdict.WORSE
    return Change(absolute, 100 * absolute / abs(first) if first else None, interval, verdict)


def _replicates(row: Row, figure: Figure, drawn: _Replicates | None) -> NDArray[np.float64] | None:
    sample, _, name = _column(row, figure).rpartition(".")
    return None if drawn is None or row.number(_column(row, figure)) is None else drawn.get(sample, {}).get(name)


def _is_unresolved(row: Row, figure: Figure) -> bool:
    n = row.count(_column(row, figure).rpartition(".")[0] + ".n")
    return n is not None and n < _SMALLEST.get(figure.name, 0)


def _column(row: Row, figure: Figure) -> str:
    nothing_picked = not row.text("cancel.planned") and row.number("cancel.rate") == 0
    return figure.column.removeprefix(SURVIVORS) if nothing_picked else figure.column


def _notes(runs: Sequence[Run]) -> list[str]:
    without = [run.label for run in runs if not run.has_requests]
    notes = []
    if len(runs) - len(without) > 0:
        notes.append(
            "95 % intervals are a bootstrap over the requests of one run each: what differs from run to run is not in "
            "them, so repeat the runs before you trust a small difference. Throughput has none: "
            "its signs say higher or lower"
        )
    if without:
        notes.append(
            f"no intervals for {', '.join(without)}: its requests are not at hand, only its row of the history"
        )
    return notes
