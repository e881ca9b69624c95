"""Environment variables that engines read when they are imported: they must be there before the run process is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmtui.config.model import Config

TURBOMIND_LEVELS = {"CRITICAL": "FATAL"}
"""LMDeploy's names of log levels → TurboMind's, where they differ."""


def variables(config: Config) -> dict[str, str]:
    """Return the variables that a run with this config should have; what the user set comes first."""
    target = config.target
    if target.kind not in ("turbomind", "pytorch", "pipeline"):
        return {}
    made = {
        "TM_LOG_LEVEL": TURBOMIND_LEVELS.get(target.log_level, target.log_level),
        "TM_LOG_COLOR": "0",
        "NO_COLOR": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    models = [model for model in (target.model, target.tokenizer, target.speculative_draft_model) if model]
    if all(Path(model).expanduser().exists() for model in models):
        made["HF_HUB_OFFLINE"] = "1"  # nothing to ask the hub for, and no waiting where there is no network
    return made
