"""What engines sample with where the config has null: as LMDeploy's scripts have it."""

from __future__ import annotations

from dataclasses import dataclass

from lmtui.config.model import Config

TEMPERATURE, TOP_P, TOP_K = 0.8, 0.8, 1
"""The scripts' defaults: with one token to choose from, sampling is greedy."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters with every null filled in; `top_k` 0 means all tokens."""

    temperature: float
    top_p: float
    top_k: int


def sampling(config: Config) -> Sampling:
    """Return the sampling of an engine in process."""
    asked = config.request
    return Sampling(
        temperature=TEMPERATURE if asked.temperature is None else asked.temperature,
        top_p=TOP_P if asked.top_p is None else asked.top_p,
        top_k=TOP_K if asked.top_k is None else max(asked.top_k, 0),
    )
