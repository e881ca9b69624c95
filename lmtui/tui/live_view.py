"""What the live screen shows at one moment: an immutable value that a feed makes and the screen only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.result import Distribution, ErrorGroup, Result

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.runner.rundir import RunDirectory, Status
    from lmtui.tui.replay import Recording

BIN_S = 1.0
"""Width of the bins of every series."""


def bin_times_s(bins: int) -> NDArray[np.float64]:
    """Return the middles of that many bins, in seconds after the start."""
    return np.asarray((np.arange(bins, dtype=np.float64) + 0.5) * BIN_S)


def _nothing() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True, slots=True)
class CancelView:
    """The cancel experiment so far. `survivors`: latency → its figures of the requests that the plan did not pick."""

    planned: int
    done: int
    missed: int
    wasted_tokens: int | None
    let_go_p50_ms: float | None = None
    survivors: Mapping[str, Distribution] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LiveView:
    """One moment of a run.

    Attributes:
        status: The run's status; None before the first was read, and when the directory is gone.
        is_gone: Whether the directory is gone.
        elapsed_s: Since the load's release; None before.
        planned, sent, in_flight, done: Requests.
        outcomes: Outcome → count of the requests that are over.
        tokens: Output tokens so far.
        output_tokens_per_s: Per bin of BIN_S since the release; the bin that is not over is left out.
        latencies: Metric ("ttft_ms", "itl_ms") → (P50, P99) per bin; NaN where nothing came.
        percentiles: Words of a metric → its figures so far.
        errors: Failures by cause.
        cancel: None when the plan cancels nothing.
    """

    status: Status | None = None
    is_gone: bool = False
    elapsed_s: float | None = None
    planned: int = 0
    sent: int = 0
    in_flight: int = 0
    done: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    output_tokens_per_s: NDArray[np.float64] = field(default_factory=_nothing)
    latencies: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)
    percentiles: Mapping[str, Distribution] = field(default_factory=dict)
    errors: tuple[ErrorGroup, ...] = ()
    cancel: CancelView | None = None


class RunFeed(Protocol):
    """Where the live screen gets a run from."""

    @property
    def run(self) -> RunDirectory:
        """The run."""

    async def follow(self) -> None:
        """Read the run until it is over and all of it was read."""

    def view(self) -> LiveView:
        """Return the newest moment; the same object when nothing came since."""

    def take_log(self) -> str:
        """Return the text of the log that came since the last call."""

    def config(self) -> Config | None:
        """Return the run's config (reads its file); None when it cannot be read."""

    def result(self) -> Result | None:
        """Return the result of a run that is over (reads its file); None when it has none."""

    def recording(self) -> Recording:
        """Return the tick logs of a run that is over, to be played again (reads them).

        Raises:
            LmtuiError: They are gone.
        """
