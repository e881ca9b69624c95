"""Built-in configs, as TOML files beside this one: they run as they are and are copied to be changed."""

from __future__ import annotations

from pathlib import Path

from lmtui.config.document import Document
from lmtui.errors import ConfigError

__all__ = ["load", "names"]

FOLDER = Path(__file__).parent

ORDER = (
    "quickstart",
    "lmdeploy-engine",
    "lmdeploy-pipeline",
    "lmdeploy-server",
    "vllm-server",
    "sglang-server",
    "cancel-rate",
    "simulated",
)


def names() -> list[str]:
    """Return their names, the one to begin with first."""
    return list(ORDER)


def load(name: str) -> Document:
    """Return a preset, as a document of its own.

    Raises:
        ConfigError: There is none of that name.
    """
    if name not in ORDER:
        raise ConfigError(f"{name}: is not a preset; there are {', '.join(ORDER)}.")
    return Document.parse((FOLDER / f"{name}.toml").read_text(encoding="utf-8"), f"preset {name}")
