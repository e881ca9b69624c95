"""The config: every section and key of a run's TOML file. Frozen; its rules across keys are checked by `document`."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from lmtui.config import naming, writing
from lmtui.config.parameter import Section, parameter
from lmtui.config.target import Target

ENGINES = ("turbomind", "pytorch")
TOKENISING = (*ENGINES, "transformers")
GUIDING = ("turbomind", "pytorch", "pipeline", "server")
SAMPLING = ("turbomind", "pytorch", "pipeline", "transformers", "server")
MOST_REQUESTS = 10_000_000
MOST_TOKENS = 10_000_000
"""No run needs more; a slip of the pen would fill the memory."""
LATER_IMAGES = "image datasets come later; use random, sharegpt or jsonl until then"
LATER_ATTAINMENT = "the search for the largest load comes later; use --fail-if 'goodput_share<0.99' until then"
LATER_SWEEPS = "sweeps and searches come later; run the points one by one with --set until then"


class Dataset(Section):
    """Where prompts and output lengths come from."""

    kind: Literal["sharegpt", "random", "image", "jsonl", "trace"] = parameter(
        "random",
        "Dataset",
        "ShareGPT conversations, random lengths, images, a JSON Lines file of prompts, or a trace with times",
        flag="--dataset-name",
        planned_choices=("image",),
    )
    path: str | None = parameter(
        None,
        "File",
        "The dataset's file (none: random lengths take their text from a text that comes with lmtui)",
        flag="dataset, --dataset-path",
        path=True,
        example='"ShareGPT_V3_unfiltered_cleaned_split.json"',
    )
    input_len: int | None = parameter(
        None,
        "Input length",
        "Tokens of a prompt; needed for random lengths",
        unit="tokens",
        minimum=1,
        maximum=MOST_TOKENS,
        flag="--random-input-len",
        example="512",
    )
    output_len: int | None = parameter(
        None,
        "Output length",
        "Tokens asked for (none: the data's own; needed for random lengths)",
        unit="tokens",
        minimum=1,
        maximum=MOST_TOKENS,
        flag="--random-output-len, --sharegpt-output-len",
        example="128",
    )
    range_ratio: float = parameter(
        1.0,
        "Range ratio",
        "Random lengths are uniform between this share of the length and the length",
        minimum=0,
        maximum=1,
        flag="--random-range-ratio",
    )
    prefix_len: int = parameter(
        0,
        "Shared prefix",
        "Tokens that all prompts of a group begin with",
        unit="tokens",
        minimum=0,
        maximum=MOST_TOKENS,
    )
    prefix_groups: int = parameter(
        1, "Prefix groups", "How many different shared prefixes there are", minimum=1, maximum=MOST_REQUESTS
    )
    take_fewer: bool = parameter(
        False,
        "Take fewer",
        "Whether a ShareGPT file with too few usable conversations is made do with: fewer requests, or with random "
        "lengths the same prompts again",
    )
    image_count: int = parameter(1, "Images", "Images of one request", minimum=1, planned=LATER_IMAGES)
    image_width: int = parameter(512, "Image width", "Width of an image", unit="px", minimum=1, planned=LATER_IMAGES)
    image_height: int = parameter(512, "Image height", "Height of an image", unit="px", minimum=1, planned=LATER_IMAGES)


class Load(Section):
    """How requests arrive."""

    mode: Literal["closed", "open", "trace"] = parameter(
        "closed",
        "Mode",
        "closed: a fixed number in flight; open: at a rate, whatever is in flight; trace: at the dataset's times",
    )
    concurrency: int = parameter(
        64,
        "Concurrency",
        "How many requests are in flight at once",
        unit="requests",
        minimum=1,
        maximum=100_000,
        flag="--concurrency",
    )
    num_prompts: int = parameter(
        1000,
        "Requests",
        "How many requests the plan has",
        unit="requests",
        minimum=1,
        maximum=MOST_REQUESTS,
        flag="--num-prompts",
    )
    duration_s: float | None = parameter(
        None,
        "Duration",
        "Stop sending after this time; the plan's requests are repeated until then (none: send each once)",
        unit="s",
        minimum=0,
        above=True,
        example="60",
    )
    rate: float = parameter(
        math.inf,
        "Rate",
        "Requests per second of an open load (inf: all at once)",
        unit="req/s",
        minimum=0,
        above=True,
        infinite=True,
        flag="--request-rate",
        example="8",
    )
    arrival: Literal["poisson", "constant", "gamma"] = parameter(
        "poisson", "Arrival", "How the gaps between requests of an open load are drawn"
    )
    burstiness: float = parameter(
        1.0,
        "Burstiness",
        "Shape of gamma arrivals: 1 is poisson, smaller is burstier, larger is more even",
        minimum=0.01,
    )
    skip_arrivals: int = parameter(
        0,
        "Skip arrivals",
        "Runs whose gaps are drawn and left out before this one's: the later rates of LMDeploy's script go on with the "
        "generator",
        unit="runs",
        minimum=0,
        maximum=1000,
    )
    ramp_s: float = parameter(0.0, "Ramp", "Time in which an open load grows to its rate", unit="s", minimum=0)
    max_in_flight: int | None = parameter(
        None,
        "Max in flight",
        "Requests of an open load in flight at most (none: no limit)",
        unit="requests",
        minimum=1,
        example="512",
    )
    warmup_requests: int = parameter(
        1,
        "Warm-up",
        "Requests sent before the start and not measured",
        unit="requests",
        minimum=0,
        maximum=100_000,
    )
    warmup_prompts: Literal["own", "plan"] = parameter(
        "own",
        "Warm-up prompts",
        "own: prompts that no measured request has; plan: the first measured ones, as LMDeploy's script, which may "
        "leave them in a prefix cache",
    )
    warmup_pause_s: float = parameter(
        0.0, "Warm-up pause", "How long the start waits after the warm-up", unit="s", minimum=0
    )
    workers: int | Literal["auto"] = parameter(
        "auto",
        "Load workers",
        "Processes that send the requests (auto: as many as the load needs)",
        minimum=1,
        maximum=1024,
    )
    cluster: str | None = parameter(
        None,
        "Ray cluster",
        "Address of a Ray cluster whose machines send the requests",
        planned="load from several machines comes later; leave it out until then",
        example='"ray://head:10001"',
    )

    @field_validator("rate", mode="before")
    @classmethod
    def _text_inf(cls, value: Any) -> Any:
        return math.inf if value == "inf" else value


class Request(Section):
    """What each request asks for besides its prompt and length."""

    temperature: float | None = parameter(
        None,
        "Temperature",
        "Randomness of sampling (none: not sent; engines 0.8)",
        minimum=0,
        maximum=2,
        kinds=SAMPLING,
        flag="--temperature",
        example="0.8",
    )
    top_p: float | None = parameter(
        None,
        "Top p",
        "Sample from the likeliest tokens that hold this share (none: not sent; engines 0.8)",
        minimum=0,
        maximum=1,
        above=True,
        kinds=SAMPLING,
        flag="--top-p",
        example="0.8",
    )
    top_k: int | None = parameter(
        None,
        "Top k",
        "Sample from this many likeliest tokens (none: not sent; engines 1; -1 or 0: all)",
        minimum=-1,
        kinds=SAMPLING,
        flag="--top-k",
        example="1",
    )
    max_tokens: int | None = parameter(
        None,
        "Max tokens",
        "Tokens that every request asks for, whatever the dataset says (none: the dataset's length)",
        unit="tokens",
        minimum=1,
        maximum=MOST_TOKENS,
        example="64",
    )
    ignore_eos: bool = parameter(
        True,
        "Ignore EOS",
        "Whether each answer has exactly the asked length",
        flag="--ignore-eos, --disable-ignore-eos",
    )
    stream: bool = parameter(
        True, "Stream", "Whether tokens come one by one", flag="--stream-output, --no-stream-output, --disable-stream"
    )
    skip_tokenize: bool = parameter(
        False,
        "Skip tokenize",
        "Whether prompts are tokenised before the start",
        kinds=TOKENISING,
        flag="--skip-tokenize",
    )
    skip_detokenize: bool = parameter(
        False, "Skip detokenize", "Whether outputs are left as token ids", kinds=TOKENISING, flag="--skip-detokenize"
    )
    uvloop: bool = parameter(True, "uvloop", "Whether the event loop is uvloop", flag="--use-uvloop")


class Cancel(Section):
    """Which requests are cut off by their client, and when."""

    rate: float = parameter(
        0.0, "Cancel rate", "Share of requests that are cancelled", minimum=0, maximum=1, flag="--cancel-rate"
    )
    when: Literal["tokens_uniform", "after_tokens", "after_seconds", "before_first_token"] = parameter(
        "tokens_uniform",
        "When",
        "At a uniformly drawn token (as the script), after tokens, after seconds, or before the first token",
    )
    value: float | None = parameter(
        None, "Value", "Tokens or seconds of the cut, for all of `when` but tokens_uniform", minimum=0, example="16"
    )
    value_max: float | None = parameter(
        None, "Value up to", "When given, the cut is drawn uniformly from value to this", minimum=0, example="64"
    )


class Guided(Section):
    """Constrained outputs, and what they cost."""

    response_format: Literal["none", "json_schema", "json_object", "regex_schema"] = parameter(
        "none", "Response format", "What outputs are held to", kinds=GUIDING, flag="--response-format"
    )
    json_schema_path: str | None = parameter(
        None,
        "JSON schema",
        "File of the schema (none: a small one of its own, as the script)",
        kinds=GUIDING,
        flag="--json-schema-path",
        path=True,
        example='"schema.json"',
    )
    regex: str | None = parameter(
        None,
        "Regular expression",
        "The expression (none: a small one of its own, as the script)",
        kinds=GUIDING,
        flag="--regex-schema",
        example="'[A-Z][a-z]+'",
    )
    baseline: bool = parameter(
        True,
        "Baseline",
        "Whether the same requests also run unguided, to compare",
        kinds=GUIDING,
        flag="--no-baseline",
    )


class Slo(Section):
    """Objectives: a request that meets all of them counts as good."""

    ttft_ms: float | None = parameter(
        None, "TTFT", "Longest time to the first token", unit="ms", minimum=0, above=True, example="500"
    )
    tpot_ms: float | None = parameter(
        None, "TPOT", "Longest mean time per token after the first", unit="ms", minimum=0, above=True, example="50"
    )
    itl_ms: float | None = parameter(
        None, "ITL", "Longest gap between two arrivals", unit="ms", minimum=0, above=True, example="200"
    )
    e2e_ms: float | None = parameter(
        None, "E2E", "Longest time to the last token", unit="ms", minimum=0, above=True, example="10000"
    )
    attainment: float = parameter(
        0.99,
        "Attainment",
        "Share of requests that must meet them",
        minimum=0,
        maximum=1,
        above=True,
        planned=LATER_ATTAINMENT,
    )


class Sweep(Section):
    """Several points from one config."""

    over: dict[str, list[Any]] = parameter(
        {},
        "Over",
        "Key and the list of values it takes",
        planned=LATER_SWEEPS,
        flag="--multi, --request-rate-range",
        example='{ "load.concurrency" = [1, 8, 64] }',
    )
    repeat: int = parameter(1, "Repeat", "Runs of each point", minimum=1, planned=LATER_SWEEPS)
    order: Literal["in_order", "interleaved"] = parameter(
        "in_order", "Order", "Whether a point's repeats stand together or the points take turns", planned=LATER_SWEEPS
    )
    search: Literal["none", "max_rate", "max_concurrency"] = parameter(
        "none", "Search", "Look for the largest load that meets the objectives", planned=LATER_SWEEPS
    )
    same_prompts: bool = parameter(
        False, "Same prompts", "Whether every point sends the same prompts", planned=LATER_SWEEPS
    )


class Limits(Section):
    """When a run is given up, and how it ends."""

    max_error_rate: float = parameter(
        0.05, "Max error rate", "Share of failed requests above which the run fails", minimum=0, maximum=1
    )
    max_errors: int | None = parameter(
        None, "Max errors", "Failed requests above which the run is stopped (none: no limit)", minimum=0, example="100"
    )
    grace_s: float = parameter(
        10.0, "Grace", "How long a stopped run waits for requests in flight", unit="s", minimum=0
    )


class Config(Section):
    """A named description of a run. Attributes are the keys of the file: `config.load.concurrency`."""

    schema_: Literal[1] = parameter(1, "Schema", "Version of the file's layout", alias="schema")
    name: str = parameter(..., "Name", "What the config, its file and its runs are called", example='"baseline"')
    notes: str = parameter("", "Notes", "Words for whoever reads the results")
    tags: list[str] = parameter([], "Tags", "Words to filter results by", example='["nightly"]')
    seed: int = parameter(
        0,
        "Seed",
        "Start of the random generators: equal seeds draw equal plans",
        minimum=0,
        maximum=2**32 - 1,
        flag="--seed",
    )
    target: Target
    dataset: Dataset = Field(default_factory=Dataset)
    load: Load = Field(default_factory=Load)
    request: Request = Field(default_factory=Request)
    cancel: Cancel = Field(default_factory=Cancel)
    guided: Guided = Field(default_factory=Guided)
    slo: Slo = Field(default_factory=Slo)
    sweep: Sweep = Field(default_factory=Sweep)
    limits: Limits = Field(default_factory=Limits)

    @field_validator("name", mode="after")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if words := naming.fault(value):
            raise PydanticCustomError("declared", "not a name", {"words": words})
        return value

    def flat(self) -> dict[str, object]:
        """Return key → JSON-able value of every key in declaration order; `inf` is "inf". It holds no secret."""
        from lmtui.config.declared import DECLARED

        return {declared.key: _jsonable(declared.of(self)) for declared in DECLARED}

    def to_toml(self) -> str:
        """Return the file with every value resolved; keys that are null are left out."""
        return writing.to_toml(self)


def _jsonable(value: object) -> object:
    return "inf" if isinstance(value, float) and math.isinf(value) else value
