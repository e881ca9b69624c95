"""The `[target]` section: what answers. Parts per family of targets; `Target` is all of them in one flat section."""

from __future__ import annotations

from typing import Any, Literal

from lmtui.config import server_url
from lmtui.config.engine import EnginePart
from lmtui.config.parameter import Section, parameter

Kind = Literal["turbomind", "pytorch", "pipeline", "transformers", "server", "simulated"]

SERVER = ("server",)
SIMULATED = ("simulated",)
HAS_MODEL = ("turbomind", "pytorch", "pipeline", "transformers", "server")
IN_PROCESS = ("turbomind", "pytorch", "pipeline", "transformers")


class CommonPart(Section):
    """Keys of every target."""

    kind: Kind = parameter(
        ...,
        "Target",
        "What answers: an engine in this process, a server, or a simulated engine",
        example='"transformers"',
    )
    model: str | None = parameter(
        None,
        "Model",
        "Path, hub id, or name at the server (none: ask the server; transformers: a tiny model made on the spot)",
        kinds=HAS_MODEL,
        flag="model_path, --model",
        path=True,
        example='"Qwen/Qwen2.5-7B-Instruct"',
    )
    tokenizer: str | None = parameter(
        None,
        "Tokenizer",
        "Path or hub id of the tokenizer (none: the engine's model's; servers: prompts are counted in words)",
        flag="--tokenizer",
        path=True,
        example='"Qwen/Qwen2.5-7B-Instruct"',
    )
    python: str | None = parameter(
        None,
        "Python",
        "Interpreter of the environment that has the engine (none: this one)",
        kinds=IN_PROCESS,
        path=True,
        example='"/opt/lmdeploy/bin/python"',
    )
    env: dict[str, str] = parameter(
        {},
        "Environment",
        "Environment variables of the run, recorded with it",
        example='{ CUDA_VISIBLE_DEVICES = "0" }',
    )
    trust_remote_code: bool = parameter(
        False,
        "Trust remote code",
        "Whether Python code that comes with the model or tokenizer may run",
        flag="--trust-remote-code",
    )


class ServerPart(Section):
    """Keys of servers."""

    api: Literal["completions", "chat", "sglang", "trt"] = parameter(
        "completions",
        "API",
        "Completions and chat are OpenAI's; sglang is /generate; trt is TensorRT-LLM's generate_stream",
        kinds=SERVER,
        flag="--backend",
    )
    preset: Literal["lmdeploy", "vllm", "sglang", "trt", "openai"] = parameter(
        "openai",
        "Server",
        "Which server it is: sets its local port and the optional fields that it knows",
        kinds=SERVER,
        flag="--backend",
    )
    base_url: str | None = parameter(
        None,
        "Base URL",
        "scheme://host[:port][/prefix] or unix:///path/to.sock (none: the local port of target.preset)",
        kinds=SERVER,
        flag="--base-url, --host, --port",
        example='"http://127.0.0.1:23333"',
    )
    api_key_env: str = parameter(
        "OPENAI_API_KEY",
        "API key variable",
        'Environment variable that holds the API key, sent as a bearer token when it is set ("": never)',
        kinds=SERVER,
    )
    headers: dict[str, str] = parameter(
        {},
        "Headers",
        "Further request headers; ${VAR} is expanded when sent",
        kinds=SERVER,
        example='{ X-Tenant = "${TENANT}" }',
    )
    extra_body: dict[str, Any] = parameter(
        {},
        "Extra body",
        "Further fields of the request body; ${VAR} in texts is expanded when sent",
        kinds=SERVER,
        flag="--extra-request-body",
        example="{ min_p = 0.1 }",
    )
    timeout_s: float | None = parameter(
        None,
        "Total timeout",
        "Longest time from sent to the end of a request (none: no limit)",
        unit="s",
        minimum=0,
        above=True,
        kinds=SERVER,
        example="600",
    )
    idle_timeout_s: float = parameter(
        120.0,
        "Idle timeout",
        "Longest silence within an answer (SSE comments do not break it)",
        unit="s",
        minimum=0,
        above=True,
        kinds=SERVER,
    )
    connect_timeout_s: float = parameter(
        10.0, "Connect timeout", "Longest time to open a connection", unit="s", minimum=0, above=True, kinds=SERVER
    )
    ready_timeout_s: float = parameter(
        60.0, "Ready timeout", "How long to wait until the server answers at all", unit="s", minimum=0, kinds=SERVER
    )
    preflight: bool = parameter(
        True, "Preflight", "Whether one request with the run's fields is tried before the run", kinds=SERVER
    )
    drop_rejected: bool = parameter(
        True, "Drop rejected fields", "Whether optional fields that the server rejects are left out", kinds=SERVER
    )
    retokenize: bool = parameter(
        False,
        "Retokenise",
        "Whether texts are also tokenised here where the server counts, to hold one against the other",
        kinds=SERVER,
    )
    ca: str | None = parameter(
        None,
        "CA file",
        "Certificates that the server's own is checked against (none: the system's)",
        kinds=SERVER,
        path=True,
        example='"/etc/ssl/lab-ca.pem"',
    )
    insecure: bool = parameter(
        False, "Insecure TLS", "Whether the server's certificate is taken without a check", kinds=SERVER
    )


class SimulatedPart(Section):
    """Keys of the simulated engine."""

    prefill_tokens_per_s: float = parameter(
        20_000.0,
        "Prefill rate",
        "Prompt tokens read per second of step time",
        unit="tok/s",
        minimum=0,
        above=True,
        kinds=SIMULATED,
    )
    step_ms: float = parameter(
        15.0, "Step time", "Time of one decode step, whatever its batch", unit="ms", minimum=0, kinds=SIMULATED
    )
    step_ms_per_seq: float = parameter(
        0.15,
        "Step time per sequence",
        "Time each running sequence adds to a step",
        unit="ms",
        minimum=0,
        kinds=SIMULATED,
    )
    kv_tokens: int | None = parameter(
        None,
        "KV cache",
        "Tokens the KV cache holds (none: transformers as many as the plan needs; simulated 200000)",
        unit="tokens",
        minimum=1,
        kinds=("transformers", "simulated"),
        example="200000",
    )
    cancel_ms: float = parameter(
        0.0, "Cancel time", "Time until a cancelled request lets go of its place", unit="ms", minimum=0, kinds=SIMULATED
    )
    leak: float = parameter(
        0.0,
        "Leak",
        "Share of a cancelled request's KV cache that is never freed",
        minimum=0,
        maximum=1,
        kinds=SIMULATED,
    )
    over: Literal["process", "http"] = parameter(
        "process",
        "Over",
        "Whether it is asked in process or through a loopback HTTP server",
        kinds=SIMULATED,
        planned_choices=("http",),
    )
    clock: Literal["real", "virtual"] = parameter(
        "real", "Clock", "Whether time passes, or jumps from event to event (exact, and over at once)", kinds=SIMULATED
    )


class Target(SimulatedPart, EnginePart, ServerPart, CommonPart):  # fields come last base first: kind stands on top
    """What answers."""

    @property
    def server_url(self) -> str | None:
        """The server's URL without trailing `/`, `/v1` or endpoint path; None when neither URL nor preset gives one."""
        return server_url.normalised(self.base_url) if self.base_url else server_url.LOCAL[self.preset]
