"""The largest batch of an engine, one rule for all of them."""

from __future__ import annotations

from lmtui.config.model import Config


def batch_limit(config: Config) -> int:
    """Return how many requests may be in one batch: `target.max_batch_size`, else as many as `load.concurrency`."""
    return config.target.max_batch_size or config.load.concurrency
