"""The run that a cancel experiment stands beside: the same, with nobody hanging up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lmtui import paths
from lmtui.config.declared import DECLARED, Declared, applies
from lmtui.errors import LmtuiError
from lmtui.metrics.distribution import PERCENTILES
from lmtui.metrics.result import Distribution
from lmtui.results import history, remarks
from lmtui.results.columns import OWN_SOURCE, cell
from lmtui.results.differences import SAYS_NOTHING
from lmtui.results.rows import Row

_MAY_DIFFER = {"cancel", "slo"}
"""Sections that do not change what requests meet where none is cancelled."""
_LEFT_OPEN = {"", "auto"}
"""Values of `target.*` for which the target finds one of its own; the history holds that one."""


def baseline(config: Mapping[str, object], rows: Sequence[Row]) -> Row | None:
    """Return the newest of `rows` that was asked the same as `config` at `cancel.rate` = 0, and ran to its end.

    Args:
        config: Key → value of the experiment, all of them.
        rows: Of the history, the oldest first.
    """
    kind = str(config["target.kind"])
    asked = [
        (one, cell(config.get(one.key)))
        for one in DECLARED
        if one.section not in _MAY_DIFFER and one.key not in SAYS_NOTHING and applies(one, kind)
    ]
    for row in reversed(rows):
        is_without_cancels = row.text("source") == OWN_SOURCE and row.number("cancel.rate") == 0
        if is_without_cancels and row.text("phase") == "done" and all(_same(row, one, value) for one, value in asked):
            return row
    return None


def find(config: Mapping[str, object]) -> Row | None:
    """Return the baseline of `config` in the history (reads it); None also where that cannot be read."""
    try:
        return baseline(config, remarks.applied(history.read(paths.history()), remarks.read(paths.history())))
    except LmtuiError:
        return None  # the results screen says what is wrong with it


def latency(row: Row, key: str) -> Distribution:
    """Return the figures of a latency (`ttft_ms`) in a row; what it does not hold is missing."""
    names = ("mean", "std", "min", "p50", "p75", "p90", "p95", "p99", "p99_9", "max")
    n = row.count(f"{key}.n") or 0
    return Distribution(
        **{name: row.number(f"{key}.{name}") for name in names},
        n=n,
        unresolved=tuple(name for name, _, smallest in PERCENTILES if n < smallest),
    )


def _same(row: Row, one: Declared, value: str) -> bool:
    if one.section == "target" and value in _LEFT_OPEN:
        return True
    held = row.text(one.key)
    return held == value or (not held and value == cell(one.default))  # an older row lacks the newer keys
