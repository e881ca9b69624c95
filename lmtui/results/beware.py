"""What to beware of when rows of the history are compared, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmtui.results.differences import differences
from lmtui.results.rows import Row


def warnings(labels: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the sentences; `labels` are the letters that the rows are called by."""
    named = list(zip(labels, rows, strict=True))
    return tuple(
        sentence
        for part in (_same_run, _simulated, _token_sources, _grades, _phases, _requests)
        for sentence in part(named)
    )


_Named = Sequence[tuple[str, Row]]


def _by(named: _Named, column: str) -> str:
    """Return who has what: `A 0, B 1`."""
    return ", ".join(f"{label} {row.text(column) or 'not known'}" for label, row in named)


def _same_run(named: _Named) -> Iterator[str]:
    seen: dict[str, str] = {}
    for label, row in named:
        first = seen.setdefault(row.text("run_id"), label)
        if first != label:
            yield f"{first} and {label} are the same run"


def _simulated(named: _Named) -> Iterator[str]:
    simulated = [label for label, row in named if row.flag("simulated")]
    real = [label for label, row in named if not row.flag("simulated")]
    if simulated and real:
        are_not = f"{', '.join(real)} {'is' if len(real) == 1 else 'are'} not"
        are = f"{', '.join(simulated)} {'is' if len(simulated) == 1 else 'are'} SIMULATED"
        yield f"{are}, {are_not}: a model of an engine says nothing about a real one"


def _token_sources(named: _Named) -> Iterator[str]:
    sources = {row.text("tokens_from") for _, row in named}
    if len(sources - {""}) > 1:
        yield (
            f"output tokens were counted differently ({_by(named, 'tokens_from')}): figures that count them, such as "
            "output tok/s and TPOT, are shown but not judged"
        )
    elif "" in sources and len(sources) > 1:
        yield f"who counted the output tokens is not known of every run ({_by(named, 'tokens_from')})"


def _grades(named: _Named) -> Iterator[str]:
    for label, row in named:
        if row.text("grade") in ("suspect", "invalid"):
            reasons = row.text("reasons")
            yield f"{label} is {row.text('grade')}" + (f": {reasons}" if reasons else "")


def _phases(named: _Named) -> Iterator[str]:
    for label, row in named:
        if (phase := row.text("phase")) != "done":
            yield f"{label} did not finish ({phase or 'phase not known'}): its figures are those of a part of its plan"


def _requests(named: _Named) -> Iterator[str]:
    """Say when the runs were not asked the same."""
    rows = [row for _, row in named]
    keys = [
        one.key
        for one in differences(rows)
        if one.key == "seed" or one.key.startswith(("dataset.", "guided.")) or one.key == "load.num_prompts"
    ]
    if keys:
        asked = "; ".join(f"{key}: {_by(named, key)}" for key in keys)
        yield f"the runs were asked different requests ({asked})"
