"""How large the KV cache of the transformers target is: as many tokens as the run needs, no more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lmtui.config.model import Config
from lmtui.targets.batch_limit import batch_limit

CPU_PAGE = 32
"""Tokens per page on a CPU: every request takes whole pages, and requests there are short."""

SAFETY_MARGIN = 0.15
"""Share of the cache that transformers' scheduler keeps free when it admits requests."""

SHARE_OF_MEMORY = 0.25
"""Of the machine's memory, at most this goes to the cache."""

MASK_ELEMENTS = 32 * 1024 * 1024
"""Attention mask at most: it is batch tokens x cache tokens, cleared as a whole at the start (128 MiB: 0.1 s)."""

MOST_BATCH_TOKENS = 512
UNKNOWN_LENGTH = 4096
"""Tokens of a request whose length only the dataset knows."""
SHAREGPT_PROMPT, SHAREGPT_LENGTH = 1024, 2048
"""Longest prompt, and longest prompt with output, that the ShareGPT filters let through."""
EXTRA_TOKENS = 16
"""Special tokens, and what a prompt gains by being tokenised again."""


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What transformers' continuous batching is given; pages of `page_size` tokens."""

    page_size: int
    num_blocks: int
    max_batch_tokens: int
    max_requests: int

    @property
    def tokens(self) -> int:
        """Tokens it holds in all."""
        return self.page_size * self.num_blocks


def longest_request(config: Config) -> int:
    """Return a bound on prompt and output tokens of one request, as far as the config tells."""
    dataset = config.dataset
    if dataset.kind == "random" and dataset.input_len is not None and dataset.output_len is not None:
        length = dataset.input_len + dataset.output_len
    elif dataset.kind == "sharegpt":
        length = SHAREGPT_LENGTH if dataset.output_len is None else SHAREGPT_PROMPT + dataset.output_len
    else:
        length = max(UNKNOWN_LENGTH, dataset.output_len or 0)
    return length + dataset.prefix_len + EXTRA_TOKENS


def cpu_cache_size(config: Config, bytes_per_token: int, memory_bytes: int) -> CacheSize:
    """Return the size of a cache in main memory.

    Args:
        config: `target.kv_tokens` is followed when given; else the cache holds `batch_limit` of the longest requests.
        bytes_per_token: Keys and values of one token in all layers.
        memory_bytes: Memory of the machine.
    """
    pages_per_request = math.ceil(longest_request(config) / CPU_PAGE)
    requests = batch_limit(config)
    if config.target.kv_tokens is not None:
        blocks = math.ceil(config.target.kv_tokens / CPU_PAGE)
    else:
        needed = math.ceil(requests * pages_per_request / (1 - SAFETY_MARGIN)) + 1
        fitting = int(memory_bytes * SHARE_OF_MEMORY) // (bytes_per_token * CPU_PAGE)
        blocks = min(needed, max(fitting, pages_per_request + 1))
    batch_tokens = min(MOST_BATCH_TOKENS, max(MASK_ELEMENTS // (blocks * CPU_PAGE + MOST_BATCH_TOKENS), CPU_PAGE))
    return CacheSize(CPU_PAGE, blocks, batch_tokens, min(requests, batch_tokens))
