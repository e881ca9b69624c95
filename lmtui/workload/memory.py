"""Whether a plan fits into the memory of this machine, before it is drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.errors import ConfigError

if TYPE_CHECKING:
    from lmtui.config.model import Config

WORD_BYTES, TOKEN_BYTES = 6.5, 8.5
"""Memory of a piece of a prompt: a word with its space; a token with its text. Measured, as are the next two."""
REQUEST_BYTES = 700
"""Memory of a request besides its prompt: in the plan, and in what a run keeps of it."""
REPEAT_BYTES = 250
"""Memory of a request that shares its prompt with another."""

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Return the memory that this process can still get: the machine's, or less where a container allows less.

    None where the system does not tell.
    """
    found = [room for room in (_machine(), _container()) if room is not None]
    return min(found, default=None)


def check(config: Config, unit: str) -> None:
    """Refuse a plan that would not fit.

    Args:
        config: What to draw; only a random dataset's lengths are known beforehand.
        unit: What the prompts are cut in: "words" or "tokens".

    Raises:
        ConfigError: It needs more memory than there is; the text has both numbers and the keys.
    """
    load, dataset = config.load, config.dataset
    needed, keys = float(load.num_prompts * REQUEST_BYTES), "load.num_prompts"
    said = f"load.num_prompts = {load.num_prompts}"
    if dataset.kind == "random" and dataset.input_len is not None:
        mean = dataset.input_len * (1 + dataset.range_ratio) / 2 + dataset.prefix_len
        piece = WORD_BYTES if unit == "words" else TOKEN_BYTES
        needed += (load.num_prompts + load.warmup_requests) * mean * piece
        keys += ", dataset.input_len"
        said += f" of dataset.input_len = {dataset.input_len}"
        if dataset.prefix_len:
            needed += dataset.prefix_groups * dataset.prefix_len * piece
            keys += ", dataset.prefix_len"
            said += f" and dataset.prefix_len = {dataset.prefix_len}"
    if load.mode == "open" and load.duration_s is not None and math.isfinite(load.rate):
        needed += load.rate * load.duration_s * REPEAT_BYTES
        keys += ", load.rate or load.duration_s"
        said += f" for load.duration_s = {load.duration_s:g} at load.rate = {load.rate:g}"
    room = available_bytes()
    if room is not None and needed > room:
        raise ConfigError(
            f"{said}: the plan would take about {_size(needed)} of memory, and {_size(room)} are free: lower {keys}."
        )


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def _machine() -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        return None


def _container() -> int | None:
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            limit, taken = ((_CGROUP / name).read_text(encoding="ascii").strip() for name in (most, used))
            return None if limit == "max" else max(int(limit) - int(taken), 0)
        except (OSError, ValueError):
            continue
    return None
