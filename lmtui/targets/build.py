"""From a config to its target; only the one that is asked for is imported."""

from __future__ import annotations

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.targets.base import Target


def build(config: Config) -> Target:
    """Return the target that `config` names, not yet open.

    Raises:
        TargetError: Targets of this kind are not built yet.
    """
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
    raise TargetError(
        f'target.kind "{kind}" is not built yet: set target.kind to "transformers", "server" or "simulated".'
    )
