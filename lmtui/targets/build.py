"""From a config to its target; only the one that is asked for is imported."""

from __future__ import annotations

from lmtui.config.model import Config
from lmtui.targets.base import Target


def build(config: Config) -> Target:
    """Return the target that `config` names, not yet open."""
    kind = config.target.kind
    if kind == "simulated":
        from lmtui.targets.simulated import SimulatedTarget

        return SimulatedTarget(config)
    if kind == "transformers":
        from lmtui.targets.transformers import TransformersTarget

        return TransformersTarget(config)
    if kind == "server":
        from lmtui.targets.server import ServerTarget

        return ServerTarget(config)
    if kind == "turbomind":
        from lmtui.targets.turbomind import TurbomindTarget

        return TurbomindTarget(config)
    if kind == "pytorch":
        from lmtui.targets.pytorch import PytorchTarget

        return PytorchTarget(config)
    from lmtui.targets.pipeline import PipelineTarget

    return PipelineTarget(config)
