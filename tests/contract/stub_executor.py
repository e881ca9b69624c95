"""LMDeploy's real PyTorch engine on a CPU: only its executor is replaced, by one that makes a token per step at once.

Everything else is real: request manager, scheduler, block manager, engine loop, instances. Checks of the machine are
left out, for they ask for a GPU.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import torch
from lmdeploy.pytorch import envs
from lmdeploy.pytorch.engine import engine, engine_checker
from lmdeploy.pytorch.engine.executor.base import ExecutorBase

BLOCKS, TOKEN = 4096, 7


@dataclass
class Outputs:
    """The fields of LMDeploy's `BatchedOutputs` that the engine loop reads; importing that one needs XGrammar."""

    next_token_ids: torch.Tensor
    stopped: torch.Tensor
    stop_pos: None = None
    logits: None = None
    model_metas: None = None
    logprobs: None = None
    new_token_timestamp: float = 0.0
    all_routed_experts: None = None
    ce_loss: None = None
    kv_connector_output: None = None


class StubExecutor(ExecutorBase):  # type: ignore[misc]  # LMDeploy has no types
    """Makes a token for each request of the batch after `step_s` seconds; raises after `die_after` steps (None: never).

    Attributes:
        steps: Steps done.
    """

    step_s = 0.0
    die_after: int | None = None
    words = "CUDA error: an illegal memory access was encountered"

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.steps = 0
        self._outputs: asyncio.Queue[Outputs] = asyncio.Queue()
        self._left: torch.Tensor = torch.zeros(0, dtype=torch.long)
        self._stopped = asyncio.Event()

    def init(self) -> None:
        self.cache_config.num_gpu_blocks = BLOCKS
        self.cache_config.num_cpu_blocks = 0

    def get_input_processor(self) -> None:
        return None

    def start(self, forward_event: asyncio.Event) -> None:
        self._stopped = asyncio.Event()

    async def wait_tasks(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def release(self) -> None:
        self._left = torch.zeros(0, dtype=torch.long)

    async def forward_async(self, inputs: dict[str, Any]) -> None:
        """Take a step."""
        self.steps += 1
        if self.die_after is not None and self.steps > self.die_after:
            raise RuntimeError(self.words)
        prefill, delta = inputs["inputs"], inputs["delta"]
        if delta is not None:  # which rows of the batch go on; a prefill joins behind them
            self._left = self._left[torch.as_tensor(delta.indice_cpu)]
        if prefill is not None:
            fresh = inputs["stopping_criteria"].num_appendable_ids.clone() - 1
            stopped = fresh <= 0
            self._left = torch.cat([self._left, fresh])
            count = len(fresh)
        else:
            self._left = self._left - 1
            stopped = self._left <= 0
            count = len(self._left)
        ids = torch.full((count,), TOKEN, dtype=torch.long)
        await self._outputs.put(Outputs(next_token_ids=ids, stopped=stopped))

    async def get_output_async(self, dp_rank: int = 0) -> Outputs:
        await asyncio.sleep(self.step_s)
        return await self._outputs.get()


def install() -> None:
    """Put the stub in the place of every executor of this process."""
    envs.enable_check_env = False

    def build(model_path: str, **more: Any) -> StubExecutor:
        from lmdeploy.pytorch.config import ModelConfig

        model_config = ModelConfig.from_pretrained(model_path, dtype="float16", dist_config=more["dist_config"])
        kept = ("cache_config", "backend_config", "dist_config", "misc_config", "adapters", "device_type")
        arguments = {name: more[name] for name in (*kept, "specdecode_config", "trust_remote_code")}
        return StubExecutor(model_path=model_path, model_config=model_config, **arguments)

    engine.build_executor = build
    engine_checker.EngineChecker.handle = lambda self: None
    torch._C._cuda_clearCublasWorkspaces = getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)
