"""The seam between the load and whatever answers: a target performs one request and reports it to its session."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lmtui.config.model import Config
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.workload.plan import PlannedRequest


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What a target says of itself once it is open.

    Attributes:
        model: The model's name or path as the target knows it.
        versions: Package or server → version.
        limits: Words for a limit → value (`max_batch_size`, `session_len`).
        notes: Sentences for the result (a dropped optional field, a fallback).
        simulated: Whether no real engine or server answers.
        dropped_fields: Request fields that the server rejected and the run leaves out (`request.ignore_eos` → a
            natural stop is then `ok`).
    """

    model: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | float | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    simulated: bool = False
    dropped_fields: tuple[str, ...] = ()


class Session(Protocol):
    """The record of one request while it runs. Times are `time.monotonic_ns` (or the virtual clock's) nanoseconds."""

    request: PlannedRequest
    cut_as: Outcome | None
    """Set once the request must stop: CANCELLED (the plan), ABORTED (the run ends) or TIMEOUT."""
    on_cut: Callable[[], None] | None
    """Set by a target that can be interrupted while it waits: called once, in the loop, when `cut_as` is set."""

    def sent(self, at_ns: int) -> None:
        """Record that the request goes now, and start its timers."""

    def tick(self, at_ns: int, tokens: int) -> bool:
        """Record an arrival; `tokens` is cumulative, UNKNOWN when not told. True: stop now, `cut_as` says as what."""

    def over(self, at_ns: int) -> None:
        """Record that nothing more comes and nothing can be cut; `end` follows once the tokens are counted."""

    def end(
        self,
        outcome: Outcome,
        at_ns: int,
        *,
        output_tokens: int = UNKNOWN,
        token_source: TokenSource = TokenSource.NONE,
        prompt_tokens: int = UNKNOWN,
        cached_tokens: int = UNKNOWN,
        connect_ns: int = UNKNOWN,
        let_go_ns: int = UNKNOWN,
        wasted_tokens: int = UNKNOWN,
        text_tokens: int = UNKNOWN,
        error: str = "",
    ) -> None:
        """Record the end, exactly once.

        `text_tokens` are those of the answer's text, tokenised here (UNKNOWN: that was not done); `error` says what
        went wrong, for every outcome but ok, short, cancelled.
        """


class Target(Protocol):
    """An engine or a server. `perform` ends its session on every path and raises only when the target is lost."""

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        """Load or connect, verify, describe. `progress` takes a line for the status. Raises TargetError."""

    async def perform(self, request: PlannedRequest, session: Session) -> Coroutine[Any, Any, None] | None:
        """Do one request. Never cancelled from outside: it is stopped through `session.cut_as` and `on_cut`.

        Returns:
            None, and the session has ended; or, when it is only over, what ends it: to be run with its place given on.

        Raises:
            TargetError: The whole target is lost; the session has been ended before.
        """

    async def close(self) -> None:
        """Give everything back."""


@runtime_checkable
class BatchTarget(Target, Protocol):
    """A target that takes all requests of a load in one call and orders them itself; they all begin at its start."""

    async def perform_all(self, sessions: Sequence[Session]) -> None:
        """Do the request of each session. Stopped as `perform` is; raises when the target is lost, as that does."""


@runtime_checkable
class ReusableTarget(Target, Protocol):
    """A target that, once open, can serve another run: `reuse.why_anew` says which."""

    @property
    def is_sound(self) -> bool:
        """Whether it lives, and has let go of every request it was given."""

    def reuse(self, config: Config) -> TargetInfo:
        """Serve another run from now on, and say what `open` said. Raises TargetError as that does."""
