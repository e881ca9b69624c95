"""Guided decoding beside its baseline: one config that asks for two runs of the same plan."""

from __future__ import annotations

from lmtui.config.model import GUIDING, Config, Guided


def pair(config: Config) -> tuple[Config, Config] | None:
    """Return the unguided and the guided run that `guided.baseline` asks for; None when the config is one run."""
    guided = config.guided
    if guided.response_format == "none" or not guided.baseline or config.target.kind not in GUIDING:
        return None
    free = config.model_copy(update={"guided": Guided(baseline=False)})
    return free, config.model_copy(update={"guided": guided.model_copy(update={"baseline": False})})
