"""LMDeploy's four benchmark scripts as tables: every flag with its default, and the config key that it sets.

One table per script, for LMDeploy 0.16 to 0.18. Standard library only: `--help` of a script command shows them without
loading the config model. What a flag without a key does is said in `does`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

OLDEST, NEWEST = (0, 16), (0, 18)
"""The versions of LMDeploy whose flags these are."""

TM, PT = ("turbomind",), ("pytorch",)
SHAREGPT, RANDOM, IMAGE = ("sharegpt",), ("random", "image"), ("image",)

_PYTORCH, _TURBOMIND = "PyTorch engine", "TurboMind engine"
_BOTH, _SPECULATIVE, _GUIDED = "both engines", "speculative decoding (PyTorch engine)", "guided decoding"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag or positional argument of a script.

    Attributes:
        names: As typed, short form first; a positional has its bare name.
        help: What it means.
        type: How its text is read; a switch takes none and turns False into True.
        default: The script's own.
        choices: The values allowed; () means any.
        is_required: Whether a flag must be given.
        dest: Where the parser puts it ("": from the long name).
        key: The config key that it sets ("": none, see `does`). A default of None leaves the key's own default.
        is_inverse: Whether a switch turns the key off.
        engines: Backends whose engine the script gives it to; () means whatever the backend.
        datasets: Datasets that it belongs to; () means all.
        does: What it does when no key stands for it.
        group: Heading in the help; "" for the script's own arguments.
    """

    names: tuple[str, ...]
    help: str
    type: Literal["text", "int", "float", "switch", "quant_policy"] = "text"
    default: object = None
    choices: tuple[object, ...] = ()
    is_required: bool = False
    dest: str = ""
    key: str = ""
    is_inverse: bool = False
    engines: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    does: str = ""
    group: str = ""
    metavar: str | None = None

    @property
    def is_positional(self) -> bool:
        """Whether it is given by its place."""
        return not self.names[0].startswith("-")

    @property
    def attribute(self) -> str:
        """Its name on the parsed options."""
        return self.dest or self.names[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Script:
    """One script.

    Attributes:
        command: The command that stands for it.
        help: What it measures.
        flags: Its flags, in the order of its help.
        fixed: Config key → value that the script always has, whatever its flags.
        example: A command line of it, without its name.
    """

    command: str
    help: str
    flags: tuple[Flag, ...]
    fixed: Mapping[str, object] = field(default_factory=dict)
    example: str = ""


QUANT_POLICIES: Mapping[str, int] = {
    "none": 0,
    "int4": 4,
    "int8": 8,
    "fp8": 16,
    "fp8_e4m3": 16,
    "fp8_e5m2": 17,
    "turbo_quant": 42,
}
"""Words that `--quant-policy` takes beside the numbers."""

LOG_LEVELS: Mapping[str, str] = {
    "CRITICAL": "CRITICAL",
    "FATAL": "CRITICAL",
    "ERROR": "ERROR",
    "WARN": "WARNING",
    "WARNING": "WARNING",
    "INFO": "INFO",
    "DEBUG": "DEBUG",
    "NOTSET": "DEBUG",
    "REQUEST": "DEBUG",
}
"""Word of `--log-level` → `target.log_level`; the words are those of Python's logging, and LMDeploy's own REQUEST."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What a `--backend` of the restful script talks to."""

    api: str
    preset: str
    port: int


RESTFUL_BACKENDS: Mapping[str, Backend | None] = {
    "sglang": Backend("sglang", "sglang", 30000),
    "sglang-native": Backend("sglang", "sglang", 30000),
    "sglang-oai": Backend("completions", "sglang", 30000),
    "sglang-oai-chat": Backend("chat", "sglang", 30000),
    "vllm": Backend("completions", "vllm", 8000),
    "vllm-chat": Backend("chat", "vllm", 8000),
    "lmdeploy": Backend("completions", "lmdeploy", 23333),
    "lmdeploy-chat": Backend("chat", "lmdeploy", 23333),
    "trt": Backend("trt", "trt", 8000),
    "gserver": None,
}
"""Name → API, preset and default port; None: the script knows the name and implements nothing."""


_DATASET = (
    Flag(("--sharegpt-output-len",), "tokens asked for, instead of the conversation's own answer length", "int",
         key="dataset.output_len", datasets=SHAREGPT),
    Flag(("--random-input-len",), "tokens of a prompt, for random lengths", "int",
         key="dataset.input_len", datasets=RANDOM),
    Flag(("--random-output-len",), "tokens asked for, for random lengths", "int",
         key="dataset.output_len", datasets=RANDOM),
    Flag(("--random-range-ratio",), "lengths are uniform between this share of the length and the length", "float",
         0.0, key="dataset.range_ratio", datasets=RANDOM),
)  # fmt: skip

_ENGINE_FRONT = (
    Flag(("dataset",), "path of the ShareGPT file", key="dataset.path"),
    Flag(("model_path",), "path or hub id of the model", key="target.model"),
    Flag(("-c", "--concurrency"), "requests in flight at once, and the engine's batch", "int", 256,
         key="load.concurrency"),
    Flag(("-n", "--num-prompts"), "how many requests", "int", 5000, key="load.num_prompts"),
)  # fmt: skip

_ENGINE_OWN = (
    Flag(("--csv",), "file that gains one row (empty: none)", does="names the file that the row is appended to"),
    Flag(("--seed",), "seed of the sample", "int", 0, key="seed"),
    Flag(("--dataset-name",), "what the requests are made of", "text", "sharegpt", ("sharegpt", "random"),
         key="dataset.kind"),
    *_DATASET,
)  # fmt: skip

_SAMPLING = (
    Flag(("--top-p",), "sample from the likeliest tokens that hold this share", "float", 0.8, key="request.top_p"),
    Flag(("-temp", "--temperature"), "randomness of sampling", "float", 0.8, key="request.temperature"),
    Flag(("--top-k",), "sample from this many likeliest tokens", "int", 1, key="request.top_k"),
)
_LOG_LEVEL = Flag(("--log-level",), "what the engine writes to the run's log", "text", "WARNING",
                  tuple(LOG_LEVELS), does="sets target.log_level, FATAL, WARN and NOTSET as their next of kin"
                  )  # fmt: skip
_TRUST = Flag(("--trust-remote-code",), "whether Python code that comes with the model may run", "switch", False,
              key="target.trust_remote_code")  # fmt: skip

_ENGINE = (
    Flag(("--backend",), "the engine", "text", "turbomind", ("pytorch", "turbomind"), key="target.kind"),
    Flag(("--eager-mode",), "leave out CUDA graphs", "switch", False,
         key="target.eager_mode", engines=PT, group=_PYTORCH),
    Flag(("--enable-return-routed-experts",), "each output also carries the experts it went through", "switch", False,
         key="target.enable_return_routed_experts", engines=PT, group=_PYTORCH),
    Flag(("--piecewise-cudagraph-max-tokens",), "prefill steps of up to this many tokens use CUDA graphs", "int",
         key="target.piecewise_cudagraph_max_tokens", engines=PT, group=_PYTORCH),
    Flag(("--device",), "kind of accelerator", "text", "cuda", ("cuda", "ascend", "maca", "camb"),
         key="target.device", engines=PT, group=_PYTORCH),
    Flag(("--distributed-executor-backend",), "how the engine's ranks are run", "text", None, ("uni", "mp", "ray"),
         key="target.distributed_executor_backend", engines=PT, group=_PYTORCH),
    Flag(("--dllm-block-length",), "tokens a diffusion model makes at once", "int",
         key="target.dllm_block_length", engines=PT, group=_PYTORCH),
    Flag(("--dllm-unmasking-strategy",), "in which order a diffusion model settles its tokens", "text",
         "low_confidence_dynamic", ("low_confidence_dynamic", "low_confidence_static", "sequential"),
         key="target.dllm_unmasking_strategy", engines=PT, group=_PYTORCH),
    Flag(("--dllm-denoising-steps",), "denoising steps per block", "int",
         key="target.dllm_denoising_steps", engines=PT, group=_PYTORCH),
    Flag(("--dllm-confidence-threshold",), "confidence from which a token is settled", "float", 0.85,
         key="target.dllm_confidence_threshold", engines=PT, group=_PYTORCH),
    Flag(("--tp",), "GPUs that share each tensor", "int", 1, key="target.tp", group=_BOTH),
    Flag(("--cache-max-entry-count",), "share of the GPU memory left by the weights that the KV cache takes", "float",
         0.8, key="target.cache_max_entry_count", group=_BOTH),
    Flag(("--session-len",), "longest prompt plus output", "int", key="target.session_len", group=_BOTH),
    Flag(("--cache-block-seq-len",), "tokens of one KV cache block", "int", 64,
         key="target.cache_block_seq_len", group=_BOTH),
    Flag(("--enable-prefix-caching",), "equal beginnings of prompts are computed once", "switch", False,
         key="target.enable_prefix_caching", group=_BOTH),
    Flag(("--quant-policy",), "KV cache quantization: none, int4, int8, fp8, fp8_e5m2, turbo_quant or 0, 4, 8, 16, "
         "17, 42", "quant_policy", 0, key="target.quant_policy", group=_BOTH),
    Flag(("--dtype",), "type of weights and activations", "text", "auto", ("auto", "float16", "bfloat16"),
         key="target.dtype", group=_BOTH),
    Flag(("--max-prefill-token-num",), "prompt tokens of one prefill step at most", "int", 8192,
         key="target.max_prefill_token_num", group=_BOTH),
    Flag(("--speculative-algorithm",), "how tokens are drafted ahead", "text", None,
         ("eagle", "eagle3", "deepseek_mtp", "hy3_mtp", "qwen3_5_mtp", "dflash"),
         key="target.speculative_algorithm", engines=PT, group=_SPECULATIVE),
    Flag(("--speculative-draft-model",), "path or hub id of the model that drafts",
         key="target.speculative_draft_model", engines=PT, group=_SPECULATIVE),
    Flag(("--speculative-num-draft-tokens",), "tokens drafted per step", "int", 1,
         key="target.speculative_num_draft_tokens", engines=PT, group=_SPECULATIVE),
    Flag(("--speculative-dflash-block-size",), "block that dflash drafts, its first token included", "int",
         key="target.speculative_dflash_block_size", engines=PT, group=_SPECULATIVE),
    Flag(("--dp",), "groups of GPUs that share the requests", "int", 1,
         key="target.dp", engines=TM, group=_TURBOMIND),
    Flag(("--cp",), "GPUs that share each context", "int", 1, key="target.cp", engines=TM, group=_TURBOMIND),
    Flag(("--model-format",), "how the weights are quantized", "text", "hf",
         ("hf", "awq", "gptq", "compressed-tensors", "fp8", "mxfp4"),
         key="target.model_format", engines=TM, group=_TURBOMIND),
    Flag(("--num-tokens-per-iter",), "tokens of one forward pass (0: the engine's choice)", "int", 0,
         key="target.num_tokens_per_iter", engines=TM, group=_TURBOMIND),
    Flag(("--max-prefill-iters",), "forward passes that one prefill may be spread over", "int", 1,
         key="target.max_prefill_iters", engines=TM, group=_TURBOMIND),
    Flag(("--communicator",), "how GPUs talk to each other", "text", "nccl", ("nccl", "native", "cuda-ipc"),
         key="target.communicator", engines=TM, group=_TURBOMIND),
    Flag(("--async",), "the next step is scheduled while one runs: 1 yes, 0 no", "int", 1, (0, 1),
         dest="async_", key="target.async", engines=TM, group=_TURBOMIND),
)  # fmt: skip

_THROUGHPUT_ONLY = (
    "--distributed-executor-backend", "--dllm-block-length", "--dllm-unmasking-strategy", "--dllm-denoising-steps",
    "--dllm-confidence-threshold", "--dtype", "--dp", "--cp",
)  # fmt: skip


def _pipeline_engine() -> tuple[Flag, ...]:
    """Return the engine flags of the scripts that go through the pipeline, which gives PyTorch no quant policy."""
    made = []
    for flag in _ENGINE:
        if flag.names[-1] in _THROUGHPUT_ONLY:
            continue
        if flag.key == "target.kind":
            flag = replace(flag, key="target.backend")
        elif flag.key == "target.quant_policy":
            flag = replace(flag, engines=TM, group=_TURBOMIND)
        made.append(flag)
    return tuple(made)


def _with_csv(flags: tuple[Flag, ...], default: str) -> tuple[Flag, ...]:
    return tuple(replace(flag, default=default) if flag.names == ("--csv",) else flag for flag in flags)


_STREAM = Flag(("--stream-output",), "tokens come one by one", "switch", False, key="request.stream")
_CLOSED = {"load.mode": "closed", "load.warmup_requests": 0}
_ALL_AT_ONCE = {"target.kind": "pipeline", "load.mode": "open", "load.rate": math.inf, "load.warmup_requests": 0,
                "target.disable_metrics": True}  # fmt: skip

THROUGHPUT = Script(
    "profile-throughput",
    "measure an LMDeploy engine in process (profile_throughput.py)",
    (
        *_ENGINE_FRONT,
        Flag(("--no-stream-output",), "each answer comes whole", "switch", False,
             key="request.stream", is_inverse=True),
        Flag(("--skip-tokenize",), "prompts are tokenised before the start", "switch", False,
             key="request.skip_tokenize"),
        Flag(("--skip-detokenize",), "outputs are left as token ids", "switch", False, key="request.skip_detokenize"),
        Flag(("--cancel-rate",), "share of requests that are cancelled", "float", 0, key="cancel.rate"),
        Flag(("--use-uvloop",), "the event loop is uvloop", "switch", False, key="request.uvloop"),
        *_with_csv(_ENGINE_OWN, "./profile_throughput.csv"),
        *_SAMPLING,
        _LOG_LEVEL,
        _TRUST,
        *(flag for flag in _ENGINE if flag.names != ("--session-len",)),
    ),
    _CLOSED,
    "ShareGPT_V3.json Qwen/Qwen2.5-7B-Instruct -c 64 -n 1000 --cancel-rate 0.1",
)  # fmt: skip
PIPELINE = Script(
    "profile-pipeline-api",
    "measure LMDeploy's pipeline (profile_pipeline_api.py)",
    (
        *_ENGINE_FRONT,
        *_with_csv(_ENGINE_OWN, "./profile_pipeline_api.csv"),
        _STREAM,
        *_SAMPLING,
        _LOG_LEVEL,
        _TRUST,
        *_pipeline_engine(),
    ),
    _ALL_AT_ONCE,
    "ShareGPT_V3.json Qwen/Qwen2.5-7B-Instruct --stream-output -n 1000",
)
GUIDED = Script(
    "benchmark-guided",
    "measure what guided decoding costs (benchmark_guided.py)",
    (
        *_ENGINE_FRONT[:3],
        replace(_ENGINE_FRONT[3], default=1000),
        *_with_csv(_ENGINE_OWN, ""),
        _STREAM,
        Flag(("--response-format",), "what outputs are held to", "text", None,
             ("json_schema", "json_object", "regex_schema"), is_required=True,
             key="guided.response_format", group=_GUIDED),
        Flag(("--json-schema-path",), "file of the schema (none: a small one)",
             key="guided.json_schema_path", group=_GUIDED),
        Flag(("--regex-schema",), "the expression (none: a small one)", key="guided.regex", group=_GUIDED),
        Flag(("--ignore-eos",), "each answer has the asked length, instead of a natural stop", "switch", False,
             key="request.ignore_eos", group=_GUIDED),
        Flag(("--no-baseline",), "run guided only, with nothing to compare to", "switch", False,
             does="leaves out the run without guided decoding", group=_GUIDED),
        *_SAMPLING,
        _LOG_LEVEL,
        _TRUST,
        *_pipeline_engine(),
    ),
    _ALL_AT_ONCE,
    "ShareGPT_V3.json Qwen/Qwen2.5-7B-Instruct --response-format json_object --stream-output",
)  # fmt: skip
RESTFUL = Script(
    "profile-restful-api",
    "measure a server (profile_restful_api.py)",
    (
        Flag(("--backend",), "the server and its API", "text", "sglang", tuple(RESTFUL_BACKENDS),
             does="sets target.preset, target.api and the default port"),
        Flag(("--base-url",), "URL of the server, instead of --host and --port",
             does="sets target.base_url"),
        Flag(("--host",), "host of the server", "text", "0.0.0.0", does="is a part of target.base_url"),
        Flag(("--port",), "port of the server (none: the backend's)", "int", does="is a part of target.base_url"),
        Flag(("--dataset-name",), "what the requests are made of", "text", "sharegpt", ("sharegpt", "random", "image"),
             key="dataset.kind"),
        Flag(("--dataset-path",), "path of the ShareGPT file (none: lmtui offers to download it)", "text", "",
             key="dataset.path"),
        Flag(("--model",), "name of the model at the server (none: the first that it lists)", key="target.model"),
        Flag(("--model-path",), "path or hub id of the model (none: --model)",
             does="is the tokenizer when --tokenizer is not given"),
        Flag(("--tokenizer",), "path or hub id of the tokenizer (none: the model's)", key="target.tokenizer"),
        Flag(("--num-prompts",), "how many requests", "int", 1000, key="load.num_prompts"),
        *_DATASET,
        Flag(("--image-count",), "images of one request", "int", 1, key="dataset.image_count", datasets=IMAGE),
        Flag(("--image-resolution",), "4k, 1080p, 720p, 360p, or HEIGHTxWIDTH", "text", "1080p",
             datasets=IMAGE, does="comes with image datasets"),
        Flag(("--image-format",), "jpeg or png", "text", "jpeg", datasets=IMAGE, does="comes with image datasets"),
        Flag(("--image-content",), "random or blank", "text", "random", datasets=IMAGE,
             does="comes with image datasets"),
        Flag(("--request-rate",), "requests per second; inf: all at once", "float", math.inf, key="load.rate"),
        Flag(("--seed",), "seed of the sample and of the arrivals", "int", 1, key="seed"),
        Flag(("--multi",), "one run for each rate of --request-rate-range", "switch", False,
             does="makes one run per rate"),
        Flag(("--request-rate-range",), "start,stop,step (stop is not reached), or any other count of rates", "text",
             "2,34,2", does="sets load.rate of each run of --multi"),
        Flag(("--output-file",), "file that gains one row for each rate", does="names the file of the rows"),
        Flag(("--disable-tqdm",), "no progress on stderr", "switch", False, does="leaves out the progress line"),
        Flag(("--disable-stream",), "each answer comes whole", "switch", False,
             key="request.stream", is_inverse=True),
        Flag(("--disable-ignore-eos",), "answers may stop by themselves", "switch", False,
             key="request.ignore_eos", is_inverse=True),
        Flag(("--extra-request-body",), "further fields of every request, a JSON object", "text", None,
             metavar='{"key1": "value1", "key2": "value2"}',
             does="sets target.extra_body; model, stream and max_tokens in it set target.model, request.stream and "
             "request.max_tokens"),
        Flag(("--disable-warmup",), "no warm-up request before the start, only lmtui's one probe", "switch", None,
             does="sets load.warmup_requests to 0"),
        _TRUST,
    ),
    {"target.kind": "server", "load.mode": "open", "request.temperature": 0.0, "load.warmup_prompts": "plan",
     "load.warmup_pause_s": 1.5, "target.retokenize": True},
    "--backend lmdeploy --dataset-path ShareGPT_V3.json --request-rate 8",
)  # fmt: skip

SCRIPTS: Mapping[str, Script] = {script.command: script for script in (THROUGHPUT, PIPELINE, RESTFUL, GUIDED)}
"""Command → script."""
