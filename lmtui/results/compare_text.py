"""A comparison as plain text for a terminal: signs instead of colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from lmtui.metrics.result import Number
from lmtui.metrics.table import MISSING, UNRESOLVED, clip, number, plain, to_ascii, whole
from lmtui.results.columns import OWN_SOURCE
from lmtui.results.compare import Change, Comparison, Line, Verdict
from lmtui.results.differences import CONFIG, MACHINE, TARGET, VERSIONS, Differs

NARROWEST = 77
"""What 80 columns leave beside a margin and a scroll bar; the table of two runs needs all of it."""
BEST = "*"
SIGNS = {Verdict.BETTER: "▲", Verdict.WORSE: "▼", Verdict.UNCLEAR: "≈", Verdict.SAME: "=", None: " "}

_LABEL = 19
_VALUE = 10
_CHANGE = 9
_PERCENT = 10
_INTERVAL = 17
_GROUP_WORDS = {CONFIG: "config", TARGET: "target", VERSIONS: "versions", MACHINE: "machine"}
_ASCII = str.maketrans({"▲": "^", "▼": "v", "≈": "?", "−": "-"})


def compare_text(comparison: Comparison, width: int = NARROWEST, *, ascii_only: bool = False) -> str:
    """Return the comparison as lines of at most `width` columns (77 at least), without colour or control characters.

    Two runs stand with their difference and its 95 % interval; of more, each is given with its change against the
    first, as many side by side as fit.
    """
    width = max(width, NARROWEST)
    lines: list[str] = []
    for part in (_runs, _warnings, _table, _differs, _notes):
        block = [clip(plain(line).rstrip(), width) for line in part(comparison, width)]
        if block:
            lines += ["", *block] if lines else block
    text = "\n".join(lines)
    return to_ascii(text.translate(_ASCII)) if ascii_only else text


def _runs(comparison: Comparison, width: int) -> Iterator[str]:
    for run in comparison.runs:
        mark = "  SIMULATED" if run.simulated else ""
        yield clip(f"{run.label}  {plain(run.run_id)}", width - len(mark)) + mark
        whence = f"imported from {run.source}" if run.source != OWN_SOURCE else f"started {run.started_at}"
        yield f"   {run.phase} · {run.grade or 'no grade'} · tokens from {run.tokens_from or MISSING} · {whence}"


def _warnings(comparison: Comparison, width: int) -> Iterator[str]:
    for warning in comparison.warnings:
        yield from textwrap.wrap(plain(f"! {warning}"), width, subsequent_indent="  ")


def _table(comparison: Comparison, width: int) -> Iterator[str]:
    if not comparison.lines:
        yield "No run has any figure."
        return
    labels = [run.label for run in comparison.runs]
    lines = _telling(comparison.lines)
    yield from _two(lines, labels) if len(labels) == 2 else _many(lines, labels, width)
    yield from textwrap.wrap(_legend(lines, labels), width)


def _telling(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without token gaps and tokens per tick where every tick was one token: the gaps are ITL then."""
    one_each = all(
        value in (None, 1) for line in lines if line.figure.sample == "tokens_per_tick" for value in line.values
    )
    idle = ("token_gap_ms", "tokens_per_tick") if one_each else ()
    return [line for line in lines if line.figure.sample not in idle]


def _two(lines: Sequence[Line], labels: Sequence[str]) -> Iterator[str]:
    first, second = labels
    name = f"{second} − {first}"
    with_intervals = any(line.changes[0].interval for line in lines)
    interval_words = f"95 % of {name}" if with_intervals else ""
    heading = f"{'':{_LABEL}}{first:>{_VALUE}} {second:>{_VALUE}} {name:>{_CHANGE}}"
    yield heading + f"{'':{_PERCENT}}{interval_words:>{_INTERVAL}}"
    for group, of_group in groupby(lines, lambda line: line.figure.group):
        yield group
        for line in of_group:
            change = line.changes[0]
            yield (
                f"  {line.figure.label:<{_LABEL - 2}}{_cell(line, 0)}{_cell(line, 1)}"
                f"{_signed(change.absolute, line):>{_CHANGE}}{_percent(change)}{_interval(change, line):>{_INTERVAL}}"
            )


def _many(lines: Sequence[Line], labels: Sequence[str], width: int) -> Iterator[str]:
    one = _VALUE + 1 + _PERCENT
    at_once = max(1, (width - _LABEL - _VALUE - 1) // one)
    for start in range(1, len(labels), at_once):
        places = range(start, min(start + at_once, len(labels)))
        if start > 1:
            yield ""
        yield f"{'':{_LABEL}}{labels[0]:>{_VALUE}} " + "".join(
            f"{labels[at]:>{_VALUE}} {'':{_PERCENT}}" for at in places
        )
        for group, of_group in groupby(lines, lambda line: line.figure.group):
            yield group
            for line in of_group:
                others = "".join(_cell(line, at) + _percent(line.changes[at - 1]) for at in places)
                yield f"  {line.figure.label:<{_LABEL - 2}}{_cell(line, 0)}{others}"


def _legend(lines: Sequence[Line], labels: Sequence[str]) -> str:
    against = labels[0]
    words = [f"{BEST} best", f"▲ better than {against}", "▼ worse"]
    if any(change.verdict is Verdict.UNCLEAR for line in lines for change in line.changes):
        words.append("≈ no clear difference: its 95 % interval contains 0")
    if any(any(line.unresolved) for line in lines):
        words.append(f"{UNRESOLVED} sample too small for this percentile: not judged")
    return "   ".join(words)


def _cell(line: Line, place: int) -> str:
    """Return a value with the mark of the best one."""
    text = (UNRESOLVED if line.unresolved[place] else "") + _number(line.values[place], line)
    return f"{text:>{_VALUE}}{BEST if line.best == place else ' '}"


def _number(value: Number, line: Line) -> str:
    return whole(int(value)) if line.figure.is_count and value is not None else number(value)


def _percent(change: Change) -> str:
    if change.percent is None:
        text = "" if change.absolute is None else MISSING
    else:
        text = f"{change.percent:+,.1f}%" if abs(change.percent) < 99_999 else f"{change.percent:+.0e}%"
    return f"{text:>{_PERCENT - 2}} {SIGNS[change.verdict]}"


def _signed(value: Number, line: Line) -> str:
    return ("+" if value is not None and value > 0 else "") + _number(value, line)


def _interval(change: Change, line: Line) -> str:
    if change.interval is None:
        return ""
    low, high = change.interval
    return f"{_signed(low, line)} … {_signed(high, line)}"


def _differs(comparison: Comparison, width: int) -> Iterator[str]:
    if not comparison.differs:
        yield "Config, target, versions and machine are the same, as far as they are known."
        return
    labels = [run.label for run in comparison.runs]
    for group, of_group in groupby(comparison.differs, lambda one: one.group):
        yield f"Differs in {_GROUP_WORDS[group]}"
        for one in of_group:
            yield from _difference(one, labels, width)


def _difference(one: Differs, labels: Sequence[str], width: int) -> Iterator[str]:
    values = [f"{label} {_shown(value)}" for label, value in zip(labels, one.values, strict=True)]
    together = f"  {one.key}: {', '.join(values)}"
    if len(together) <= width:
        yield together
        return
    yield f"  {one.key}:"
    for value in values:
        yield from textwrap.wrap(plain(value), width, initial_indent="    ", subsequent_indent="      ")


def _shown(value: str | None) -> str:
    return "not known" if value is None else value or MISSING


def _notes(comparison: Comparison, width: int) -> Iterator[str]:
    for note in comparison.notes:
        yield from textwrap.wrap(f"· {note}", width, subsequent_indent="  ")
