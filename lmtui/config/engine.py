"""The engine parameters of `[target]`: LMDeploy's, under its flags' names, with its limits and defaults."""

from __future__ import annotations

from typing import Any, Literal

from lmtui.config.parameter import Section, parameter

TURBOMIND = ("turbomind", "pipeline")
PYTORCH = ("pytorch", "pipeline")
LMDEPLOY = ("turbomind", "pytorch", "pipeline")


class EnginePart(Section):
    """Keys of engines. Pipeline has those of both; the ones that its `backend` lacks are ignored with a note."""

    backend: Literal["turbomind", "pytorch"] = parameter(
        "turbomind", "Backend", "The engine inside the pipeline", kinds=("pipeline",), flag="--backend"
    )
    dtype: Literal["auto", "float16", "bfloat16", "float32"] = parameter(
        "auto",
        "Data type",
        "Type of weights and activations (auto: the checkpoint's; float32: transformers only)",
        kinds=(*LMDEPLOY, "transformers"),
        flag="--dtype",
    )
    device: Literal["auto", "cpu", "cuda", "ascend", "maca", "camb"] = parameter(
        "auto",
        "Device",
        "Where it runs (auto: LMDeploy cuda; transformers cuda when there is one, else cpu)",
        kinds=(*PYTORCH, "transformers"),
        flag="--device",
    )
    max_batch_size: int | None = parameter(
        None,
        "Max batch size",
        "Requests in one batch at most (none: load.concurrency; TurboMind divides it by dp, as the scripts)",
        minimum=1,
        kinds=(*LMDEPLOY, "transformers"),
        flag="--max-batch-size",
        example="256",
    )
    session_len: int | None = parameter(
        None,
        "Session length",
        "Longest prompt plus output (none: the model's maximum)",
        unit="tokens",
        minimum=1,
        kinds=LMDEPLOY,
        flag="--session-len",
        example="8192",
    )
    model_format: Literal["hf", "awq", "gptq", "compressed-tensors", "fp8", "mxfp4"] | None = parameter(
        None,
        "Model format",
        "How the weights are quantized (none: as the checkpoint says)",
        kinds=LMDEPLOY,
        flag="--model-format",
    )
    revision: str | None = parameter(
        None,
        "Revision",
        "Branch, tag or commit of a hub model",
        kinds=(*LMDEPLOY, "transformers"),
        flag="--revision",
        example='"main"',
    )
    download_dir: str | None = parameter(
        None,
        "Download folder",
        "Where a hub model is kept (none: the hub's cache)",
        kinds=LMDEPLOY,
        flag="--download-dir",
        path=True,
        example='"/data/models"',
    )
    hf_overrides: dict[str, Any] = parameter(
        {},
        "Config overrides",
        "Values that replace those of the model's own config",
        kinds=LMDEPLOY,
        flag="--hf-overrides",
        example="{ rope_theta = 1000000.0 }",
    )
    language_model_only: bool = parameter(
        False,
        "Language model only",
        "Whether a vision model's encoders are left out",
        kinds=LMDEPLOY,
        flag="--language-model-only",
    )
    tp: int = parameter(1, "Tensor parallel", "GPUs that share each layer", minimum=1, kinds=LMDEPLOY, flag="--tp")
    dp: int = parameter(1, "Data parallel", "Replicas that share the requests", minimum=1, kinds=LMDEPLOY, flag="--dp")
    cp: int = parameter(
        1, "Context parallel", "GPUs that share a context; divides tp", minimum=1, kinds=TURBOMIND, flag="--cp"
    )
    ep: int = parameter(
        1, "Expert parallel", "GPUs that share a layer's experts", minimum=1, kinds=LMDEPLOY, flag="--ep"
    )
    nnodes: int = parameter(1, "Nodes", "Machines that the engine spans", minimum=1, kinds=TURBOMIND, flag="--nnodes")
    node_rank: int = parameter(
        0, "Node rank", "Number of this machine, from 0", minimum=0, kinds=TURBOMIND, flag="--node-rank"
    )
    dist_init_addr: str | None = parameter(
        None,
        "Rendezvous address",
        "host:port where the nodes meet; needed with more than one",
        kinds=TURBOMIND,
        flag="--dist-init-addr",
        example='"10.0.0.1:29500"',
    )
    cache_max_entry_count: float = parameter(
        0.8,
        "KV cache share",
        "Share of the GPU memory left by the weights that the KV cache takes",
        minimum=0,
        maximum=1,
        above=True,
        below=True,
        kinds=LMDEPLOY,
        flag="--cache-max-entry-count",
    )
    cache_block_seq_len: int = parameter(
        64,
        "KV block",
        "Tokens of one KV cache block (TurboMind: a multiple of 32, before sm80 of 64)",
        unit="tokens",
        minimum=1,
        kinds=LMDEPLOY,
        flag="--cache-block-seq-len",
    )
    kernel_block_size: int = parameter(
        -1,
        "Kernel block",
        "Tokens of a block as the kernels see it, a power of two from 16 (-1: the KV block)",
        unit="tokens",
        minimum=-1,
        kinds=PYTORCH,
        flag="--kernel-block-size",
    )
    num_gpu_blocks: int = parameter(
        0,
        "KV blocks",
        "Blocks of the KV cache, at least 16 (0: as many as the KV cache share holds)",
        minimum=0,
        kinds=PYTORCH,
        flag="--num-gpu-blocks",
    )
    enable_prefix_caching: bool = parameter(
        False,
        "Prefix caching",
        "Whether equal beginnings of prompts are computed once",
        kinds=LMDEPLOY,
        flag="--enable-prefix-caching",
    )
    prefix_cache_state_budget: int = parameter(
        0,
        "Prefix state budget",
        "Extra state slots for prefix caching of state-space models",
        minimum=0,
        kinds=PYTORCH,
        flag="--prefix-cache-state-budget",
    )
    prefix_cache_decode_state_interval: int = parameter(
        0,
        "Prefix state interval",
        "Tokens between states kept while decoding, a multiple of the KV block (0: none are kept)",
        unit="tokens",
        minimum=0,
        kinds=PYTORCH,
        flag="--prefix-cache-decode-state-interval",
    )
    quant_policy: Literal[0, 4, 8, 16, 17, 42] = parameter(
        0,
        "KV quantization",
        "0 none, 4 int4, 8 int8; PyTorch also 16 fp8, 17 fp8_e5m2, 42 turbo_quant",
        kinds=LMDEPLOY,
        flag="--quant-policy",
    )
    max_prefill_token_num: int = parameter(
        8192,
        "Max prefill tokens",
        "Prompt tokens of one prefill step at most",
        unit="tokens",
        minimum=0,
        kinds=LMDEPLOY,
        flag="--max-prefill-token-num",
    )
    num_tokens_per_iter: int = parameter(
        0,
        "Tokens per iteration",
        "Tokens of one forward pass (0: the engine's choice)",
        unit="tokens",
        minimum=0,
        kinds=TURBOMIND,
        flag="--num-tokens-per-iter",
    )
    max_prefill_iters: int = parameter(
        1,
        "Max prefill iterations",
        "Forward passes that one prefill may be spread over",
        minimum=0,
        kinds=TURBOMIND,
        flag="--max-prefill-iters",
    )
    async_: Literal[0, 1] = parameter(
        1,
        "Async",
        "Whether the next step is scheduled while one runs: 1 yes, 0 no",
        alias="async",
        kinds=TURBOMIND,
        flag="--async",
    )
    communicator: Literal["nccl", "native", "cuda-ipc"] = parameter(
        "nccl",
        "Communicator",
        "How GPUs talk to each other (native: the old name of cuda-ipc)",
        kinds=TURBOMIND,
        flag="--communicator",
    )
    moe_a2a_backend: Literal["auto", "default", "deepep"] = parameter(
        "auto",
        "Expert all-to-all",
        "How tokens reach their experts' GPUs; deepep needs the communicator nccl",
        kinds=TURBOMIND,
        flag="--moe-a2a-backend",
    )
    rope_scaling_factor: float = parameter(
        0.0, "RoPE scaling", "Scaling factor (0: the model's)", minimum=0, kinds=TURBOMIND, flag="--rope-scaling-factor"
    )
    use_logn_attn: bool = parameter(
        False,
        "LogN attention",
        "Whether attention is scaled by the logarithm of the length",
        kinds=TURBOMIND,
        flag="--use-logn-attn",
    )
    eager_mode: bool = parameter(
        False, "Eager mode", "Whether CUDA graphs are left out", kinds=PYTORCH, flag="--eager-mode"
    )
    cudagraph_capture_batch_sizes: list[int] | None = parameter(
        None,
        "CUDA graph sizes",
        "Batch sizes captured as CUDA graphs (none: the engine's choice)",
        kinds=PYTORCH,
        flag="--cudagraph-capture-batch-sizes",
        example="[1, 8, 64]",
    )
    piecewise_cudagraph_max_tokens: int | None = parameter(
        None,
        "Piecewise graph tokens",
        "Prefill steps of up to this many tokens use CUDA graphs (none: prefill uses none)",
        unit="tokens",
        minimum=1,
        kinds=PYTORCH,
        flag="--piecewise-cudagraph-max-tokens",
        example="512",
    )
    distributed_executor_backend: Literal["uni", "mp", "ray"] | None = parameter(
        None,
        "Executor",
        "How the engine's ranks are run (none: uni for one GPU, else ray)",
        kinds=PYTORCH,
        flag="--distributed-executor-backend",
    )
    enable_microbatch: bool = parameter(
        False, "Microbatch", "Whether a batch is split to overlap its phases", kinds=PYTORCH, flag="--enable-microbatch"
    )
    enable_eplb: bool = parameter(
        False, "Expert balancing", "Whether experts are balanced over ep GPUs", kinds=PYTORCH, flag="--enable-eplb"
    )
    enable_return_routed_experts: bool = parameter(
        False,
        "Return routed experts",
        "Whether each output also carries the experts it went through",
        kinds=PYTORCH,
        flag="--enable-return-routed-experts",
    )
    empty_init: bool = parameter(
        False,
        "Empty weights",
        "Whether the engine is built without loading weights",
        kinds=PYTORCH,
        flag="--empty-init",
    )
    logprobs_mode: Literal["raw_logits", "raw_logprobs"] | None = parameter(
        None, "Logprobs mode", "What log probabilities are made of", kinds=PYTORCH, flag="--logprobs-mode"
    )
    dllm_block_length: int | None = parameter(
        None,
        "Diffusion block",
        "Tokens a diffusion model makes at once (none: the model's)",
        unit="tokens",
        minimum=1,
        kinds=PYTORCH,
        flag="--dllm-block-length",
        example="4",
    )
    dllm_unmasking_strategy: Literal["low_confidence_dynamic", "low_confidence_static", "sequential"] = parameter(
        "low_confidence_dynamic",
        "Diffusion unmasking",
        "In which order a diffusion model settles its tokens",
        kinds=PYTORCH,
        flag="--dllm-unmasking-strategy",
    )
    dllm_denoising_steps: int | None = parameter(
        None,
        "Diffusion steps",
        "Denoising steps per block (none: the block's length)",
        minimum=1,
        kinds=PYTORCH,
        flag="--dllm-denoising-steps",
        example="4",
    )
    dllm_confidence_threshold: float = parameter(
        0.85,
        "Diffusion confidence",
        "Confidence from which a token is settled",
        minimum=0,
        maximum=1,
        kinds=PYTORCH,
        flag="--dllm-confidence-threshold",
    )
    speculative_algorithm: Literal["eagle", "eagle3", "deepseek_mtp", "hy3_mtp", "qwen3_5_mtp", "dflash"] | None = (
        parameter(
            None,
            "Speculative algorithm",
            "How tokens are drafted ahead (none: they are not)",
            kinds=PYTORCH,
            flag="--speculative-algorithm",
        )
    )
    speculative_draft_model: str | None = parameter(
        None,
        "Draft model",
        "Path or hub id of the model that drafts",
        kinds=PYTORCH,
        flag="--speculative-draft-model",
        path=True,
        example='"yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"',
    )
    speculative_num_draft_tokens: int = parameter(
        1,
        "Draft tokens",
        "Tokens drafted per step",
        unit="tokens",
        minimum=1,
        kinds=PYTORCH,
        flag="--speculative-num-draft-tokens",
    )
    speculative_dflash_block_size: int | None = parameter(
        None,
        "DFlash block",
        "Block that dflash drafts, its first token included; sets the draft tokens to one less",
        unit="tokens",
        minimum=2,
        kinds=PYTORCH,
        flag="--speculative-dflash-block-size",
        example="16",
    )
    disable_metrics: bool = parameter(
        False, "Disable metrics", "Whether the engine's own metrics are off", kinds=LMDEPLOY, flag="--disable-metrics"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = parameter(
        "ERROR", "Log level", "What the engine writes to the run's log", kinds=LMDEPLOY, flag="--log-level"
    )
