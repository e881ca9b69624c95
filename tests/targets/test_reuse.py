"""When a loaded engine can serve another run, clause by clause."""

from __future__ import annotations

from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.targets.reuse import why_anew


def config(kind: str = "pytorch", **sections: dict[str, Any]) -> Config:
    values: dict[str, dict[str, Any]] = {
        "target": {"kind": kind, "model": "/models/a"},
        "dataset": {"kind": "random", "input_len": 16, "output_len": 20},
        "load": {"concurrency": 8, "num_prompts": 100},
    }
    for name, keys in sections.items():
        values[name] = {**values.get(name, {}), **keys}
    return Config.model_validate({"schema": 1, "name": "reuse", **values})


@pytest.mark.parametrize("kind", ["turbomind", "pytorch", "pipeline"])
def test_what_only_requests_read_may_differ(kind: str) -> None:
    other = config(
        kind,
        dataset={"input_len": 300, "output_len": 7},
        load={"num_prompts": 5, "mode": "open", "rate": 3.0, "duration_s": 4.0},
        request={"temperature": 0.1, "ignore_eos": False, "stream": False, "skip_tokenize": True},
        cancel={"rate": 0.5},
        guided={"response_format": "json_object"},
        slo={"ttft_ms": 100.0},
        limits={"max_errors": 3},
    )
    assert why_anew(config(kind), other) == ""


@pytest.mark.parametrize("kind", ["simulated", "server", "transformers"])
def test_other_targets_are_opened_for_each_run(kind: str) -> None:
    assert why_anew(config(kind), config(kind)) == f'target.kind = "{kind}" is opened for each run'


def test_a_prefix_cache_would_keep_prompts_warm() -> None:
    warm = config(target={"enable_prefix_caching": True})
    assert why_anew(warm, warm) == "target.enable_prefix_caching would keep prompts of the run before warm"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "turbomind"),
        ("model", "/models/b"),
        ("python", "/opt/engine/bin/python"),
        ("env", {"CUDA_VISIBLE_DEVICES": "1"}),
        ("tokenizer", "/models/c"),
        ("tp", 2),
        ("session_len", 4096),
        ("max_batch_size", 8),
        ("log_level", "INFO"),
        ("hf_overrides", {"rope_theta": 1.0}),
    ],
)
def test_every_key_of_the_target_must_be_equal(key: str, value: object) -> None:
    assert why_anew(config(), config(target={key: value})) == f"target.{key} differs"


def test_an_engine_lives_in_one_event_loop() -> None:
    assert why_anew(config(), config(request={"uvloop": False})).startswith("request.uvloop differs")


@pytest.mark.parametrize("kind", ["turbomind", "pytorch", "pipeline"])
def test_the_concurrency_counts_only_where_it_is_the_engine_s_batch(kind: str) -> None:
    assert why_anew(config(kind), config(kind, load={"concurrency": 9})).startswith("load.concurrency differs")
    sized = config(kind, target={"max_batch_size": 32})
    assert why_anew(sized, config(kind, target={"max_batch_size": 32}, load={"concurrency": 9})) == ""


def test_turbomind_s_replicas_share_the_concurrency() -> None:
    replicas = {"dp": 2}
    before = config("turbomind", target=replicas, load={"concurrency": 8})
    assert why_anew(before, config("turbomind", target=replicas, load={"concurrency": 9})) == ""
    assert why_anew(before, config("turbomind", target=replicas, load={"concurrency": 10})) != ""
