"""Failures grouped by cause, with one sample each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from lmtui.metrics.result import ErrorGroup
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions

_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+(?:\.\d+)?")
"""Numbers and ids: what differs between two messages of one cause."""

_MOST_GROUPS = 50
_NO_MESSAGE = "no message was recorded"


def groups(sessions: Sessions, errors: Mapping[int, str]) -> tuple[ErrorGroup, ...]:
    """Return the failed requests by outcome and message (numbers and ids aside), the most frequent first.

    The sample is the message of the first such request. Past 50 groups, the rarest of an outcome are counted together.
    """
    counts: Counter[tuple[str, str]] = Counter()
    samples: dict[tuple[str, str], str] = {}
    for row, code in enumerate(sessions.outcome.tolist()):
        outcome = Outcome(code)
        if not outcome.is_failure:
            continue
        message = errors.get(int(sessions.index[row]), "") or _message(sessions, row, outcome)
        key = (outcome.label, _VARYING.sub("#", message))
        counts[key] += 1
        samples.setdefault(key, message)
    ranked = counts.most_common()
    shown = [ErrorGroup(key[0], samples[key], count) for key, count in ranked[:_MOST_GROUPS]]
    rest: Counter[str] = Counter()
    for key, count in ranked[_MOST_GROUPS:]:
        rest[key[0]] += count
    return (*shown, *(ErrorGroup(outcome, "other messages", count) for outcome, count in rest.most_common()))


def _message(sessions: Sessions, row: int, outcome: Outcome) -> str:
    tokens = int(sessions.output_tokens[row])
    if outcome is Outcome.SHORT and tokens != UNKNOWN:
        return f"ended by itself after {tokens} of {int(sessions.asked_len[row])} tokens although ignore_eos was asked"
    return _NO_MESSAGE
