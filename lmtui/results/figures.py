"""The figures that runs are compared by: column of the history, words, unit, and which direction is better."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """The direction in which a figure is better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        column: Its column in the history; `group` and `label`: the words it is shown under.
        better: None for a figure that describes (how much was asked, how full it was), and for a maximum: one request.
        counts_tokens: Whether it depends on who counted the output tokens.
        is_count: Whether it is a whole number.
    """

    column: str
    group: str
    label: str
    better: Better | None
    counts_tokens: bool = False
    is_count: bool = False

    @property
    def sample(self) -> str:
        """The distribution that it is of: `ttft_ms` of `ttft_ms.p99`; "" of a figure that is not of one."""
        sample, _, name = self.column.rpartition(".")
        return sample if name in _NAMES else ""

    @property
    def name(self) -> str:
        """What it is of its distribution: `p99` of `ttft_ms.p99`."""
        return self.column.rpartition(".")[2]


_CUTS = (("mean", "mean"), ("p50", "P50"), ("p90", "P90"), ("p95", "P95"), ("p99", "P99"), ("max", "max"))
_NAMES = {name for name, _ in _CUTS}
_FEW = (("p50", "P50"), ("p99", "P99"))


def _of(
    sample: str,
    group: str,
    better: Better | None = Better.LOWER,
    *,
    words: str = "",
    cuts: tuple[tuple[str, str], ...] = _CUTS,
    counts_tokens: bool = False,
) -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{sample}.{name}", group, words + label, None if name == "max" else better, counts_tokens)
        for name, label in cuts
    )


FIGURES: tuple[Figure, ...] = (
    Figure("output_throughput", "Throughput", "output tok/s", Better.HIGHER, counts_tokens=True),
    Figure("all_output_throughput", "Throughput", "all output tok/s", Better.HIGHER, counts_tokens=True),
    Figure("peak_output_throughput", "Throughput", "peak output tok/s", Better.HIGHER, counts_tokens=True),
    Figure("request_throughput", "Throughput", "requests/s", Better.HIGHER),
    Figure("input_throughput", "Throughput", "input tok/s", Better.HIGHER),
    Figure("goodput", "Throughput", "goodput req/s", Better.HIGHER),
    Figure("goodput_share", "Throughput", "goodput share", Better.HIGHER),
    Figure("achieved_rate", "Throughput", "achieved req/s", None),
    *_of("ttft_ms", "TTFT ms"),
    *_of("tpot_ms", "TPOT ms", counts_tokens=True),
    *_of("itl_ms", "ITL ms"),
    *_of("token_gap_ms", "Token gap ms", counts_tokens=True),
    *_of("e2e_ms", "E2E ms"),
    *_of("queue_ms", "Queue ms", cuts=_FEW),
    *_of("ttft_from_due_ms", "TTFT from due ms"),
    *_of("e2e_from_due_ms", "E2E from due ms"),
    *_of("connect_ms", "Connect ms", cuts=_FEW),
    *_of("tokens_per_tick", "Tokens per tick", None, cuts=_FEW, counts_tokens=True),
    Figure("steady.output_throughput", "Steady window", "output tok/s", Better.HIGHER, counts_tokens=True),
    Figure("steady.request_throughput", "Steady window", "requests/s", Better.HIGHER),
    *_of("steady.ttft_ms", "Steady window", words="TTFT ms ", cuts=_FEW),
    *_of("steady.itl_ms", "Steady window", words="ITL ms ", cuts=_FEW),
    Figure("cancel.planned", "Cancel", "planned", None, is_count=True),
    Figure("cancel.done", "Cancel", "done", None, is_count=True),
    Figure("cancel.missed", "Cancel", "missed", None, is_count=True),
    Figure("cancel.wasted_share", "Cancel", "wasted share", Better.LOWER, counts_tokens=True),
    *_of("cancel.let_go_ms", "Cancel", words="let go ms ", cuts=_FEW),
    *_of("cancel.survivors.ttft_ms", "Survivors of cancels", words="TTFT ms ", cuts=_FEW),
    *_of("cancel.survivors.tpot_ms", "Survivors of cancels", words="TPOT ms ", cuts=_FEW, counts_tokens=True),
    *_of("cancel.survivors.itl_ms", "Survivors of cancels", words="ITL ms ", cuts=_FEW),
    *_of("cancel.survivors.e2e_ms", "Survivors of cancels", words="E2E ms ", cuts=_FEW),
    Figure("duration_s", "Run", "duration s", None),
    Figure("outcomes.ok", "Run", "ok requests", None, is_count=True),
    Figure("total_input_tokens", "Run", "input tokens", None, is_count=True),
    Figure("total_output_tokens", "Run", "output tokens", None, is_count=True),
    Figure("mean_in_flight", "Run", "mean in flight", None),
    Figure("peak_in_flight", "Run", "peak in flight", None, is_count=True),
)
"""In the order they are shown in."""

SURVIVORS = "cancel.survivors."
"""With nothing picked to be cancelled every `ok` request is a survivor: the figure is the run's own."""
