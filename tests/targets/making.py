"""Configs and requests for tests of targets."""

from __future__ import annotations

from typing import Any

from lmtui.config.model import Config
from lmtui.workload.plan import PlannedRequest


def config(
    kind: str, *, request: dict[str, Any] | None = None, load: dict[str, Any] | None = None, **target: Any
) -> Config:
    """Return a config of random lengths for the target; keyword arguments are keys of `[target]`."""
    return Config.model_validate(
        {
            "schema": 1,
            "name": "test",
            "target": {"kind": kind, **target},
            "dataset": {"kind": "random", "input_len": 32, "output_len": 32},
            "load": {"concurrency": 8, "num_prompts": 64, **(load or {})},
            "request": request or {},
        }
    )


def request(index: int = 0, *, input_len: int | None = 32, output_len: int = 8, **more: Any) -> PlannedRequest:
    """Return a request of `input_len` words."""
    prompt = more.pop("prompt", " ".join(["word"] * (input_len or 0)))
    return PlannedRequest(index=index, prompt=prompt, output_len=output_len, input_len=input_len, **more)
