"""The pipeline target: LMDeploy's `pipeline`, which takes all prompts at once and admits as many as its batch holds.

All requests begin at one moment, so that TTFT holds the wait for a place, as in LMDeploy's script. The pipeline runs on
a thread of its own; another thread takes its outputs, stamps each, and hands them to the loop.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets import engine_log, lmdeploy_preflight
from lmtui.targets.base import Session, TargetInfo
from lmtui.targets.cut import cut_error
from lmtui.targets.guided import refuse_uncompilable, response_format
from lmtui.targets.lmdeploy_engine import first_line, local_or_hub, versions
from lmtui.targets.lmdeploy_import import LmdeployLog, import_lmdeploy
from lmtui.targets.lmdeploy_parts import fields_of
from lmtui.targets.lmdeploy_settings import (
    PYTORCH_CLASS,
    TURBOMIND_CLASS,
    arguments,
    generation_arguments,
    may_stop,
    pytorch_settings,
    turbomind_settings,
)
from lmtui.targets.pytorch import speculative_config
from lmtui.workload.plan import PlannedRequest

ENGINE_GONE = "engine_unavailable"
NO_SUCH_EPOCH = -1
"""A session that carries an epoch other than the engine's is given up before it begins."""


class PipelineTarget:
    """Builds a pipeline and gives it all prompts of a load in one call."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._pipe: Any = None
        self._death: TargetError | None = None
        self._is_settled = True

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        """Build the pipeline in this thread, and see which engine it really took.

        Raises:
            TargetError: Something is missing or does not fit, or it could not be built, or another engine came.
        """
        config = self._config
        progress("checking what the engine needs")
        lmdeploy_preflight.refuse(config)
        progress("importing LMDeploy")
        lmdeploy = import_lmdeploy("pipeline's")
        self._serve(config)
        self._log = LmdeployLog(config.target.log_level, progress)
        progress(f"loading {config.target.model}")
        try:
            self._pipe = self._build(lmdeploy, local_or_hub(config.target.model))
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            if isinstance(error, SystemExit):
                said = engine_log.cause(engine_log.own_tail()) or self._log.last_error or "it exited without a reason"
            raise TargetError(f"The pipeline could not be built ({said}): see the run's engine.log.") from error
        self._log.loaded()
        engine = self._pipe.async_engine
        if engine.backend != config.target.backend:
            raise TargetError(
                f'The pipeline took the engine {engine.backend} though target.backend = "{config.target.backend}", for '
                f"that one cannot run this model here: set target.backend to {engine.backend} to measure it."
            )
        self._generation_config = lmdeploy.messages.GenerationConfig
        self._info = TargetInfo(
            model=config.target.model,
            versions=versions(lmdeploy),
            limits={
                "backend": engine.backend,
                "max_batch_size": self._pipe.backend_config.max_batch_size,
                "session_len": engine.session_len,
                **lmdeploy_preflight.gpu_words(config),
            },
            notes=tuple(lmdeploy_preflight.notes(config)),
        )
        return self._info

    @property
    def is_sound(self) -> bool:
        """Whether the pipeline lives, and has let go of every request it was given."""
        return self._pipe is not None and self._death is None and self._is_settled

    def reuse(self, config: Config) -> TargetInfo:
        """Serve another run whose config `reuse.why_anew` has nothing against.

        Raises:
            TargetError: The engine cannot hold outputs to the format.
        """
        self._serve(config)
        self._log.forget()
        return self._info

    def _serve(self, config: Config) -> None:
        """Look up what this run's requests need and another's may not."""
        self._config = config
        self._held_to = response_format(config)
        refuse_uncompilable(self._held_to)

    def _build(self, lmdeploy: Any, model: str) -> Any:
        from lmdeploy.messages import PytorchEngineConfig, TurbomindEngineConfig

        config = self._config
        if config.target.backend == "turbomind":
            given = arguments(turbomind_settings(config), fields_of(TURBOMIND_CLASS))
            engine_config: Any = TurbomindEngineConfig(**given)
        else:
            given = arguments(pytorch_settings(config), fields_of(PYTORCH_CLASS))
            engine_config = PytorchEngineConfig(**given)
        speculative = speculative_config(config) if config.target.backend == "pytorch" else None
        return lmdeploy.pipeline(
            model,
            backend_config=engine_config,
            log_level=LmdeployLog.WHILE_LOADING,  # the log's own handlers print what the config asks for
            trust_remote_code=config.target.trust_remote_code,
            **({"speculative_config": speculative} if speculative else {}),
        )

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        """Do one request alone: a warm-up."""
        await self.perform_all([session])

    async def perform_all(self, sessions: Sequence[Session]) -> None:
        """Give the pipeline all requests in one call, and report each to its session.

        Raises:
            TargetError: The engine is dead; all sessions have been ended before.
        """
        loop = asyncio.get_running_loop()
        self._is_settled = False
        flights = [_Flight(session, self._pipe) for session in sessions]
        for flight in flights:
            flight.session.on_cut = flight.cut
        prompts: list[Any] = [_prompt(session.request) for session in sessions]
        settings = [self._settings(session.request) for session in sessions]
        now_ns = time.monotonic_ns()
        for session in sessions:
            session.sent(now_ns)
        stream = self._pipe.stream_infer(
            prompts,
            sessions=[flight.inner for flight in flights],
            gen_config=settings,
            do_preprocess=any(session.request.messages is not None for session in sessions),
            stream_response=self._config.request.stream,
        )
        inbox = _Inbox(loop, stream)
        while self._death is None and (batch := await inbox.take()) is not None:
            for at_ns, output in batch:
                self._receive(flights[output.index], at_ns, output)
        self._is_settled = all(flight.is_over for flight in flights)
        for flight in flights:
            if not flight.is_over and self._death is not None:  # the others would learn it one after the other
                self._end(flight, time.monotonic_ns(), flight.session.cut_as or Outcome.BAD_FINISH, str(self._death))
            elif not flight.is_over:
                self._end(flight, time.monotonic_ns(), Outcome.TRUNCATED, "the pipeline forgot the request")
        if self._death is not None:
            raise self._death

    def _settings(self, request: PlannedRequest) -> Any:
        """Return the generation config; the pipeline heeds sampling parameters only when it is told to sample."""
        given = generation_arguments(self._config, request.output_len, None, self._held_to)
        return self._generation_config(do_sample=given["top_k"] != 1 and given["temperature"] > 0, **given)

    def _receive(self, flight: _Flight, at_ns: int, output: Any) -> None:
        """Take one output: text with the count so far, or the empty one that ends a request."""
        if flight.is_over:
            return
        flight.prompt_tokens = output.input_token_len
        is_due = self._config.request.stream or output.finish_reason is not None
        if is_due and output.generate_token_len > flight.tokens and flight.cut_ns is None:
            flight.tokens = output.generate_token_len
            if flight.session.tick(at_ns, flight.tokens) and output.finish_reason is None:
                flight.cut(at_ns)
        if output.finish_reason is None:
            return
        is_whole = output.finish_reason in ("stop", "length") and flight.tokens >= flight.session.request.output_len
        if flight.session.cut_as is not None and flight.cut_ns is not None and not is_whole:
            self._end(flight, at_ns, flight.session.cut_as, cut_error(flight.session.cut_as))
        elif output.finish_reason in ("stop", "length"):
            outcome = self._natural(flight)
            words = "finished without any token" if outcome is Outcome.NO_TOKEN else ""
            self._end(flight, at_ns, outcome, words)
        elif output.finish_reason == "error":
            self._failed(flight, at_ns, output)
        else:
            self._end(flight, at_ns, Outcome.BAD_FINISH, "the engine cancelled it by itself")

    def _failed(self, flight: _Flight, at_ns: int, output: Any) -> None:
        code, said = output.error_code or "error", output.error_message or "no reason given"
        if code != ENGINE_GONE:
            self._end(flight, at_ns, Outcome.BAD_FINISH, f"{code}: {said}")
            return
        if self._death is None:
            cause = self._log.last_error or engine_log.cause(engine_log.own_tail()) or said
            self._death = TargetError(f"The pipeline's engine died ({cause}): see the run's engine.log.")
        self._end(flight, at_ns, flight.session.cut_as or Outcome.BAD_FINISH, str(self._death))

    def _natural(self, flight: _Flight) -> Outcome:
        if flight.tokens == 0:
            return Outcome.NO_TOKEN
        if not may_stop(self._config) and flight.tokens < flight.session.request.output_len:
            return Outcome.SHORT
        return Outcome.OK

    @staticmethod
    def _end(flight: _Flight, at_ns: int, outcome: Outcome, error: str) -> None:
        flight.is_over = True
        flight.session.end(
            outcome,
            at_ns,
            output_tokens=flight.tokens,
            token_source=TokenSource.ENGINE,
            prompt_tokens=flight.prompt_tokens,
            let_go_ns=UNKNOWN if flight.cut_ns is None else max(at_ns - flight.cut_ns, 0),
            error=error,
        )

    async def close(self) -> None:
        """End the pipeline's thread, then its engine."""
        if self._pipe is not None:
            pipe, self._pipe = self._pipe, None
            await asyncio.to_thread(pipe.close)
            del pipe
            gc.collect()


class _Flight:
    """A request in the pipeline, and the pipeline's own session for it."""

    def __init__(self, session: Session, pipe: Any) -> None:
        self.session = session
        self.inner = pipe.session()
        self.tokens = 0
        self.prompt_tokens = UNKNOWN
        self.cut_ns: int | None = None
        self.is_over = False
        self._loop = pipe.internal_thread.loop

    def cut(self, at_ns: int | None = None) -> None:
        """Tell the pipeline to let go of it; one that waits for a place never begins."""
        if self.cut_ns is None and not self.is_over:
            self.cut_ns = time.monotonic_ns() if at_ns is None else at_ns
            self.inner.epoch = NO_SUCH_EPOCH
            asyncio.run_coroutine_threadsafe(self.inner.async_abort(), self._loop)


class _Inbox:
    """Outputs that a thread takes from the pipeline, each with its stamp, on their way to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: Any) -> None:
        self._loop = loop
        self._waiting: deque[tuple[int, Any]] = deque()
        self._news = asyncio.Event()
        self._is_over = False
        threading.Thread(target=self._read, args=(stream,), name="lmtui-pipeline", daemon=True).start()

    async def take(self) -> list[tuple[int, Any]] | None:
        """Return what came, at least one; None after the last."""
        while not self._waiting:
            if self._is_over:
                return None
            self._news.clear()
            await self._news.wait()
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    def _read(self, stream: Any) -> None:
        try:
            for output in stream:
                self._waiting.append((time.monotonic_ns(), output))
                if len(self._waiting) == 1:  # else the loop has been told and has not come yet
                    self._loop.call_soon_threadsafe(self._news.set)
        finally:  # what it raises goes to the log, and the requests that are not over are ended
            self._loop.call_soon_threadsafe(self._ended)

    def _ended(self) -> None:
        self._is_over = True
        self._news.set()


def _prompt(request: PlannedRequest) -> Any:
    """Return the prompt as the pipeline takes it: a text, or the turns of a chat."""
    return request.prompt if request.messages is None else [dict(message) for message in request.messages]
