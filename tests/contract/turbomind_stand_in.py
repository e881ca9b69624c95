"""A stand-in for TurboMind that streams, cancels and fails as the real one does (cross-checked with its Python part).

An instance does one request at a time. A stream yields incremental ids, ends with FINISH and the last of them, or with
one output that says what went wrong. Closing it, or cancelling the task that reads it, cancels the request and waits
for the engine's word, about one step; a cancelled task goes on and returns normally.
"""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any

from lmdeploy.messages import EngineOutput, GenerationConfig, ResponseType, TurbomindEngineConfig

STEP_S = 0.002


class StandIn:
    """In the place of `lmdeploy.turbomind.TurboMind`.

    Attributes:
        steps: Tokens of each output in turn; the last is repeated.
    """

    steps: tuple[int, ...] = (1,)
    made: list[StandIn]

    def __init__(self, engine_config: TurbomindEngineConfig) -> None:
        self.engine_config = copy.deepcopy(engine_config)
        self.session_len = engine_config.session_len or 4096
        self.gpu_count = 1
        self.requests = 0
        self.seen_ids: set[int] = set()
        self.configs: list[GenerationConfig] = []
        self.instances: weakref.WeakSet[Instance] = weakref.WeakSet()
        self.instances_at_close: int | None = None

    @classmethod
    def from_pretrained(
        cls, path: str, *, engine_config: TurbomindEngineConfig, trust_remote_code: bool = False
    ) -> StandIn:
        made = cls(engine_config)
        cls.made.append(made)
        return made

    def status_of(self, number: int, asked: int) -> ResponseType | None:
        """Return the status that ends a request after its first output, by its place or length; None: it finishes."""
        return None

    def create_instance(self, cuda_stream_id: int = 0) -> Instance:
        instance = Instance(self)
        self.instances.add(instance)
        return instance

    def close(self) -> None:
        self.instances_at_close = len(self.instances)


class Instance:
    def __init__(self, engine: StandIn) -> None:
        self.engine = engine
        self.is_busy = False
        self.cancelled = asyncio.Event()

    async def async_cancel(self, session_id: int | None = None) -> None:
        self.cancelled.set()

    async def async_end(self, session_id: int) -> None:
        return

    async def _step(self) -> None:
        await asyncio.sleep(STEP_S)

    async def async_stream_infer(
        self,
        session_id: int,
        input_ids: Sequence[int],
        gen_config: GenerationConfig | None = None,
        stream_output: bool = False,
        **kwargs: Any,
    ) -> AsyncIterator[EngineOutput]:
        assert not self.is_busy, "an instance does one request at a time"
        assert session_id not in self.engine.seen_ids, "a session id that is used twice ends the engine"
        assert isinstance(input_ids, list)
        if not input_ids:
            raise ValueError("empty prompt")
        assert gen_config is not None
        self.engine.seen_ids.add(session_id)
        self.engine.configs.append(gen_config)
        number, self.engine.requests = self.engine.requests, self.engine.requests + 1
        self.is_busy = True
        self.cancelled.clear()
        try:
            async for output in self._outputs(number, gen_config.max_new_tokens, stream_output):
                yield output
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled.set()
        finally:
            try:
                await self._step()  # the engine's word; a server may cancel the wait for it, too
            finally:
                self.is_busy = False

    async def _outputs(self, number: int, asked: int, stream_output: bool) -> AsyncIterator[EngineOutput]:
        made = turn = 0
        pending: list[int] = []
        while made < asked:
            await self._step()
            if self.cancelled.is_set():
                yield EngineOutput(ResponseType.CANCEL, [])
                return
            count = min(self.engine.steps[min(turn, len(self.engine.steps) - 1)], asked - made)
            made, turn, pending = made + count, turn + 1, pending + [7] * count
            if turn == 2 and (status := self.engine.status_of(number, asked)) is not None:
                yield EngineOutput(status, [])
                return
            if made == asked:
                yield EngineOutput(ResponseType.FINISH, pending)
                return
            if stream_output:
                yield EngineOutput(ResponseType.SUCCESS, pending)
                pending = []
