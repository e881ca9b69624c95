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

BLOCKS = 4096


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


class StubExecutor(ExecutorBase):
    """Answers each step with token 7 (or `stop_id` after `natural_length` steps) after `step_s` seconds.

    Attributes:
        step_s: Seconds of a step.
        die_after: The step after which the engine dies; None: never.
        steps: Steps done.
    """

    step_s = 0.0
    die_after: int | None = None
    token = 7
    fault: type[Exception] = RuntimeError
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
        """Take a step: a prefill joins the batch, a delta says which of it go on."""
        self.steps += 1
        if self.die_after is not None and self.steps > self.die_after:
            raise self.fault(self.words)
        prefill, delta = inputs["inputs"], inputs["delta"]
        limits = inputs["stopping_criteria"].num_appendable_ids if inputs.get("stopping_criteria") else None
        if prefill is not None:
            fresh = limits.clone() - 1
            stopped = fresh <= 0
            self._left = torch.cat([self._left, fresh])
            count = len(fresh)
        else:
            kept = torch.as_tensor(delta.indice_cpu)
            self._left = self._left[kept] - 1
            stopped = self._left <= 0
            count = len(kept)
        ids = torch.full((count,), self.token, dtype=torch.long)
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
