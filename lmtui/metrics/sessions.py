"""What a run recorded, as arrays: one row per request, one per tick. Everything that is computed starts here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1
"""Stands for a missing count or time in integer columns; it never reaches a result, where missing is null."""


class Outcome(IntEnum):
    """How a request ended. The numbers are stored in tick logs: never renumber."""

    OK = 0
    CANCELLED = 1
    SHORT = 2
    HTTP_ERROR = 3
    STREAM_ERROR = 4
    BAD_FINISH = 5
    TRUNCATED = 6
    NO_TOKEN = 7
    PROTOCOL_ERROR = 8
    TIMEOUT = 9
    CONNECT_ERROR = 10
    ABORTED = 11
    DROPPED = 12

    @property
    def label(self) -> str:
        """The outcome's word in results: `http_error`."""
        return self.name.lower()

    @property
    def is_failure(self) -> bool:
        """Whether the target failed the request: everything but ok, the plan's cancels, and the run's own end."""
        return self not in (Outcome.OK, Outcome.CANCELLED, Outcome.ABORTED, Outcome.DROPPED)


class TokenSource(IntEnum):
    """Where a request's token count comes from, best first. Stored in tick logs: never renumber."""

    NONE = 0
    ENGINE = 1
    USAGE = 2
    TEXT = 3
    CHUNKS = 4

    @property
    def label(self) -> str | None:
        """The source's word in results; None for NONE."""
        return self.name.lower() if self else None


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """All requests of one run and their ticks. Times are int64 nanoseconds of one monotonic clock; UNKNOWN: missing.

    Attributes (n requests that were planned and are known by the log, sorted by index):
        index: Place in the plan.
        due_ns: When it should have gone. sent_ns: when it went. end_ns: when it was over.
        input_len: Prompt tokens as drawn or tokenised here.
        prompt_tokens: Prompt tokens as the server or engine counted them. cached_tokens: those of them from its cache.
        asked_len: Output tokens asked for.
        output_tokens: Output tokens by `token_source` (UNKNOWN: use the ticks).
        token_source: TokenSource. outcome: Outcome.
        cancel_planned: Whether the plan picked it to be cancelled.
        connect_ns: How long opening its connection took. let_go_ns: from the cut until the target let go.
        wasted_tokens: Tokens that came after the cut.
        tick_start: n + 1 offsets into the tick columns; the ticks of row i are tick_start[i]:tick_start[i + 1].
        tick_ns, tick_tokens: Arrival, and cumulative tokens after it (UNKNOWN where the target does not say).
        planned: Requests in the plan; those beyond the rows were `dropped`.
        start_ns: The release of the load (closed) or first due; 0 when the log has none.
    """

    index: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    input_len: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    asked_len: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    token_source: NDArray[np.uint8]
    outcome: NDArray[np.uint8]
    cancel_planned: NDArray[np.bool_]
    connect_ns: NDArray[np.int64]
    let_go_ns: NDArray[np.int64]
    wasted_tokens: NDArray[np.int64]
    tick_start: NDArray[np.int64]
    tick_ns: NDArray[np.int64]
    tick_tokens: NDArray[np.int64]
    planned: int
    start_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class ClientSamples:
    """What the load workers noticed about themselves.

    Attributes:
        clock: "kernel" when every stamp is the kernel's receive stamp, else "user".
        loop_lag_ns, read_lag_ns: Samples: how late the loop was; how long bytes lay before the read.
        coalesced, events: Events that shared a stamp because the read came over 1 ms late, of all events.
        cpu_s: User + system seconds of the load workers from release to last end; None when not measured.
        busiest_core_share: Of the busiest worker: cpu_s / wall seconds; None when not measured or an engine ran inside.
        clock_steps: Jumps of the wall clock of over 1 ms.
        replaced: Kept connections that the server had closed, replaced within a request.
        engine_inside: The engine ran in the load worker's process (its CPU is not the client's).
    """

    clock: str
    loop_lag_ns: NDArray[np.int64]
    read_lag_ns: NDArray[np.int64]
    coalesced: int = 0
    events: int = 0
    cpu_s: float | None = None
    busiest_core_share: float | None = None
    clock_steps: int = 0
    replaced: int = 0
    engine_inside: bool = False
