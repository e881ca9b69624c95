"""What the loop of an engine run costs: LMDeploy's target over an engine that yields at once, recorded into a tick log.

    python tests/benchmarks/engine_loop.py

Everything of a run is there but the engine: load, target, session, tick, writer thread. Prints microseconds of
processor time per output, in the loop's thread and in all threads: with outputs at once, with a turn of the loop before
each (its own cost included), and detokenised. The budget: 8 us per output in all threads, its tick recorded.
"""

from __future__ import annotations

import asyncio
import enum
import sys
import tempfile
import time
import types
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtui.config.model import Config
from lmtui.metrics.sessions import Outcome
from lmtui.runner import recorded
from lmtui.runner.load import Control, Load
from lmtui.runner.quiet import collector_off
from lmtui.runner.recorder import Recorder
from lmtui.runner.share import whole
from lmtui.targets.lmdeploy_engine import LmdeployEngine
from lmtui.workload import tiny_tokenizer, tokenizers
from lmtui.workload.plan import Plan, PlannedRequest

REQUESTS, TOKENS, AT_ONCE = 400, 500, 64
BUDGET_US = 8.0


class Status(enum.Enum):
    SUCCESS = enum.auto()
    FINISH = enum.auto()
    CANCEL = enum.auto()
    ENGINE_STOP_ERROR = enum.auto()


@dataclass
class Output:
    status: Status
    token_ids: list[int]


@dataclass
class GenerationConfig:
    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    ignore_eos: bool


class AtOnce:
    """An engine whose instances have every output ready, or one with each turn of the loop."""

    takes_turns = False

    def create_instance(self) -> AtOnce:
        return self

    async def async_cancel(self, number: int) -> None:
        return

    async def async_stream_infer(
        self, number: int, input_ids: list[int], gen_config: GenerationConfig, stream_output: bool
    ) -> AsyncIterator[Output]:
        for _ in range(gen_config.max_new_tokens - 1):
            if self.takes_turns:
                await asyncio.sleep(0)
            yield Output(Status.SUCCESS, [7])
        yield Output(Status.FINISH, [7])


class Target(LmdeployEngine):
    name = "stub"

    def _load(self, model: str) -> Any:
        return AtOnce()

    def _limits(self) -> dict[str, int | float | str]:
        return {}

    async def _close_engine(self) -> None:
        return

    def prepare(self) -> None:
        """Do what `open` does, without LMDeploy."""
        self._engine = self._load("")
        messages = types.SimpleNamespace(GenerationConfig=GenerationConfig, ResponseType=Status)
        self._set_up(messages, str(tiny_tokenizer.path()))


async def run(config: Config, path: Path) -> tuple[float, float]:
    """Run the load; return seconds of processor time of the loop's thread and of all threads."""
    target = Target(config)
    target.prepare()
    ids = tokenizers.load(str(tiny_tokenizer.path())).encode("a prompt of some words, as long as it is")
    prompt = "a prompt of some words, as long as it is"
    requests = tuple(PlannedRequest(index, prompt, TOKENS, len(ids)) for index in range(REQUESTS))
    control = Control()
    recorder = Recorder(path, time.monotonic_ns)
    load = Load(target, whole(Plan(requests), config), recorder, control)
    recorder.start()
    with collector_off():
        in_all, in_thread = time.process_time(), time.thread_time()
        await load.run()
        in_thread, in_all = time.thread_time() - in_thread, time.process_time() - in_all
    load.close()
    recorder.close()
    assert control.error is None, control.error
    found = recorded.read(path.parent, REQUESTS).sessions
    assert (found.outcome == Outcome.OK).all()
    assert len(found.tick_ns) == REQUESTS * TOKENS
    return in_thread, in_all


def config(**request: bool) -> Config:
    return Config.model_validate(
        {
            "name": "engine loop",
            "target": {"kind": "pytorch", "model": str(tiny_tokenizer.path())},
            "dataset": {"kind": "random", "input_len": 16, "output_len": TOKENS},
            "load": {"concurrency": AT_ONCE, "num_prompts": REQUESTS, "warmup_requests": 0},
            "request": request,
        }
    )


def main() -> int:
    """Measure and print; exit with 1 when the budget is broken."""
    left = {"skip_detokenize": True, "skip_tokenize": True}
    cases: tuple[tuple[str, bool, dict[str, bool]], ...] = (
        ("ids, at once", False, left),
        ("ids, a turn of the loop before each", True, left),
        ("detokenised, a turn before each", True, {}),
    )
    costs = []
    for words, takes_turns, request in cases:
        AtOnce.takes_turns = takes_turns
        with tempfile.TemporaryDirectory() as folder:
            in_thread, in_all = asyncio.run(run(config(**request), Path(folder, "ticks-0.bin")))
        in_thread, in_all = (seconds / (REQUESTS * TOKENS) * 1e6 for seconds in (in_thread, in_all))
        costs.append(in_all)
        print(f"{words:<40}{in_thread:6.2f} us/output in the loop's thread, {in_all:6.2f} in all threads")
    return int(max(costs[:2]) > BUDGET_US)


if __name__ == "__main__":
    sys.exit(main())
