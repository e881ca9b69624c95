"""The simulated target: a modelled engine on the loop's clock, real or virtual. Always labelled SIMULATED."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lmtui.config.model import Config
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets.base import Session, TargetInfo
from lmtui.targets.batch_limit import batch_limit
from lmtui.targets.clock import clock
from lmtui.targets.cut import cut_error
from lmtui.targets.engine_model import EngineModel, EngineSpeed, Events, Job
from lmtui.targets.virtual import VirtualLoop
from lmtui.workload.plan import PlannedRequest

DEFAULT_KV_TOKENS = 200_000


class _Flight:
    """A request in the modelled engine and the session that hears of it."""

    def __init__(self, session: Session, prompt_tokens: int, over: asyncio.Future[None]) -> None:
        self.session = session
        self.prompt_tokens = prompt_tokens
        self.over = over

    def end(
        self,
        job: Job,
        outcome: Outcome,
        at_ns: int,
        *,
        let_go_ns: int = UNKNOWN,
        wasted_tokens: int = UNKNOWN,
        error: str = "",
    ) -> None:
        self.session.end(
            outcome,
            at_ns,
            output_tokens=job.tokens,
            token_source=TokenSource.ENGINE,
            prompt_tokens=self.prompt_tokens,
            let_go_ns=let_go_ns,
            wasted_tokens=wasted_tokens,
            error=error,
        )
        self.over.set_result(None)


class SimulatedTarget:
    """Drives an `EngineModel` by one timer per step, on the model's own schedule: being late never adds up.

    Stamps are taken when an output is handed over: on a virtual clock exactly the model's times, on the real one as
    late as the loop was.
    """

    def __init__(self, config: Config) -> None:
        target = config.target
        self._speed = EngineSpeed(
            prefill_tokens_per_s=target.prefill_tokens_per_s,
            step_ms=target.step_ms,
            step_ms_per_seq=target.step_ms_per_seq,
            kv_tokens=DEFAULT_KV_TOKENS if target.kv_tokens is None else target.kv_tokens,
            max_batch_size=batch_limit(config),
            cancel_ms=target.cancel_ms,
            leak=target.leak,
        )
        self._model = EngineModel(self._speed)
        self._flights: dict[Job, _Flight] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_beginning = False

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        """Start the clock; there is nothing to load."""
        self._loop = asyncio.get_running_loop()
        self._now_ns = clock(self._loop)
        is_virtual = isinstance(self._loop, VirtualLoop)
        progress("SIMULATED engine on a virtual clock" if is_virtual else "SIMULATED engine")
        return TargetInfo(
            model="simulated",
            limits={
                "kv_tokens": self._speed.kv_tokens,
                "max_batch_size": self._speed.max_batch_size,
                "clock": "virtual" if is_virtual else "real",
            },
            notes=("SIMULATED: a model of an engine answered, no real one; the numbers say nothing about a machine.",),
            simulated=True,
        )

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        """Queue the request in the modelled engine and wait until the engine is rid of it."""
        now = self._now_ns()
        if session.cut_as is not None:
            session.end(Outcome.DROPPED, now, error=cut_error(session.cut_as))
            return
        input_len = _input_len(request)
        job = self._model.add(input_len, request.output_len, now)
        flight = _Flight(session, input_len, self._loop.create_future())
        self._flights[job] = flight
        session.on_cut = lambda: self._cut(job)
        session.sent(now)
        self._schedule()
        try:
            await flight.over
        finally:
            self._flights.pop(job, None)  # still there only when the load gave up waiting

    async def close(self) -> None:
        """Stop the engine."""
        if self._timer is not None:
            self._timer.cancel()

    def _cut(self, job: Job) -> None:
        if job in self._flights and job.cut_ns is None:
            self._model.cancel(job, self._now_ns())

    def _schedule(self) -> None:
        """Set the timer of the step under way, or let an idle engine begin once all of this instant has arrived."""
        due = self._model.next_ns
        if due is None or self._timer is not None or self._is_beginning:
            return
        if not self._model.is_idle:
            self._timer = self._loop.call_at(due / 1e9, self._step_is_due)
        else:
            self._is_beginning = True
            at_end_of_instant = self._loop.call_settled if isinstance(self._loop, VirtualLoop) else self._loop.call_soon
            at_end_of_instant(self._begin)

    def _begin(self) -> None:
        self._is_beginning = False
        self._advance()

    def _step_is_due(self) -> None:
        self._timer = None
        due = self._model.next_ns
        assert due is not None
        if (early_ns := due - self._now_ns()) > 0:
            # A loop with coarse timers (uvloop: 1 ms) may call early; an output before its time would be a lie.
            self._timer = self._loop.call_later(early_ns / 1e9, self._step_is_due)
        else:
            self._advance()

    def _advance(self) -> None:
        self._deliver(self._model.advance())
        self._schedule()

    def _deliver(self, events: Events) -> None:
        now = self._now_ns()
        for job in events.ticks:
            flight = self._flights.get(job)
            if flight is None:
                continue
            stop = flight.session.tick(now, job.tokens)
            if job.tokens == job.output_len:
                del self._flights[job]
                flight.end(job, Outcome.OK, now)
            elif stop:
                self._cut(job)
        for job, at_ns in events.let_go:
            if at_ns <= now:
                self._let_go(job)
            else:
                self._loop.call_at(at_ns / 1e9, self._let_go, job)
        for job in events.refused:
            flight = self._flights.pop(job, None)
            if flight is None:
                continue
            room = f"{self._speed.kv_tokens} of target.kv_tokens, less what cancels leaked"
            error = f"The request needs {job.kv_tokens} tokens of KV; the engine has {room}."
            flight.end(job, Outcome.BAD_FINISH, now, error=error)

    def _let_go(self, job: Job) -> None:
        flight = self._flights.pop(job, None)
        if flight is None:
            return
        outcome = flight.session.cut_as
        assert outcome is not None
        assert job.cut_ns is not None
        now = self._now_ns()
        flight.end(job, outcome, now, let_go_ns=now - job.cut_ns, wasted_tokens=job.wasted, error=cut_error(outcome))


def _input_len(request: PlannedRequest) -> int:
    """Return the prompt's tokens as drawn; without a tokenizer a word counts as one."""
    if request.input_len is not None:
        return request.input_len
    return len(request.prompt.split()) if request.token_ids is None else len(request.token_ids)
