"""A discrete model of a continuous-batching engine: exact, deterministic, without a clock of its own.

The engine works in steps, one after another while there is work. At each boundary between steps, at the instant T:

1. Cancels that came before T are carried out, each taking `cancel_ms`; a job's KV is then free, but for the share
   `leak`.
2. Jobs that came before T are admitted in order of arrival, while KV for all their tokens (input and output) is free
   and the batch has room.
3. The step takes `step_ms` + `step_ms_per_seq` x jobs in it + input tokens of the jobs just admitted /
   `prefill_tokens_per_s`. At its end each job in it has one token more.

A step is under way before anyone has seen the outputs of the one before: what a client does at T in answer to them
(the next job, a cancel) counts at the following boundary. Only an idle engine begins with all of its instant.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """What the engine can do: times in ms, rate in tokens per second, KV in tokens, batch in jobs, leak as a share."""

    prefill_tokens_per_s: float
    step_ms: float
    step_ms_per_seq: float
    kv_tokens: int
    max_batch_size: int
    cancel_ms: float
    leak: float


@dataclass(slots=True, eq=False)
class Job:
    """A request in the engine.

    Attributes:
        tokens: Output tokens made and not wasted. wasted: tokens made after the cut.
        came_ns: When it arrived. cut_ns: when it was cancelled, None when it was not.
    """

    input_len: int
    output_len: int
    came_ns: int
    tokens: int = 0
    wasted: int = 0
    cut_ns: int | None = None

    @property
    def kv_tokens(self) -> int:
        """KV that it holds from its admission to its end."""
        return self.input_len + self.output_len


@dataclass(slots=True)
class Events:
    """What happened at a boundary.

    Attributes:
        ticks: Jobs that have one token more; those with all their tokens are done.
        let_go: Cancelled jobs that the engine is rid of, each with the time of it (at the boundary or after).
        refused: Jobs that will never fit into the KV that leaks have left.
    """

    ticks: list[Job] = field(default_factory=list)
    let_go: list[tuple[Job, int]] = field(default_factory=list)
    refused: list[Job] = field(default_factory=list)


class EngineModel:
    """The engine. Whoever drives it calls `advance` at `next_ns`, and `add` and `cancel` in between. Times are ns."""

    def __init__(self, speed: EngineSpeed) -> None:
        self._speed = speed
        self._step_ns = round(speed.step_ms * 1e6)
        self._per_seq_ns = round(speed.step_ms_per_seq * 1e6)
        self._cancel_ns = round(speed.cancel_ms * 1e6)
        self._free_kv = self._kv_capacity = speed.kv_tokens
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._cancels: list[Job] = []
        self._boundary_ns: int | None = None
        self._is_idle = True

    @property
    def next_ns(self) -> int | None:
        """When `advance` is due: the end of the step, or, out of idleness, now; None while there is nothing to do."""
        return self._boundary_ns

    @property
    def is_idle(self) -> bool:
        """Whether no step is under way: `advance` is then due after all that comes at the instant `next_ns`."""
        return self._is_idle

    @property
    def free_kv(self) -> int:
        """KV tokens that no job holds and no cancel leaked."""
        return self._free_kv

    def add(self, input_len: int, output_len: int, now_ns: int) -> Job:
        """Queue a job. One that needs more KV than the engine has is refused at the next boundary."""
        job = Job(input_len, output_len, now_ns)
        self._waiting.append(job)
        if self._boundary_ns is None:
            self._boundary_ns = now_ns
        return job

    def cancel(self, job: Job, now_ns: int) -> None:
        """Ask for the job's end: tokens from here on are wasted, and it is let go of at the next boundary."""
        job.cut_ns = now_ns
        self._cancels.append(job)

    def advance(self) -> Events:
        """End the step that is due at `next_ns`, and begin the next when there is work."""
        now = self._boundary_ns
        assert now is not None, "advance is called only when next_ns is set"
        events = Events()
        for job in self._running:
            self._give_token(job, now, events)
        self._running = [job for job in self._running if job.tokens + job.wasted < job.output_len]
        busy_until = self._carry_out_cancels(now, events)
        prefill = self._admit(now, events)
        if self._running:
            busy_until += self._step_ns + self._per_seq_ns * len(self._running)
            busy_until += round(prefill * 1e9 / self._speed.prefill_tokens_per_s)
        self._is_idle = not self._running and busy_until == now
        self._boundary_ns = busy_until if not self._is_idle or self._waiting else None
        return events

    def _give_token(self, job: Job, now: int, events: Events) -> None:
        if job.cut_ns is None:
            job.tokens += 1
            events.ticks.append(job)
        else:
            job.wasted += 1
        if job.tokens + job.wasted == job.output_len:
            self._free_kv += job.kv_tokens
            if job.cut_ns is not None:
                self._cancels.remove(job)
                events.let_go.append((job, now))

    def _carry_out_cancels(self, now: int, events: Events) -> int:
        """Carry out the cancels that came before now (out of idleness: until now); return when that is done."""
        done = now
        later: list[Job] = []
        for job in self._cancels:
            assert job.cut_ns is not None
            if job.cut_ns >= now and not self._is_idle:
                later.append(job)
                continue
            done += self._cancel_ns
            if job in self._running:
                self._running.remove(job)
                leaked = round(job.kv_tokens * self._speed.leak)
                self._kv_capacity -= leaked
                self._free_kv += job.kv_tokens - leaked
            else:
                self._waiting.remove(job)
            events.let_go.append((job, done))
        self._cancels = later
        return done

    def _admit(self, now: int, events: Events) -> int:
        """Admit the jobs that came before now (out of idleness: until now) and fit; return their input tokens."""
        prefill = 0
        while self._waiting and (self._waiting[0].came_ns < now or self._is_idle):
            job = self._waiting[0]
            if job.kv_tokens > self._kv_capacity:
                events.refused.append(self._waiting.popleft())
                continue
            if job.kv_tokens > self._free_kv or len(self._running) >= self._speed.max_batch_size:
                break
            self._free_kv -= job.kv_tokens
            self._running.append(self._waiting.popleft())
            prefill += job.input_len
        return prefill
