from __future__ import annotations

from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.targets.kv_cache import MASK_ELEMENTS, cpu_cache_size, longest_request

GIB = 1024**3


def config(dataset: dict[str, Any] | None = None, load: dict[str, Any] | None = None, **target: Any) -> Config:
    return Config.model_validate(
        {
            "name": "test",
            "target": {"kind": "transformers", **target},
            "dataset": dataset or {"input_len": 32, "output_len": 32},
            "load": {"concurrency": 8, **(load or {})},
        }
    )


@pytest.mark.parametrize(
    ("dataset", "longest"),
    [
        ({"input_len": 100, "output_len": 20}, 136),
        ({"input_len": 100, "output_len": 20, "prefix_len": 50}, 186),
        ({"kind": "sharegpt", "path": "x"}, 2064),
        ({"kind": "sharegpt", "path": "x", "output_len": 3000}, 4040),
        ({"kind": "jsonl", "path": "x"}, 4112),
        ({"kind": "jsonl", "path": "x", "output_len": 9000}, 9016),
    ],
)
def test_the_longest_request_is_what_the_config_tells(dataset: dict[str, Any], longest: int) -> None:
    assert longest_request(config(dataset)) == longest


def test_the_cache_holds_a_full_batch_and_the_schedulers_margin() -> None:
    size = cpu_cache_size(config(), 1024, 16 * GIB)
    assert size.tokens * 0.85 >= 8 * 96
    assert size.tokens < 2 * 8 * 96
    assert size.max_requests == 8


def test_kv_tokens_are_followed() -> None:
    assert cpu_cache_size(config(kv_tokens=1000), 1024, GIB).tokens == 1024


def test_max_batch_size_counts_before_concurrency() -> None:
    small = cpu_cache_size(config(max_batch_size=2), 1024, GIB)
    assert small.max_requests == 2
    assert small.tokens < cpu_cache_size(config(), 1024, GIB).tokens


def test_a_quarter_of_the_memory_is_the_most_but_one_request_always_fits() -> None:
    dataset = {"input_len": 1000, "output_len": 1000}
    assert cpu_cache_size(config(dataset), 1024**2, 16 * GIB).tokens == 4096
    assert cpu_cache_size(config(dataset), 1024**2, GIB).tokens >= 2016


@pytest.mark.parametrize("kv_tokens", [32, 100_000, 10_000_000])
def test_the_attention_mask_stays_small(kv_tokens: int) -> None:
    size = cpu_cache_size(config(kv_tokens=kv_tokens, max_batch_size=300), 1024, GIB)
    assert size.max_batch_tokens >= 32
    assert size.max_batch_tokens == 32 or size.max_batch_tokens * (size.tokens + 512) <= MASK_ELEMENTS
    assert size.max_requests <= size.max_batch_tokens
