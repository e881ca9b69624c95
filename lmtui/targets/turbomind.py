"""The turbomind target: LMDeploy's TurboMind engine in this process. It aborts the process when it fails."""

from __future__ import annotations

import sys
from typing import Any

from lmtui.errors import TargetError
from lmtui.targets.lmdeploy_engine import LmdeployEngine
from lmtui.targets.lmdeploy_preflight import fields_of
from lmtui.targets.lmdeploy_settings import TURBOMIND_CLASS, arguments, turbomind_settings


class TurbomindTarget(LmdeployEngine):
    """Loads a model with TurboMind and generates with its instances."""

    name = "TurboMind"

    def _load(self, model: str) -> Any:
        from lmdeploy.messages import TurbomindEngineConfig

        try:
            from lmdeploy.turbomind import TurboMind
        except ImportError as error:
            # Since 0.17 the package is there without its native module, and keeps the reason.
            reason = getattr(sys.modules.get("lmdeploy.turbomind"), "_import_error", None) or error
            raise TargetError(
                f"TurboMind's native module cannot be loaded ({reason}): "
                'install the NVIDIA driver and CUDA libraries it needs, or set target.kind = "pytorch".'
            ) from error
        given = arguments(turbomind_settings(self._config), fields_of(TURBOMIND_CLASS))
        return TurboMind.from_pretrained(
            model,
            engine_config=TurbomindEngineConfig(**given),
            trust_remote_code=self._config.target.trust_remote_code,
        )

    def _limits(self) -> dict[str, int | float | str]:
        resolved = self._engine.engine_config
        return {
            "max_batch_size": resolved.max_batch_size,
            "session_len": self._engine.session_len,
            "devices": self._engine.gpu_count,
        }

    async def _close_engine(self) -> None:
        self._engine.close()
