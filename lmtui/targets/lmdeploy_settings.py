"""From the config's keys to LMDeploy's own configuration: names and values, without importing LMDeploy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmtui.config.declared import DECLARED
from lmtui.config.model import Config
from lmtui.targets.guided import is_guided
from lmtui.targets.sampling import sampling

TURBOMIND_CLASS, PYTORCH_CLASS = "TurbomindEngineConfig", "PytorchEngineConfig"


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


_SHARED = _same(
    "dtype tp dp ep session_len cache_max_entry_count enable_prefix_caching quant_policy model_format revision "
    "download_dir hf_overrides language_model_only max_prefill_token_num"
)
TURBOMIND_FIELDS: Mapping[str, str] = {
    **_SHARED,
    **_same(
        "cp nnodes node_rank dist_init_addr cache_block_seq_len num_tokens_per_iter max_prefill_iters async_ "
        "communicator moe_a2a_backend rope_scaling_factor use_logn_attn"
    ),
}
PYTORCH_FIELDS: Mapping[str, str] = {
    **_SHARED,
    "cache_block_seq_len": "block_size",
    **_same(
        "kernel_block_size num_gpu_blocks prefix_cache_state_budget prefix_cache_decode_state_interval eager_mode "
        "cudagraph_capture_batch_sizes piecewise_cudagraph_max_tokens distributed_executor_backend "
        "enable_microbatch enable_eplb enable_return_routed_experts empty_init logprobs_mode dllm_block_length "
        "dllm_unmasking_strategy dllm_denoising_steps dllm_confidence_threshold"
    ),
}
"""Attribute of `config.target` → field of LMDeploy's class. What is computed from several keys is not among them."""

SPECULATIVE_FIELDS: Mapping[str, str] = {
    "speculative_algorithm": "method",
    "speculative_draft_model": "model",
    "speculative_num_draft_tokens": "num_speculative_tokens",
    "speculative_dflash_block_size": "dflash_block_size",
}

_KEYS = {declared.key.partition(".")[2]: declared for declared in DECLARED if declared.section == "target"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of LMDeploy's class: its value, the key it comes from, and whether LMDeploy's default would do."""

    field: str
    value: Any
    key: str
    is_default: bool


def turbomind_settings(config: Config) -> list[Setting]:
    """Return the fields of `TurbomindEngineConfig`."""
    # The throughput script gives each replica its part of the requests in flight, the pipeline's script does not.
    replicas = 1 if config.target.kind == "pipeline" else config.target.dp
    size = config.target.max_batch_size or config.load.concurrency // replicas
    return [
        *_named(config, TURBOMIND_FIELDS),
        Setting("max_batch_size", size, "target.max_batch_size", False),
        _metrics(config),
    ]


def pytorch_settings(config: Config) -> list[Setting]:
    """Return the fields of `PytorchEngineConfig`."""
    target = config.target
    device = "cuda" if target.device == "auto" else target.device
    return [
        *_named(config, PYTORCH_FIELDS),
        Setting("max_batch_size", target.max_batch_size or config.load.concurrency, "target.max_batch_size", False),
        Setting("device_type", device, "target.device", device == "cuda"),
        _metrics(config),
    ]


def speculative_settings(config: Config) -> list[Setting]:
    """Return the fields of `SpeculativeConfig`; none when nothing is drafted ahead."""
    if config.target.speculative_algorithm is None:
        return []
    return list(_named(config, SPECULATIVE_FIELDS))


def unknown(settings: Collection[Setting], known: Collection[str]) -> list[Setting]:
    """Return the settings that matter and that LMDeploy's class does not know (TurboMind's takes them silently)."""
    return [setting for setting in settings if setting.field not in known and not setting.is_default]


def arguments(settings: Collection[Setting], known: Collection[str]) -> dict[str, Any]:
    """Return the keyword arguments for a class that has the fields `known`; null means LMDeploy's own default."""
    return {
        setting.field: setting.value for setting in settings if setting.field in known and setting.value is not None
    }


def generation_arguments(
    config: Config, output_len: int, stop_ids: list[int] | None, held_to: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the keyword arguments of `GenerationConfig` for one request.

    Args:
        config: Sampling and EOS.
        output_len: Tokens asked for.
        stop_ids: Ids that end an output where stops are allowed; None: the caller's engine finds them itself.
        held_to: The response format; None: outputs are free.
    """
    chosen = sampling(config)
    made: dict[str, Any] = {
        "max_new_tokens": output_len,
        "temperature": chosen.temperature,
        "top_p": chosen.top_p,
        "top_k": chosen.top_k,
        "ignore_eos": config.request.ignore_eos,
    }
    if held_to is not None:
        made["response_format"] = dict(held_to)  # an engine that cannot follow it may take it away
    if stop_ids and may_stop(config):
        made["stop_token_ids"] = stop_ids
    return made


def may_stop(config: Config) -> bool:
    """Return whether an output may end before its asked length: a grammar ends even where EOS is ignored."""
    return not config.request.ignore_eos or is_guided(config)


def _named(config: Config, fields: Mapping[str, str]) -> Iterator[Setting]:
    for attribute, field in fields.items():
        declared = _KEYS[attribute.rstrip("_")]
        value = getattr(config.target, attribute)
        yield Setting(field, None if value == {} else value, declared.key, value == declared.default)


def _metrics(config: Config) -> Setting:
    off = config.target.disable_metrics
    return Setting("enable_metrics", not off, "target.disable_metrics", not off)
