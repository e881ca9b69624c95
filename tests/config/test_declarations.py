"""Every declaration, walked: a wrong type, a value below, above and outside its choices each give one sentence."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from lmtui.config.check import HIDDEN
from lmtui.config.declared import DECLARED, SECTION_TITLES, Declared, applies, by_key
from lmtui.config.document import Document
from lmtui.config.model import Config
from lmtui.config.target import Target

BASE = 'name = "x"\ntarget.kind = "simulated"\ndataset.input_len = 8\ndataset.output_len = 8\n'


def problems_with(key: str, value: Any) -> list[tuple[str, str]]:
    document = Document.parse(BASE, "base")
    document.set(key, value)
    checked = document.check()
    assert (checked.config is None) == bool(checked.problems)
    return [(problem.key, problem.message) for problem in checked.problems]


def wrongly_typed(declared: Declared) -> Iterator[Any]:
    """Values of every other type. An int is a number; a text is a word where words are allowed."""
    values = [True, 1, 1.5, "64", ["64"], {"a": 1}, datetime.date(2020, 1, 1), datetime.time(1), [[1]]]
    for value in values:
        if type(value) is declared.type or (type(value) is int and declared.type is float):
            continue
        yield value
    if declared.type is list:
        yield from ([True], [1.5], [datetime.date(2020, 1, 1)])


WRONG_TYPES = [(declared, value) for declared in DECLARED for value in wrongly_typed(declared)]
BELOW = [d for d in DECLARED if d.declaration.minimum is not None]
ABOVE = [d for d in DECLARED if d.declaration.maximum is not None]
CHOICES = [d for d in DECLARED if d.declaration.choices]
NUMBERS = [d for d in DECLARED if d.type is float]


def key(case: object) -> str:
    return case.key if isinstance(case, Declared) else repr(case)


@pytest.mark.parametrize(("declared", "value"), WRONG_TYPES, ids=key)
def test_a_wrong_type_is_refused_with_what_it_must_be(declared: Declared, value: Any) -> None:
    if declared.declaration.choices and value in declared.declaration.choices and type(value) is declared.type:
        pytest.skip("a choice")
    is_text = isinstance(value, (str, list, dict))
    ((where, message),) = problems_with(declared.key, value)
    assert where == declared.key
    assert message.startswith(f"{declared.key}: " if declared.key in HIDDEN and is_text else f"{declared.key} = ")
    assert declared.type_words in message
    if not declared.declaration.choices:
        assert f"such as {declared.example}." in message


@pytest.mark.parametrize("declared", BELOW, ids=key)
def test_a_value_below_is_refused_with_the_limit(declared: Declared) -> None:
    minimum = declared.declaration.minimum
    assert minimum is not None
    below = minimum if declared.declaration.above else minimum - 1
    ((where, message),) = problems_with(declared.key, declared.type(below))
    words = f"must be {'above' if declared.declaration.above else 'at least'} {minimum:g} ("
    assert where == declared.key
    assert words in message


@pytest.mark.parametrize("declared", ABOVE, ids=key)
def test_a_value_above_is_refused_with_the_limit(declared: Declared) -> None:
    maximum = declared.declaration.maximum
    assert maximum is not None
    above = maximum if declared.declaration.below else maximum + 1
    ((where, message),) = problems_with(declared.key, declared.type(above))
    words = f"must be {'below' if declared.declaration.below else 'at most'} {int(maximum)} ("
    assert where == declared.key
    assert words in message


@pytest.mark.parametrize("declared", CHOICES, ids=key)
def test_a_value_outside_the_choices_is_refused_with_them(declared: Declared) -> None:
    other = "none of them" if declared.type is str else 99
    ((where, message),) = problems_with(declared.key, other)
    assert where == declared.key
    for choice in declared.declaration.choices:
        assert str(choice) in message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("declared", NUMBERS, ids=key)
def test_only_the_rate_may_be_infinite_and_nothing_is_nan(declared: Declared, value: float) -> None:
    if declared.key == "load.rate" and value == math.inf:
        assert problems_with(declared.key, value) == []
        return
    ((where, message),) = problems_with(declared.key, value)
    assert where == declared.key
    assert "must be a finite number" in message or "must be above 0" in message
    assert ("or inf" in message) == (declared.key == "load.rate" and math.isnan(value))


@pytest.mark.parametrize("declared", [d for d in DECLARED if d.nullable and d.type is str], ids=key)
def test_an_empty_text_is_not_a_way_to_say_none(declared: Declared) -> None:
    ((where, message),) = problems_with(declared.key, "")
    assert where == declared.key
    assert "leave the key out" in message or "must be one of" in message


@pytest.mark.parametrize("declared", [d for d in DECLARED if d.required], ids=key)
def test_a_required_key_that_is_missing_is_asked_for(declared: Declared) -> None:
    document = Document.parse(BASE, "base")
    document.unset(declared.key)
    (problem,) = document.check().problems
    assert problem.key == declared.key
    assert "must be given" in problem.message
    assert declared.example in problem.message


def test_an_int_is_a_number_and_text_is_no_number() -> None:
    assert problems_with("slo.ttft_ms", 200) == []
    assert problems_with("load.concurrency", 0) == [
        ("load.concurrency", "load.concurrency = 0: must be at least 1 (how many requests are in flight at once).")
    ]
    assert problems_with("load.concurrency", "abc") == [
        ("load.concurrency", 'load.concurrency = "abc": must be a whole number, such as 64.')
    ]


def test_workers_are_a_count_or_auto() -> None:
    assert problems_with("load.workers", 4) == []
    assert problems_with("load.workers", "auto") == []
    assert problems_with("load.workers", "many") == [
        ("load.workers", 'load.workers = "many": must be a whole number or "auto", such as "auto".')
    ]
    assert problems_with("load.workers", 0)[0][0] == "load.workers"


def test_the_words_of_every_declaration_are_there() -> None:
    for declared in DECLARED:
        said = declared.declaration
        assert said.label, declared.key
        assert said.help, declared.key
        assert not said.help.endswith("."), declared.key
        assert "\n" not in said.help, declared.key
        assert len(said.label) <= 24, declared.key
        assert set(said.planned_choices) <= set(said.choices), declared.key
        assert by_key(declared.key) is declared


def test_every_example_is_right() -> None:
    for declared in DECLARED:
        if declared.declaration.planned or declared.key == "target.kind":
            continue
        document = Document.parse(BASE, "base")
        document.set_text(declared.key, declared.example)
        wrong = [p for p in document.check().problems if p.key == declared.key]
        needs_another = ("cancel.value_max", "target.speculative_draft_model", "target.speculative_dflash_block_size")
        assert not wrong or declared.key in needs_another, wrong


def test_defaults_are_what_the_design_says() -> None:
    config = Config(name="x", target=Target(kind="server"))
    flat = config.flat()
    assert list(flat) == [declared.key for declared in DECLARED]
    said = {
        "schema": 1,
        "seed": 0,
        "target.model": None,
        "target.api": "completions",
        "target.preset": "openai",
        "target.api_key_env": "OPENAI_API_KEY",
        "target.idle_timeout_s": 120,
        "target.connect_timeout_s": 10,
        "target.ready_timeout_s": 60,
        "target.preflight": True,
        "dataset.kind": "random",
        "dataset.range_ratio": 1.0,
        "dataset.prefix_groups": 1,
        "load.mode": "closed",
        "load.concurrency": 64,
        "load.num_prompts": 1000,
        "load.rate": "inf",
        "load.warmup_requests": 1,
        "load.workers": "auto",
        "request.temperature": None,
        "request.ignore_eos": True,
        "request.uvloop": True,
        "cancel.rate": 0,
        "cancel.when": "tokens_uniform",
        "slo.attainment": 0.99,
        "limits.max_error_rate": 0.05,
        "limits.max_errors": None,
        "limits.grace_s": 10,
        "target.cache_max_entry_count": 0.8,
        "target.cache_block_seq_len": 64,
        "target.async": 1,
        "target.max_prefill_token_num": 8192,
    }
    assert {key: flat[key] for key in said} == said
    assert json.loads(json.dumps(flat, allow_nan=False)) == flat


def test_sections_are_pages_of_the_form_in_order() -> None:
    assert list(dict.fromkeys(declared.section for declared in DECLARED)) == list(SECTION_TITLES)


def test_engine_parameters_apply_to_their_engines() -> None:
    def kinds(name: str) -> list[str]:
        declared = by_key(f"target.{name}")
        assert declared is not None
        return [k for k in ("turbomind", "pytorch", "pipeline", "transformers", "server") if applies(declared, k)]

    assert kinds("cp") == ["turbomind", "pipeline"]
    assert kinds("eager_mode") == ["pytorch", "pipeline"]
    assert kinds("tp") == ["turbomind", "pytorch", "pipeline"]
    assert kinds("dtype") == ["turbomind", "pytorch", "pipeline", "transformers"]
    assert kinds("base_url") == ["server"]
    assert kinds("env") == ["turbomind", "pytorch", "pipeline", "transformers", "server"]


def test_every_flag_of_lmdeploys_engine_groups_has_its_key() -> None:
    names = """dtype device tp dp cp ep nnodes node_rank dist_init_addr session_len max_batch_size model_format
        cache_max_entry_count cache_block_seq_len kernel_block_size num_gpu_blocks enable_prefix_caching quant_policy
        max_prefill_token_num num_tokens_per_iter max_prefill_iters async communicator moe_a2a_backend eager_mode
        rope_scaling_factor use_logn_attn piecewise_cudagraph_max_tokens distributed_executor_backend
        enable_return_routed_experts dllm_block_length dllm_unmasking_strategy dllm_denoising_steps
        dllm_confidence_threshold speculative_algorithm speculative_draft_model speculative_num_draft_tokens
        speculative_dflash_block_size log_level trust_remote_code revision download_dir hf_overrides backend"""
    for name in names.split():
        declared = by_key(f"target.{name}")
        assert declared is not None, name
        assert declared.declaration.flag == "--" + name.replace("_", "-")
