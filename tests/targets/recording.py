"""A session that keeps what a target reports, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.workload.plan import PlannedRequest


@dataclass
class RecordingSession:
    """Implements `lmtui.targets.base.Session` and keeps to its rules: one `sent`, ticks after it, one end."""

    request: PlannedRequest
    cut_as: Outcome | None = None
    on_cut: Callable[[], None] | None = None
    on_tick: Callable[[int, int], None] | None = None
    sent_ns: int = UNKNOWN
    ticks: list[tuple[int, int]] = field(default_factory=list)
    ticks_after_cut: int = 0
    outcome: Outcome | None = None
    end_ns: int = UNKNOWN
    output_tokens: int = UNKNOWN
    token_source: TokenSource = TokenSource.NONE
    prompt_tokens: int = UNKNOWN
    let_go_ns: int = UNKNOWN
    wasted_tokens: int = UNKNOWN
    text_tokens: int = UNKNOWN
    error: str = ""
    cut_ns: int = UNKNOWN

    def sent(self, at_ns: int) -> None:
        assert self.sent_ns == UNKNOWN, "sent twice"
        self.sent_ns = at_ns

    def tick(self, at_ns: int, tokens: int) -> bool:
        assert self.sent_ns != UNKNOWN, "tick before sent"
        assert self.outcome is None, "tick after the end"
        assert at_ns >= self.sent_ns
        assert at_ns >= self.last_ns
        assert tokens > self.tokens
        if self.cut_as is not None:
            self.ticks_after_cut += 1
        self.ticks.append((at_ns, tokens))
        if self.on_tick:
            self.on_tick(at_ns, tokens)
        after = self.request.cancel_after
        if self.cut_as is None and after is not None and tokens > after:
            self.cut_as = Outcome.CANCELLED
            self.cut_ns = at_ns
        return self.cut_as is not None

    def over(self, at_ns: int) -> None:
        assert self.on_cut is None
        assert self.outcome is None, "over after the end"

    def cut(self, outcome: Outcome) -> None:
        """Stop it from outside, as the load does with timers and at the end of a run."""
        if self.cut_as is None and self.outcome is None:
            self.cut_as = outcome
            if self.on_cut is not None:
                self.on_cut()

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
        assert self.outcome is None, f"ended twice: {self.outcome} and {outcome}"
        assert self.sent_ns != UNKNOWN or outcome is Outcome.DROPPED
        assert at_ns >= self.last_ns
        if outcome.is_failure and outcome is not Outcome.SHORT:
            assert error, f"{outcome.label} needs an error"
        self.outcome = outcome
        self.end_ns = at_ns
        self.output_tokens = output_tokens
        self.token_source = token_source
        self.prompt_tokens = prompt_tokens
        self.let_go_ns = let_go_ns
        self.wasted_tokens = wasted_tokens
        self.text_tokens = text_tokens
        self.error = error

    @property
    def last_ns(self) -> int:
        return self.ticks[-1][0] if self.ticks else self.sent_ns

    @property
    def tokens(self) -> int:
        return self.ticks[-1][1] if self.ticks else 0

    @property
    def ttft_ms(self) -> float:
        return (self.ticks[0][0] - self.sent_ns) / 1e6

    @property
    def gaps_ms(self) -> list[float]:
        return [(later[0] - earlier[0]) / 1e6 for earlier, later in zip(self.ticks, self.ticks[1:], strict=False)]
