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


class Causes:
    """Failures counted by outcome and message, numbers and ids aside; the sample is the first message of each."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._samples: dict[tuple[str, str], str] = {}

    def add(self, outcome: Outcome, message: str, count: int = 1) -> None:
        """Count failures with one message; "" where none was recorded."""
        message = message or "no message was recorded"
        key = (outcome.label, _VARYING.sub("#", message))
        self._counts[key] += count
        self._samples.setdefault(key, message)

    def groups(self) -> tuple[ErrorGroup, ...]:
        """Return the causes, the most frequent first. Past 50, the rarest of an outcome are counted together."""
        ranked = self._counts.most_common()
        shown = [ErrorGroup(key[0], self._samples[key], count) for key, count in ranked[:_MOST_GROUPS]]
        rest: Counter[str] = Counter()
        for key, count in ranked[_MOST_GROUPS:]:
            rest[key[0]] += count
        return (*shown, *(ErrorGroup(outcome, "other messages", count) for outcome, count in rest.most_common()))


def groups(sessions: Sessions, errors: Mapping[int, str]) -> tuple[ErrorGroup, ...]:
    """Return the causes of a run's failures; `errors`: index of a request → what went wrong with it."""
    causes = Causes()
    for row, code in enumerate(sessions.outcome.tolist()):
        outcome = Outcome(code)
        if outcome.is_failure:
            message = errors.get(int(sessions.index[row])) or own_words(
                outcome, int(sessions.output_tokens[row]), int(sessions.asked_len[row])
            )
            causes.add(outcome, message)
    return causes.groups()


def own_words(outcome: Outcome, tokens: int, asked: int) -> str:
    """Return what is known of a failure that came without a message: "" but for `short`."""
    if outcome is Outcome.SHORT and tokens != UNKNOWN:
        return f"ended by itself after {tokens} of {asked} tokens although ignore_eos was asked"
    return ""
