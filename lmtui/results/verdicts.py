"""What a run must not come to for its command to succeed: `--strict`, `--fail-if ttft.p99>200`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmtui.errors import ConfigError
from lmtui.metrics.result import Result
from lmtui.results import columns
from lmtui.results.row_filter import TERM, column_of, meets


@dataclass(frozen=True, slots=True)
class Term:
    """A column, how its cell is compared (`<`, `:`), and with what."""

    column: str
    comparison: str
    wanted: str


class Verdicts:
    """What a command line asks of a result: `--strict`, and `--fail-if`, which is met when all of its terms are."""

    def __init__(self, conditions: Sequence[str], *, strict: bool = False) -> None:
        """Read them; `strict`: the grade must be good, too.

        Raises:
            ConfigError: A part is no term, or names no figure or key.
        """
        self._is_strict = strict
        known = columns.names()
        self._conditions = [(text, [_term(text, part, known) for part in _parts(text)]) for text in conditions]

    def failed(self, result: Result) -> Iterator[str]:
        """Yield a sentence for each condition that the result meets, and for each that a missing figure leaves open."""
        if self._is_strict and result.client.grade != "good":
            yield f"--strict: the grade is {result.client.grade}, not good"
        cells = columns.cells(result)
        for text, terms in self._conditions:
            missing = [term.column for term in terms if not cells.get(term.column)]
            if missing:
                yield f"--fail-if {text}: {', '.join(missing)} is missing"
            elif all(meets(cells[term.column], term.comparison, term.wanted) for term in terms):
                yield f"--fail-if {text}: {', '.join(f'{term.column} is {cells[term.column]}' for term in terms)}"


def _parts(text: str) -> list[str]:
    parts = text.split()
    if not parts:
        raise ConfigError("--fail-if: it is empty; give a term, such as ttft.p99>200 or grade!=good")
    return parts


def _term(text: str, part: str, known: Sequence[str]) -> Term:
    match = TERM.fullmatch(part)
    if match is None:
        raise ConfigError(
            f"--fail-if {text}: {part} is no term; write a figure, a comparison and a value without spaces, such as "
            "ttft.p99>200 or grade!=good"
        )
    column = column_of(match[1], known)
    if column is None:
        raise ConfigError(
            f"--fail-if {text}: there is no figure or key {match[1]}; `lmtui results --json` shows all names, such as "
            "ttft_ms.p99, output_throughput or outcomes.timeout"
        )
    return Term(column, match[2], match[3])
