"""The pytorch target: LMDeploy's PyTorch engine, on this process's own event loop for all its life."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from lmtui.config.model import Config
from lmtui.targets.lmdeploy_engine import LmdeployEngine
from lmtui.targets.lmdeploy_preflight import fields_of
from lmtui.targets.lmdeploy_settings import (
    PYTORCH_CLASS,
    arguments,
    pytorch_settings,
    speculative_settings,
)


class PytorchTarget(LmdeployEngine):
    """Loads a model with the PyTorch engine and generates with its instances."""

    name = "PyTorch"

    def _load(self, model: str) -> Any:
        from lmdeploy.messages import PytorchEngineConfig
        from lmdeploy.pytorch.engine import Engine

        given = arguments(pytorch_settings(self._config), fields_of(PYTORCH_CLASS))
        return Engine.from_pretrained(
            model,
            engine_config=PytorchEngineConfig(**given),
            speculative_config=speculative_config(self._config),
            trust_remote_code=self._config.target.trust_remote_code,
        )

    def _limits(self) -> dict[str, int | float | str]:
        resolved = self._engine.engine_config
        return {
            "max_batch_size": resolved.max_batch_size,
            "session_len": self._engine.max_session_len,
            "kv_tokens": resolved.num_gpu_blocks * resolved.block_size,
        }

    async def _close_engine(self) -> None:
        self._engine.close()  # only tells its loop to end
        with contextlib.suppress(asyncio.CancelledError):
            await self._engine.wait_tasks()


def speculative_config(config: Config) -> Any:
    """Return LMDeploy's `SpeculativeConfig`; None when nothing is drafted ahead."""
    settings = speculative_settings(config)
    if not settings:
        return None
    from lmdeploy.messages import SpeculativeConfig

    return SpeculativeConfig(**arguments(settings, fields_of("SpeculativeConfig")))
