"""When a loaded engine can serve another run: one rule, for whoever does several runs one after another."""

from __future__ import annotations

from lmtui.config.declared import DECLARED
from lmtui.config.engine import LMDEPLOY
from lmtui.config.engine_rules import engine
from lmtui.config.model import Config
from lmtui.targets.lmdeploy_settings import Setting, pytorch_settings, turbomind_settings


def why_anew(loaded: Config, wanted: Config) -> str:
    """Say why an engine that was loaded for one run cannot serve another ("" when it can).

    All that its building reads must be equal. Lengths are not compared: a request that does not fit the session length
    would not fit that of an engine loaded anew either, and the run refuses it.

    Args:
        loaded: The config of the run that loaded it.
        wanted: The config of the other run; the same one asks whether the engine can ever serve a second.
    """
    if wanted.target.kind not in LMDEPLOY:
        return f'target.kind = "{wanted.target.kind}" is opened for each run'
    if wanted.target.enable_prefix_caching:
        return "target.enable_prefix_caching would keep prompts of the run before warm"
    for declared in DECLARED:
        if declared.section == "target" and declared.of(loaded) != declared.of(wanted):
            return f"{declared.key} differs"
    if loaded.request.uvloop != wanted.request.uvloop:
        return "request.uvloop differs, and an engine lives in one event loop"
    if _built(loaded) != _built(wanted):
        return "load.concurrency differs, and with target.max_batch_size unset it is the engine's batch"
    return ""


def _built(config: Config) -> list[Setting]:
    """Return the fields that the engine's class is built with; of these only the batch comes from other sections."""
    return turbomind_settings(config) if engine(config) == "turbomind" else pytorch_settings(config)
