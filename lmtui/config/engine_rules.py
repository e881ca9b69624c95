"""Rules across engine parameters: mistakes that LMDeploy meets late, with an abort, a hang or no message at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from lmtui.config.model import Config

Broken = Iterator[tuple[str, str]]

DTYPES = {"transformers": ("auto", "float32", "float16", "bfloat16"), "": ("auto", "float16", "bfloat16")}
DEVICES = {"transformers": ("auto", "cpu", "cuda"), "": ("auto", "cuda", "ascend", "maca", "camb")}
TURBOMIND_QUANT = (0, 4, 8)


def engine(config: Config) -> str:
    """Return the engine that runs in the end: the pipeline's is its backend."""
    return config.target.backend if config.target.kind == "pipeline" else config.target.kind


def _choices_fit_the_engine(config: Config) -> Broken:
    target, inside = config.target, engine(config)
    if inside not in ("turbomind", "pytorch", "transformers"):
        return
    dtypes, devices = DTYPES.get(inside, DTYPES[""]), DEVICES.get(inside, DEVICES[""])
    if target.dtype not in dtypes:
        yield "target.dtype", f"must be one of {', '.join(dtypes)} with {inside}"
    if inside != "turbomind" and target.device not in devices:
        yield "target.device", f"must be one of {', '.join(devices)} with {inside}"
    if inside == "turbomind" and target.quant_policy not in TURBOMIND_QUANT:
        yield "target.quant_policy", f"must be one of {', '.join(map(str, TURBOMIND_QUANT))} with turbomind"
    if inside == "pytorch" and target.quant_policy and target.device not in ("auto", "cuda", "ascend"):
        yield "target.quant_policy", f"must be 0 with target.device = {target.device}"


def _blocks_fit(config: Config) -> Broken:
    target, inside = config.target, engine(config)
    block, kernel = target.cache_block_seq_len, target.kernel_block_size
    if inside == "turbomind" and block % 32:
        yield "target.cache_block_seq_len", "must be a multiple of 32, such as 64, with turbomind"
    if inside != "pytorch":
        return
    if kernel == -1:
        if block < 16 or block & (block - 1):
            yield "target.cache_block_seq_len", "must be a power of two from 16, such as 64, with pytorch"
    elif kernel < 16 or kernel & (kernel - 1):
        yield "target.kernel_block_size", "must be a power of two from 16, or -1 for the KV block's size"
    elif block % kernel:
        yield "target.cache_block_seq_len", f"must be a multiple of target.kernel_block_size, which is {kernel}"
    if 0 < target.num_gpu_blocks < 16:
        yield "target.num_gpu_blocks", "must be at least 16, or 0 for as many as the KV cache share holds"
    if target.prefix_cache_decode_state_interval % block:
        yield (
            "target.prefix_cache_decode_state_interval",
            f"must be a multiple of target.cache_block_seq_len, which is {block}",
        )


def _gpus_fit(config: Config) -> Broken:
    target, inside = config.target, engine(config)
    if inside == "turbomind":
        if target.tp % target.cp:
            yield "target.cp", f"must divide target.tp, which is {target.tp}"
        elif target.ep > target.dp * target.tp * target.cp:
            yield "target.ep", "must be at most dp x tp x cp, for experts share the same GPUs; raise target.tp with it"
        if target.max_batch_size is None and config.load.concurrency < target.dp:
            yield "target.dp", f"must be at most load.concurrency, which is {config.load.concurrency}"
        if target.moe_a2a_backend == "deepep" and target.communicator != "nccl":
            yield "target.communicator", 'must be nccl with target.moe_a2a_backend = "deepep"'
    if inside == "pytorch" and target.dp > 1:
        yield "target.dp", "must be 1 in process with pytorch; serve the model and measure it with target.kind = server"


def _nodes_can_meet(config: Config) -> Broken:
    target = config.target
    if engine(config) != "turbomind":
        return
    if target.nnodes > 1:
        yield "target.nnodes", "is not built yet: the engine runs on one machine until then; leave it out"
        return
    if target.node_rank >= target.nnodes:
        yield "target.node_rank", f"must be below target.nnodes, which is {target.nnodes}"
    host, _, port = (target.dist_init_addr or "").rpartition(":")
    if (target.nnodes > 1 or target.dist_init_addr) and not (host and port.isdecimal() and 0 < int(port) < 65536):
        yield "target.dist_init_addr", "must be host:port, such as 10.0.0.1:29500, where the nodes meet"


def _drafting_is_complete(config: Config) -> Broken:
    target = config.target
    if engine(config) != "pytorch":
        return
    if target.speculative_dflash_block_size is not None and target.speculative_algorithm != "dflash":
        yield "target.speculative_dflash_block_size", 'needs target.speculative_algorithm = "dflash"'
    if target.speculative_draft_model is not None and target.speculative_algorithm is None:
        yield "target.speculative_draft_model", "needs target.speculative_algorithm, which uses it"


def _engine_answers(config: Config) -> Broken:
    if engine(config) == "pytorch" and config.target.empty_init:
        yield "target.empty_init", "must be false: an engine without weights answers no request"


def _pipeline_takes_all_at_once(config: Config) -> Broken:
    if config.target.kind != "pipeline":
        return
    because = "for the pipeline takes all prompts at once"
    load = config.load
    if load.mode == "trace" or (load.mode == "open" and not math.isinf(load.rate)):
        yield "load.mode", f'must be closed, or open with load.rate = inf, {because}; use target.kind = "turbomind"'
    if load.duration_s is not None:
        yield "load.duration_s", f"must be left out, {because}"


def _keys(names: str) -> tuple[str, ...]:
    return tuple(name if "." in name else f"target.{name}" for name in names.split())


RULES: tuple[tuple[tuple[str, ...], Callable[[Config], Broken]], ...] = (
    (_keys("backend dtype device quant_policy"), _choices_fit_the_engine),
    (
        _keys("backend cache_block_seq_len kernel_block_size num_gpu_blocks prefix_cache_decode_state_interval"),
        _blocks_fit,
    ),
    (_keys("backend tp dp cp ep max_batch_size moe_a2a_backend communicator load.concurrency"), _gpus_fit),
    (_keys("backend nnodes node_rank dist_init_addr"), _nodes_can_meet),
    (
        _keys("backend speculative_algorithm speculative_dflash_block_size speculative_draft_model"),
        _drafting_is_complete,
    ),
    (_keys("backend empty_init"), _engine_answers),
    (_keys("load.mode load.rate load.duration_s"), _pipeline_takes_all_at_once),
)
"""The keys that a rule reads, beside target.kind, and the rule."""
