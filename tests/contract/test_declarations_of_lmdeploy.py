"""LMDeploy's own configuration classes and flags beside lmtui's declarations.

A field that a newer LMDeploy adds fails here by its name: either lmtui learns it, or it is written down as left out.
"""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields
from typing import Any

import pytest

from lmtui.config.declared import by_key
from lmtui.targets import lmdeploy_parts
from lmtui.targets.lmdeploy_settings import (
    PYTORCH_CLASS,
    PYTORCH_FIELDS,
    SPECULATIVE_FIELDS,
    TURBOMIND_CLASS,
    TURBOMIND_FIELDS,
    pytorch_settings,
    speculative_settings,
    turbomind_settings,
    unknown,
)
from tests.contract.engine_runs import config

pytestmark = pytest.mark.slow

COMPUTED = {"max_batch_size", "enable_metrics"}
LEFT_OUT = {
    TURBOMIND_CLASS: {
        "gemm_input_dtype": "no flag of the scripts sets it",
        "device_num": "derived",
        "attn_tp_size": "derived",
        "attn_cp_size": "derived",
        "attn_dp_size": "derived",
        "mlp_tp_size": "derived",
        "mlp_dp_size": "derived",
        "outer_dp_size": "derived",
        "devices": "the first GPUs that CUDA_VISIBLE_DEVICES shows",
        "cache_chunk_size": "no flag of the scripts sets it",
        "cache_checkpoint_interval": "no flag of the scripts sets it",
        "cache_prompt": "no flag of the scripts sets it",
        "cache_prompt_boundary_skip": "no flag of the scripts sets it",
        "cache_generation": "no flag of the scripts sets it",
        "empty_init": "an engine without weights answers nothing",
    },
    PYTORCH_CLASS: {
        "device_type": "computed from target.device",
        "dp_rank": "one process cannot feed several ranks",
        "attn_tp_size": "only with dp > 1",
        "mlp_tp_size": "only with dp > 1",
        "moe_tp_size": "only with dp > 1",
        "prefill_interval": "no flag sets it",
        "num_cpu_blocks": "no flag sets it",
        "adapters": "requests name no adapter",
        "thread_safe": "refused by LMDeploy",
        "custom_module_map": "no flag sets it",
        "enable_transfer_obj_ref": "for reinforcement learning",
        "enable_mp_engine": "the engine has a process of its own already",
        "mp_engine_backend": "the same",
        "role": "prefill and decode apart need several engines",
        "migration_backend": "the same",
        "kv_transfer_config": "the same",
    },
    "SpeculativeConfig": {},
}
"""Class → field → why lmtui does not set it."""


def classes() -> dict[str, Any]:
    from lmdeploy.messages import PytorchEngineConfig, SpeculativeConfig, TurbomindEngineConfig

    return {
        TURBOMIND_CLASS: TurbomindEngineConfig,
        PYTORCH_CLASS: PytorchEngineConfig,
        "SpeculativeConfig": SpeculativeConfig,
    }


SET = {
    TURBOMIND_CLASS: set(TURBOMIND_FIELDS.values()) | COMPUTED,
    PYTORCH_CLASS: set(PYTORCH_FIELDS.values()) | COMPUTED,
    "SpeculativeConfig": set(SPECULATIVE_FIELDS.values()),
}


@pytest.mark.parametrize("name", SET)
def test_every_field_is_set_or_left_out_for_a_reason(name: str) -> None:
    has = {field.name for field in fields(classes()[name])}
    decided = SET[name] | LEFT_OUT[name].keys()
    assert not has - decided, f"{name} of the installed LMDeploy has new fields: decide about {sorted(has - decided)}"
    assert not decided - has, f"{name} of the installed LMDeploy lacks {sorted(decided - has)}"


@pytest.mark.parametrize("name", SET)
def test_the_names_read_from_the_file_are_the_class_s(name: str) -> None:
    assert lmdeploy_parts.fields_of(name) == {field.name for field in fields(classes()[name])}


@pytest.mark.parametrize(("name", "ours"), [(TURBOMIND_CLASS, TURBOMIND_FIELDS), (PYTORCH_CLASS, PYTORCH_FIELDS)])
def test_the_defaults_are_lmdeploy_s(name: str, ours: dict[str, str]) -> None:
    theirs = {field.name: field.default for field in fields(classes()[name]) if field.default is not MISSING}
    for attribute, field in ours.items():
        declared = by_key(f"target.{attribute.rstrip('_')}")
        assert declared is not None
        assert declared.default == theirs[field] or (declared.default, theirs[field]) == ({}, None), attribute


@pytest.mark.parametrize("kind", ["turbomind", "pytorch"])
def test_the_classes_take_what_lmtui_gives(kind: str) -> None:
    made = config(kind, "m", target={"hf_overrides": {"a": 1}, "session_len": 99})
    if kind == "turbomind":
        name, settings = TURBOMIND_CLASS, turbomind_settings(made)
    else:
        name, settings = PYTORCH_CLASS, pytorch_settings(made)
    known = lmdeploy_parts.fields_of(name)
    assert unknown(settings, known) == []
    from lmtui.targets.lmdeploy_settings import arguments

    told = classes()[name](**arguments(settings, known))
    assert told.session_len == 99
    assert told.hf_overrides == {"a": 1}
    assert told.max_batch_size == 8


def test_drafting_ahead_arrives() -> None:
    drafting = {"speculative_algorithm": "dflash", "speculative_draft_model": "d", "speculative_dflash_block_size": 4}
    from lmtui.targets.lmdeploy_settings import arguments

    settings = speculative_settings(config("pytorch", "m", target=drafting))
    told = classes()["SpeculativeConfig"](**arguments(settings, lmdeploy_parts.fields_of("SpeculativeConfig")))
    assert (told.method, told.model, told.num_speculative_tokens) == ("dflash", "d", 3)
    assert speculative_settings(config("pytorch", "m")) == []


def test_a_setting_that_matters_and_is_not_known_is_found() -> None:
    settings = turbomind_settings(config("turbomind", "m", target={"moe_a2a_backend": "deepep"}))
    known = lmdeploy_parts.fields_of(TURBOMIND_CLASS)
    assert [setting.key for setting in unknown(settings, known - {"moe_a2a_backend"})] == ["target.moe_a2a_backend"]
    assert unknown(settings, known - {"use_logn_attn"}) == []  # LMDeploy's default is meant anyway


FLAGS = """
    dtype tp session_len max_batch_size cache_max_entry_count cache_block_seq_len enable_prefix_caching quant_policy
    model_format revision download_dir num_tokens_per_iter max_prefill_iters async_ communicator eager_mode dp ep cp
    max_prefill_token_num
"""


def test_the_choices_of_flags_are_the_declarations_choices() -> None:
    from lmdeploy.cli.utils import ArgumentHelper

    parser = argparse.ArgumentParser()
    for flag in FLAGS.split():
        getattr(ArgumentHelper, flag)(parser)
    for action in parser._actions:
        declared = by_key(f"target.{action.dest.rstrip('_')}")
        if action.choices is None or declared is None or action.dest == "quant_policy":
            continue
        ours = {choice for choice in declared.declaration.choices if choice != "float32"}
        assert ours == set(action.choices), action.dest


def test_the_layout_function_is_lmdeploy_s_own_and_needs_no_import() -> None:
    derive = lmdeploy_parts.layout()
    assert derive is not None
    assert derive(1, 4, 1, 2, None, 8).device_num == 4
    assert derive(2, 2, 1, 1, None, 2).device_num == 2
    with pytest.raises(AssertionError, match="no valid parallel config"):
        derive(1, 1, 8, 1, None, 8)
