"""The recorder: what the load puts down while it runs. A tick costs one append; a writer thread does the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtui.metrics.causes import own_words
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.runner.ticklog import Sample
from lmtui.runner.writer import Batch, Row, Writer
from lmtui.workload.plan import PlannedRequest

FLUSH_S = 0.2
"""How often the load's lists go to the writer: the most that a kill may lose."""
MAX_ERROR_CHARS = 4096
SELF_REPORT_EVERY = 5
"""Flushes from one `worker` frame to the next."""


@dataclass(slots=True)
class Tally:
    """Requests so far: sent, over (done), and how they ended; what is missing to `done` was cut by the run's end."""

    sent: int = 0
    done: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0


class Session:
    """The record of one request (`targets.base.Session`), with its timers: the plan's cut and the time limit."""

    __slots__ = (
        "_due_ns",
        "_index",
        "_is_ended",
        "_is_sent",
        "_is_watched",
        "_recorder",
        "_ticks",
        "_timers",
        "cut_as",
        "ended_ns",
        "on_cut",
        "request",
        "when_ended",
    )

    def __init__(self, recorder: Recorder, request: PlannedRequest, due_ns: int) -> None:
        self.request = request
        self.cut_as: Outcome | None = None
        self.on_cut: Callable[[], None] | None = None
        self.when_ended: Callable[[Session], None] | None = None
        """For whoever waits for many sessions at once: called when this one has ended."""
        self.ended_ns = UNKNOWN
        """When it was over; UNKNOWN until then."""
        self._recorder = recorder
        self._index = request.index
        self._due_ns = due_ns
        self._ticks = 0
        self._timers: tuple[asyncio.TimerHandle, ...] = ()
        self._is_watched = request.cancel_after is not None or request.cancel_before_token
        self._is_sent = False
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the end was recorded."""
        return self._is_ended

    def sent(self, at_ns: int) -> None:
        """Record that the request goes now, and start its timers; once more when a dead connection was replaced."""
        recorder = self._recorder
        self._put_sent(at_ns)
        if not self._is_sent:
            self._is_sent = True
            recorder.tally.sent += 1
        self._stop_timers()
        limits = ((self.request.cancel_after_s, Outcome.CANCELLED), (recorder.timeout_s, Outcome.TIMEOUT))
        if any(seconds is not None for seconds, _ in limits):
            loop = asyncio.get_running_loop()
            self._timers = tuple(
                loop.call_later(seconds, self.cut, outcome) for seconds, outcome in limits if seconds is not None
            )

    def tick(self, at_ns: int, tokens: int) -> bool:
        """Record an arrival; `tokens` is cumulative, UNKNOWN when not told. True: stop now, `cut_as` says as what."""
        self._recorder.ticks.append((self._index, at_ns, tokens))
        if not self._is_watched:
            return False
        return self._watch(tokens)

    def _watch(self, tokens: int) -> bool:
        request = self.request
        self._ticks += 1
        if self.cut_as is not None:
            return True
        if request.cancel_before_token and self._ticks == 1 and self._timers:
            self._timers[0].cancel()
        if request.cancel_after is not None:
            came = self._ticks if tokens == UNKNOWN else tokens
            if came > request.cancel_after:
                # The caller hears it from the return value: `on_cut` is for a target that waits.
                self.cut_as = Outcome.CANCELLED
                return True
        return False

    def cut(self, outcome: Outcome) -> None:
        """Tell the target to stop this request, and as what to end it; nothing happens when it was told before."""
        if self.cut_as is not None or self._is_ended:
            return
        self.cut_as = outcome
        self._is_watched = True
        if self.on_cut is not None:
            self.on_cut()

    def over(self, at_ns: int) -> None:
        """Record that nothing more comes and nothing can be cut; `end` follows once the tokens are counted."""
        self.ended_ns = at_ns
        self._stop_timers()

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
        """Record the end, exactly once. `error` says what went wrong, for every outcome but ok, short, cancelled."""
        if self._is_ended:
            raise RuntimeError(f"request {self._index} was ended twice, the second time as {outcome.label}")
        self._is_ended = True
        self.ended_ns = at_ns
        self._stop_timers()
        self.on_cut = (
            None  # it closes over the target's side, which holds this session: no cycle for a collector that is off
        )
        if not self._is_sent:
            self._put_sent(UNKNOWN)
            if outcome is Outcome.ABORTED:
                outcome = Outcome.DROPPED  # cut while it waited for its connection: nothing of it was ever sent
        recorder, request = self._recorder, self.request
        recorder.ends.append(
            (
                self._index,
                at_ns,
                outcome,
                output_tokens,
                token_source,
                prompt_tokens,
                cached_tokens,
                connect_ns,
                let_go_ns,
                wasted_tokens,
            )
        )
        if text_tokens != UNKNOWN:
            recorder.count_text(self._index, text_tokens)
        words = error or own_words(outcome, output_tokens, request.output_len) or f"it ended as {outcome.label}"
        recorder.count_end(self._index, outcome, error, words)
        if self.when_ended is not None:
            self.when_ended(self)

    def _put_sent(self, at_ns: int) -> None:
        request = self.request
        input_len = UNKNOWN if request.input_len is None else request.input_len
        self._recorder.sends.append(
            (self._index, self._due_ns, at_ns, input_len, request.output_len, request.is_cancel_planned)
        )

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = ()


class Recorder:
    """Collects the rows of one load worker and hands them to its writer, at most every `FLUSH_S` seconds.

    Everything here happens in the load's loop; only whole lists cross to the writer's thread.

    Attributes:
        tally: Counts so far.
        last_error: The last failure's message, "" when none came.
        self_report: Gives the JSON object of a `worker` frame; asked about once a second and at the end.
        take_samples: Gives samples that another place collected: rows of (Sample, at_ns, value).
    """

    def __init__(self, path: Path | None, clock: Callable[[], int], timeout_s: float | None = None) -> None:
        """Record into `path` (None: count, and keep nothing), with times of `clock`.

        Args:
            path: The tick log to append to.
            clock: Nanoseconds of the run's clock.
            timeout_s: Cut a request as TIMEOUT this many seconds after it was sent; None: never.
        """
        self.clock = clock
        self.timeout_s = timeout_s
        self.tally = Tally()
        self.last_error = ""
        self.self_report: Callable[[], dict[str, Any]] | None = None
        self.take_samples: Callable[[], list[Row]] | None = None
        self.sends: list[Row] = []
        self.ticks: list[Row] = []
        self.ends: list[Row] = []
        self._samples: list[Row] = []
        self._objects: list[dict[str, Any]] = []
        self._writer = None if path is None else Writer(path)
        self._timer: asyncio.TimerHandle | None = None
        self._flushes = 0

    def start(self) -> None:
        """Begin to flush; call it in the load's loop."""
        if self._writer is not None:
            self._writer.start()
        self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_in_time)

    def release(self, start_ns: int) -> None:
        """Record the release of the load."""
        self._objects.append({"what": "start", "start_ns": start_ns})

    def session(self, request: PlannedRequest, due_ns: int) -> Session:
        """Return the record of a request that is about to go."""
        return Session(self, request, due_ns)

    def sample(self, what: Sample, at_ns: int, value: int) -> None:
        """Record a sample of the worker about itself."""
        self._samples.append((what, at_ns, value))

    def count_end(self, index: int, outcome: Outcome, error: str, words: str) -> None:
        """Count an end and keep its error; called by the session. `words`: what a failure is told by."""
        tally = self.tally
        tally.done += 1
        if outcome is Outcome.OK:
            tally.ok += 1
        elif outcome is Outcome.CANCELLED:
            tally.cancelled += 1
        elif outcome.is_failure:
            tally.failed += 1
            self.last_error = words[:MAX_ERROR_CHARS]
        if error:
            error = error[:MAX_ERROR_CHARS]
            self._objects.append({"what": "error", "index": index, "message": error})

    def count_text(self, index: int, tokens: int) -> None:
        """Keep how many tokens an answer's text has; called by the session."""
        self._objects.append({"what": "text", "index": index, "tokens": tokens})

    def _flush_in_time(self) -> None:
        self._flushes += 1
        self.flush(with_report=self._flushes % SELF_REPORT_EVERY == 0)
        self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_in_time)

    def flush(self, *, with_report: bool = False) -> None:
        """Hand what has come to the writer."""
        if self.take_samples is not None:
            self._samples += self.take_samples()
        if with_report and self.self_report is not None:
            self._objects.append(self.self_report())
        batch = Batch(self.sends, self.ticks, self.ends, self._samples, self._objects)
        self.sends, self.ticks, self.ends, self._samples, self._objects = [], [], [], [], []
        if self._writer is not None and not batch.is_empty:
            self._writer.put(batch)

    def close(self) -> None:
        """Write what is left and end the writer; blocks until that is done."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush(with_report=True)
        if self._writer is not None:
            self._writer.close()

    @property
    def failure(self) -> str:
        """What keeps the writer from writing, as a sentence; "" when nothing does."""
        return "" if self._writer is None else self._writer.failure

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the result about what the writer went through."""
        return () if self._writer is None else self._writer.notes
