"""What differs between rows of the history besides their figures: config, target, versions, machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmtui.config.declared import applies, by_key
from lmtui.results.columns import OWN_SOURCE
from lmtui.results.rows import Row

CONFIG, TARGET, VERSIONS, MACHINE = "config", "target", "versions", "machine"
GROUPS = (CONFIG, TARGET, VERSIONS, MACHINE)

SAYS_NOTHING = {"schema", "name", "notes", "tags"}
"""Keys that change nothing about a run."""
_VERSIONS = (
    "target.versions.",
    "environment.packages.",
    "environment.lmtui",
    "environment.python",
    "environment.kernel",
)


@dataclass(frozen=True, slots=True)
class Differs:
    """A column that is not the same for all rows.

    Attributes:
        group: One of `GROUPS`.
        key: The column: `load.concurrency`, `environment.host`.
        values: Its cell in each row, "" for null; None where a row of another source does not say.
    """

    group: str
    key: str
    values: tuple[str | None, ...]


def differences(rows: Sequence[Row]) -> tuple[Differs, ...]:
    """Return what differs, by group, in the order of the columns."""
    kinds = {row.text("target.kind") for row in rows}
    found = []
    for column in dict.fromkeys(column for row in rows for column in row):
        group = _group(column, kinds)
        if group is None:
            continue
        values = tuple(_known(row, column) for row in rows)
        if len({value for value in values if value is not None}) > 1:
            found.append(Differs(group, column, values))
    return tuple(sorted(found, key=lambda one: GROUPS.index(one.group)))


def _group(column: str, kinds: set[str]) -> str | None:
    """Return the group of a column; None for one that is no setting, or one that no row's kind of target heeds."""
    declared = by_key(column)
    if declared is not None:
        heeded = any(applies(declared, kind) for kind in kinds)
        is_silent = column in SAYS_NOTHING or not heeded
        return None if is_silent else TARGET if declared.section == "target" else CONFIG
    if column.startswith(_VERSIONS):
        return VERSIONS
    return TARGET if column.startswith("target.") else MACHINE if column.startswith("environment.") else None


def _known(row: Row, column: str) -> str | None:
    """Return a cell; None where it is empty because the row is not one of lmtui's own, which say everything."""
    return row.text(column) or ("" if row.text("source") == OWN_SOURCE else None)
