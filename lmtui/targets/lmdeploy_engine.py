"""What both of LMDeploy's engines have in common: one request through `async_stream_infer`, and how it ends.

An engine hands out token ids as they come, several at once when the reader is slow, and yields an error as its last
output instead of raising it. A request is cut by leaving the stream and closing it; closing returns when the engine has
let go of it. One that waits for its next output is told by `async_cancel`.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets import engine_log, lmdeploy_preflight
from lmtui.targets.base import Session, TargetInfo
from lmtui.targets.cut import cut_error
from lmtui.targets.detokenize import IncrementalText
from lmtui.targets.guided import refuse_uncompilable, response_format
from lmtui.targets.lmdeploy_import import LmdeployLog, import_lmdeploy
from lmtui.targets.lmdeploy_settings import generation_arguments, may_stop
from lmtui.targets.lmdeploy_stops import stop_ids
from lmtui.workload import tokenizers
from lmtui.workload.plan import PlannedRequest

STATUS_WORDS = {
    "INPUT_LENGTH_ERROR": "the prompt is longer than the engine's session length: raise target.session_len",
    "OUT_OF_MEMORY": "the request does not fit into the KV cache: raise target.cache_max_entry_count",
    "CANCEL": "the engine cancelled it by itself",
    "INTERNAL_ENGINE_ERROR": "an internal error of the engine: see the run's engine.log",
}
"""LMDeploy's status → what it means; a status that is not here is told by its name."""


class LmdeployEngine(ABC):
    """An engine of LMDeploy in this process."""

    name: str
    """What it is called in sentences."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engine: Any = None
        self._idle: list[Any] = []
        self._ids = itertools.count(1)
        self._cancels: set[asyncio.Task[Any]] = set()
        self._death: TargetError | None = None
        self._held_to: dict[str, Any] | None = None
        self._inside = 0  # requests that the engine has not let go of; one that raised is never known to be

    @abstractmethod
    def _load(self, model: str) -> Any:
        """Build the engine; blocks this thread, which must be the main one."""

    @abstractmethod
    def _limits(self) -> dict[str, int | float | str]:
        """Return what the engine says of its own limits."""

    @abstractmethod
    async def _close_engine(self) -> None:
        """Give the engine's own things back."""

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        """Load the engine in this thread.

        Raises:
            TargetError: Something is missing or does not fit, or the engine could not be built; the text says what.
        """
        config = self._config
        progress("checking what the engine needs")
        lmdeploy_preflight.refuse(config)
        progress("importing LMDeploy")
        lmdeploy = import_lmdeploy(self.name)
        model = local_or_hub(config.target.model)
        self._serve(config)
        self._log = LmdeployLog(config.target.log_level, progress)
        progress(f"loading {config.target.model}")
        try:
            self._engine = self._load(model)
        except TargetError:
            raise
        except (Exception, SystemExit) as error:
            raise self._cannot_load(error) from error
        self._log.loaded()
        self._set_up(lmdeploy.messages, model)
        self._info = TargetInfo(
            model=config.target.model,
            versions=versions(lmdeploy),
            limits={**self._limits(), **lmdeploy_preflight.gpu_words(config)},
            notes=tuple(lmdeploy_preflight.notes(config)),
        )
        return self._info

    @property
    def is_sound(self) -> bool:
        """Whether the engine lives, and has let go of every request it was given."""
        return self._engine is not None and self._death is None and self._inside == 0

    def reuse(self, config: Config) -> TargetInfo:
        """Serve another run whose config `reuse.why_anew` has nothing against; session numbers go on.

        Raises:
            TargetError: The engine cannot hold outputs to the format, or no answer would stop by itself.
        """
        self._serve(config)
        self._log.forget()
        return self._info

    def _serve(self, config: Config) -> None:
        """Look up what this run's requests need and another's may not."""
        self._config = config
        self._held_to = response_format(config)
        refuse_uncompilable(self._held_to)
        model = local_or_hub(config.target.model)
        self._stop_ids = stop_ids(model, config.target.trust_remote_code) if may_stop(config) else None

    def _set_up(self, messages: Any, model: str) -> None:
        """Look up once what each request needs."""
        config = self._config
        self._generation_config = messages.GenerationConfig
        self._success, self._finish = messages.ResponseType.SUCCESS, messages.ResponseType.FINISH
        self._engine_stop = messages.ResponseType.ENGINE_STOP_ERROR
        self._tokenizer = tokenizers.load(config.target.tokenizer or model, config.target.trust_remote_code)
        self._vocabulary = lmdeploy_preflight.vocabulary(config) if config.target.tokenizer else None

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        """Generate for one request; over when it has finished or the engine has let go of it.

        Raises:
            TargetError: The engine is dead; the session has been ended before.
        """
        if session.cut_as is not None:
            session.end(Outcome.DROPPED, time.monotonic_ns(), error=cut_error(session.cut_as))
            return
        wants = self._config.request
        ids = self._tokens(request) if wants.skip_tokenize else []
        session.sent(time.monotonic_ns())
        if not wants.skip_tokenize:
            ids = self._tokenizer.encode(request.prompt) if request.prompt else self._tokens(request)
        if refusal := self._refusal(ids):
            self._end(session, Outcome.BAD_FINISH, time.monotonic_ns(), 0, ids, error=refusal)
            return
        if self._death is not None:
            self._end(session, Outcome.BAD_FINISH, time.monotonic_ns(), 0, ids, error=str(self._death))
            raise self._death
        await self._stream(request, session, ids)

    async def _stream(self, request: PlannedRequest, session: Session, ids: list[int]) -> None:
        instance = self._idle.pop() if self._idle else self._engine.create_instance()
        flight = _Flight(session, None if self._config.request.skip_detokenize else IncrementalText(self._tokenizer))
        number = next(self._ids)  # a number that is used twice would end the engine
        self._inside += 1
        session.on_cut = lambda: self._tell(flight, instance, number)
        settings = generation_arguments(self._config, request.output_len, self._stop_ids, self._held_to)
        stream = instance.async_stream_infer(
            number,
            input_ids=ids,
            gen_config=self._generation_config(**settings),
            stream_output=self._config.request.stream,
        )
        try:
            last = await self._read(stream, flight)
        except Exception as error:
            last, flight.raised = None, error
        finally:
            await stream.aclose()
        end_ns = time.monotonic_ns()
        flight.is_over = True
        session.on_cut = None  # it holds the instance, and that the engine
        if flight.raised is None:
            self._idle.append(instance)
            self._inside -= 1
        self._conclude(flight, last, ids, end_ns)

    async def _read(self, stream: Any, flight: _Flight) -> Any:
        """Take outputs until the stream ends or the request is cut; return the last status, None when it was cut."""
        success, finish, now_ns, tick = self._success, self._finish, time.monotonic_ns, flight.session.tick
        streams, text, tokens, status = self._config.request.stream, flight.text, 0, None
        every: list[int] = []
        async for output in stream:
            at_ns = now_ns()
            status, ids = output.status, output.token_ids
            if flight.cut_ns is not None:
                if status is success:
                    return None
                continue
            tokens += len(ids)
            flight.is_finished = status is finish
            if (ids and streams) or (status is finish and tokens and not streams):
                flight.tokens = tokens
                stop = tick(at_ns, tokens)
                if text is not None:
                    every += ids
                    text.add(every)
                if stop and status is success:
                    flight.cut_ns = at_ns
                    return None
            elif not streams:
                flight.tokens = tokens
                every += ids
        return status

    def _tell(self, flight: _Flight, instance: Any, number: int) -> None:
        """Tell the engine that a request which waits for its next output is cut."""
        if flight.cut_ns is None:
            flight.cut_ns = time.monotonic_ns()
            task = asyncio.get_running_loop().create_task(_cancel(flight, instance, number))
            self._cancels.add(task)
            task.add_done_callback(self._cancelled)

    def _cancelled(self, task: asyncio.Task[Any]) -> None:
        self._cancels.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"a cancel failed: {type(error).__name__}: {error}", file=sys.stderr)

    def _conclude(self, flight: _Flight, last: Any, ids: list[int], end_ns: int) -> None:
        """End the session as the last status and the cut say."""
        session = flight.session
        if flight.is_finished:
            self._end(session, self._natural(flight), end_ns, flight.tokens, ids, error=_no_token(flight))
        elif last is self._engine_stop:
            lost = self._lost()
            outcome = session.cut_as or Outcome.BAD_FINISH
            self._end(session, outcome, end_ns, flight.tokens, ids, cut_ns=flight.cut_ns, error=str(lost))
            raise lost
        elif session.cut_as is not None:
            error = cut_error(session.cut_as)
            self._end(session, session.cut_as, end_ns, flight.tokens, ids, cut_ns=flight.cut_ns, error=error)
        elif flight.raised is not None:
            error = f"the engine raised {type(flight.raised).__name__}: {flight.raised}"
            self._end(session, Outcome.BAD_FINISH, end_ns, flight.tokens, ids, error=error)
        elif last is None or last is self._success:
            error = "the engine's stream stopped before it said that it was finished"
            self._end(session, Outcome.TRUNCATED, end_ns, flight.tokens, ids, error=error)
        else:
            words = STATUS_WORDS.get(last.name, f"the engine ended it with {last.name}")
            self._end(session, Outcome.BAD_FINISH, end_ns, flight.tokens, ids, error=words)

    def _natural(self, flight: _Flight) -> Outcome:
        if flight.tokens == 0:
            return Outcome.NO_TOKEN
        if not may_stop(self._config) and flight.tokens < flight.session.request.output_len:
            return Outcome.SHORT
        return Outcome.OK

    @staticmethod
    def _end(
        session: Session,
        outcome: Outcome,
        at_ns: int,
        tokens: int,
        ids: list[int],
        *,
        cut_ns: int | None = None,
        error: str = "",
    ) -> None:
        session.end(
            outcome,
            at_ns,
            output_tokens=tokens,
            token_source=TokenSource.ENGINE,
            prompt_tokens=len(ids),
            let_go_ns=UNKNOWN if cut_ns is None else max(at_ns - cut_ns, 0),
            error=error,
        )

    def _tokens(self, request: PlannedRequest) -> list[int]:
        if request.token_ids is not None:
            ids: list[int] = request.token_ids.tolist()
            return ids
        return self._tokenizer.encode(request.prompt)

    def _refusal(self, ids: list[int]) -> str:
        """Say why the engine must not get this prompt ("" when it may): one bad prompt can end it for all others."""
        if not ids:
            return "The prompt has no tokens."
        if self._vocabulary is not None and max(ids) >= self._vocabulary:
            return (
                f"The prompt has token ids outside the model's vocabulary of {self._vocabulary}: see target.tokenizer."
            )
        return ""

    def _lost(self) -> TargetError:
        """Return why the engine is gone: what it logged last."""
        if self._death is None:
            said = self._log.last_error or engine_log.cause(engine_log.own_tail()) or "no reason was logged"
            self._death = TargetError(f"The {self.name} engine died ({said}): see the run's engine.log.")
        return self._death

    def _cannot_load(self, error: BaseException) -> TargetError:
        said = f"{type(error).__name__}: {first_line(error)}"
        if isinstance(error, SystemExit):  # LMDeploy's own checks exit, and the reason is only in the log
            said = engine_log.cause(engine_log.own_tail()) or self._log.last_error or "it exited without a reason"
        return TargetError(f"The {self.name} engine could not be built ({said}): see the run's engine.log.")

    async def close(self) -> None:
        """Give everything back: instances first, for each holds the engine."""
        for task in tuple(self._cancels):
            task.cancel()
        self._idle.clear()
        if self._engine is None:
            return
        gc.collect()
        try:
            await self._close_engine()
        finally:
            self._engine = None
            gc.collect()


class _Flight:
    """A request in the engine."""

    __slots__ = ("cut_ns", "is_finished", "is_over", "raised", "session", "text", "tokens")

    def __init__(self, session: Session, text: IncrementalText | None) -> None:
        self.session = session
        self.text = text
        self.tokens = 0
        self.cut_ns: int | None = None
        self.raised: Exception | None = None
        self.is_finished = False  # before any cut: what comes after one was not asked for
        self.is_over = False


async def _cancel(flight: _Flight, instance: Any, number: int) -> None:
    if not flight.is_over:  # TurboMind cancels whatever the instance does by now
        await instance.async_cancel(number)


def _no_token(flight: _Flight) -> str:
    return "" if flight.tokens else "finished without any token"


def local_or_hub(model: str | None) -> str:
    """Return the model as LMDeploy takes it: a folder without `~`, or a hub name."""
    assert model is not None  # a rule of the config
    path = Path(model).expanduser()
    return str(path) if path.is_dir() else model


def versions(lmdeploy: Any) -> dict[str, str]:
    """Return the versions of what measures here."""
    import torch
    import transformers

    return {
        "lmdeploy": str(lmdeploy.__version__),
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
    }


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no reason given"
