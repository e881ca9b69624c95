"""Which requests are cut, and when.

profile_throughput, after the dataset and from the same generator (`random`), for each request in order and only with a
cancel rate above 0: picks it when `random() < rate`, and only then draws `randint(0, output_len + 1)`, both ends
included: it is cut once more tokens than that have come. (A draw of output_len or more never cuts; it counts as planned
all the same.) The other rules pick alike and then draw their own point: uniformly between value and value_max when both
are given, else value itself, which draws nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from lmtui.errors import ConfigError

if TYPE_CHECKING:
    from lmtui.config.model import Cancel


@dataclass(frozen=True, slots=True)
class Cut:
    """When a picked request is cut; the fields of PlannedRequest."""

    cancel_after: int | None = None
    cancel_after_s: float | None = None
    cancel_before_token: bool = False


NOT_CUT = Cut()


def draw(cancel: Cancel, output_lens: Sequence[int], generator: Random) -> list[Cut]:
    """Draw the cut of each request.

    Args:
        cancel: The config's section.
        output_lens: Raw output lengths.
        generator: Draws.

    Raises:
        ConfigError: The rule needs a value that is missing, or whose bounds are the wrong way round.
    """
    if cancel.rate == 0:
        return [NOT_CUT] * len(output_lens)
    _check(cancel)
    return [_cut(cancel, length, generator) if generator.random() < cancel.rate else NOT_CUT for length in output_lens]


def _check(cancel: Cancel) -> None:
    if cancel.when in ("after_tokens", "after_seconds") and cancel.value is None:
        unit = "tokens" if cancel.when == "after_tokens" else "seconds"
        raise ConfigError(f"cancel.when = '{cancel.when}' needs cancel.value: the number of {unit}.")
    if cancel.value_max is not None and cancel.value_max < (cancel.value or 0):
        raise ConfigError(
            f"cancel.value_max = {cancel.value_max:g} is below cancel.value = {cancel.value:g}: exchange them."
        )


def _cut(cancel: Cancel, output_len: int, generator: Random) -> Cut:
    if cancel.when == "tokens_uniform":
        return Cut(cancel_after=generator.randint(0, output_len + 1))
    low = cancel.value or 0.0
    if cancel.when == "after_tokens":
        if cancel.value_max is None:
            return Cut(cancel_after=round(low))
        return Cut(cancel_after=generator.randint(round(low), round(cancel.value_max)))
    seconds = low if cancel.value_max is None else generator.uniform(low, cancel.value_max)
    return Cut(cancel_after_s=seconds, cancel_before_token=cancel.when == "before_first_token")
