"""Rules across keys: each reads a few keys and yields (key, words) where they do not fit together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator

from lmtui.config import engine_rules, guided_files, headers, server_url
from lmtui.config.declared import DECLARED, applies, by_key
from lmtui.config.model import GUIDING, Config
from lmtui.config.sentences import shown

Broken = Iterator[tuple[str, str]]
Rule = Callable[[Config], Broken]

SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)
VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def broken(config: Config, skip: Collection[str] = ()) -> Broken:
    """Yield key and words of every rule that a config breaks; rules that read a key of `skip` are left out."""
    for keys, rule in RULES:
        if not any(key in skip for key in keys):
            yield from rule(config)


def ignored(config: Config) -> Iterator[str]:
    """Yield a sentence for every value that was set and does not apply."""
    kind = config.target.kind
    inside = engine_rules.engine(config)
    for declared in DECLARED:
        value = declared.of(config)
        if value == declared.default:
            continue
        if not applies(declared, kind):
            yield f'{declared.key} = {shown(value)} does not apply to target.kind = "{kind}": kept and ignored.'
        elif declared.declaration.kinds != (kind,) and not applies(declared, inside):
            yield f'{declared.key} = {shown(value)} does not apply to target.backend = "{inside}": kept and ignored.'
    if config.load.mode == "closed":
        for key in ("load.rate", "load.arrival", "load.ramp_s", "load.max_in_flight"):
            yield from _unused(config, key, 'load.mode = "closed"')
    else:
        if config.load.mode == "open" and math.isinf(config.load.rate):
            yield "load.rate = inf: all requests are sent at once; give a rate to spread them."
        if config.load.arrival != "gamma":
            yield from _unused(config, "load.burstiness", f'load.arrival = "{config.load.arrival}"')
    if config.cancel.when == "tokens_uniform":
        yield from _unused(config, "cancel.value", 'cancel.when = "tokens_uniform"')


def _unused(config: Config, key: str, because: str) -> Iterator[str]:
    declared = by_key(key)
    assert declared is not None
    if declared.of(config) != declared.default:
        yield f"{key} = {shown(declared.of(config))} does not apply to {because}: kept and ignored."


def _model_is_named(config: Config) -> Broken:
    target = config.target
    if target.model is None and target.kind in ("turbomind", "pytorch", "pipeline"):
        yield "target.model", "must be given: the path or hub id of the model that the engine loads"
    if target.model is None and target.kind == "server" and target.api == "trt":
        yield "target.model", 'must be given with target.api = "trt", for that server does not tell its model\'s name'


def _base_url_is_one(config: Config) -> Broken:
    target = config.target
    if target.base_url is None:
        if target.kind == "server" and target.server_url is None:
            yield "target.base_url", f'must be given, for target.preset = "{target.preset}" has no local port'
        return
    try:
        server_url.normalised(target.base_url)
    except ValueError as error:
        yield "target.base_url", f"must be {error}"


def _headers_can_be_sent(config: Config) -> Broken:
    for name, value in config.target.headers.items():
        if fault := headers.name_fault(name):
            yield "target.headers", f"{shown(name)} {fault}: take it out"
        elif headers.names_secret(name) and not headers.REFERENCES_ONLY.fullmatch(value):
            yield (
                "target.headers",
                f"must not hold the secret of {shown(name)} itself: write ${{VAR}} in its place, for the environment "
                "variable VAR, or name the variable in target.api_key_env",
            )
        elif not headers.is_sendable(value):
            yield "target.headers", f"must have one-line texts of printable ASCII, which that of {shown(name)} is not"


FIXED_FIELDS = {
    "model": "target.model",
    "prompt": "the dataset",
    "messages": "the dataset",
    "text": "the dataset",
    "text_input": "the dataset",
    "input_ids": "the dataset",
    "max_tokens": "dataset.output_len",
    "max_completion_tokens": "dataset.output_len",
    "max_new_tokens": "dataset.output_len",
    "stream": "request.stream",
}
"""Fields of a request that decide what is measured → what sets them."""


def _extra_body_measures_the_plan(config: Config) -> Broken:
    extra = config.target.extra_body
    nested = extra.get("sampling_params")
    inner = {f"sampling_params.{name}": name for name in nested} if isinstance(nested, dict) else {}
    for path, name in ({name: name for name in extra} | inner).items():
        if name in FIXED_FIELDS:
            yield (
                "target.extra_body",
                f"must not hold {shown(path)}, for the plan would not be what is measured: "
                f"take it out and use {FIXED_FIELDS[name]}",
            )
            return
    for name, value in extra.items():
        is_secret = isinstance(value, str) and headers.field_names_secret(name)
        if is_secret and not headers.REFERENCES_ONLY.fullmatch(str(value)):
            yield (
                "target.extra_body",
                f"must not hold the secret of {shown(name)} itself, for it is recorded: write ${{VAR}} in its place, "
                "for the environment variable VAR",
            )


def _environment_is_usable(config: Config) -> Broken:
    for name, value in config.target.env.items():
        if SECRET_VARIABLE.search(name):
            yield (
                "target.env",
                f"must not hold a secret such as {shown(name)}, for it is recorded: "
                "set it in the shell, whose variables the run has too",
            )
        elif not VARIABLE_NAME.fullmatch(name) or "\0" in value:
            yield "target.env", f"must have names of environment variables, which {shown(name)} is not"


def _api_key_variable_is_a_name(config: Config) -> Broken:
    name = config.target.api_key_env
    if name and not VARIABLE_NAME.fullmatch(name):
        yield "target.api_key_env", "must be the name of an environment variable, never the key itself"


def _dataset_is_complete(config: Config) -> Broken:
    dataset = config.dataset
    because = f'with dataset.kind = "{dataset.kind}"'
    if dataset.kind in ("sharegpt", "jsonl", "trace") and dataset.path is None:
        yield "dataset.path", f"must be given {because}: the file that it reads"
    if dataset.kind in ("random", "image"):
        if dataset.input_len is None:
            yield "dataset.input_len", f"must be given {because}: tokens of a prompt, such as 512"
        if dataset.output_len is None:
            yield "dataset.output_len", f"must be given {because}: tokens asked for, such as 128"
    if dataset.kind == "sharegpt" and dataset.output_len is not None and dataset.output_len < 4:
        yield "dataset.output_len", f"must be at least 4 {because}, for shorter answers are left out"


def _trace_load_has_a_trace(config: Config) -> Broken:
    if config.load.mode == "trace" and config.dataset.kind != "trace":
        yield "load.mode", 'needs dataset.kind = "trace", whose file has the times; or use "open" with load.rate'
    if config.dataset.kind == "trace" and config.load.mode != "trace":
        yield "dataset.kind", 'needs load.mode = "trace", which sends at the file\'s times'


def _ramp_has_a_rate(config: Config) -> Broken:
    if config.load.mode == "open" and config.load.ramp_s > 0 and math.isinf(config.load.rate):
        yield "load.ramp_s", "needs a finite load.rate to grow to"


def _cancel_is_complete(config: Config) -> Broken:
    cancel = config.cancel
    because = f'with cancel.when = "{cancel.when}"'
    if cancel.rate > 0 and cancel.value is None and cancel.when in ("after_tokens", "after_seconds"):
        yield "cancel.value", f"must be given {because}: when the request is cut, such as 16"
    for key, value in (("cancel.value", cancel.value), ("cancel.value_max", cancel.value_max)):
        if cancel.when == "after_tokens" and value is not None and value != int(value):
            yield key, f"must be a whole number of tokens {because}"
    if cancel.value_max is not None and cancel.value is None:
        yield "cancel.value_max", "needs cancel.value, from which the cut is drawn up to it"
    if cancel.value_max is not None and cancel.value is not None and cancel.value_max < cancel.value:
        yield "cancel.value_max", f"must be at least cancel.value, which is {cancel.value:g}"


def _guiding_is_possible(config: Config) -> Broken:
    guided, target = config.guided, config.target
    if guided.response_format == "none" or target.kind not in GUIDING:
        return
    if target.kind != "server":
        return
    if target.api not in ("completions", "chat"):
        yield "guided.response_format", f'must be none with target.api = "{target.api}"'
    elif target.api == "completions" and target.preset in ("lmdeploy", "openai"):
        yield "guided.response_format", f'needs target.api = "chat" with target.preset = "{target.preset}"'
    elif guided.response_format == "regex_schema" and target.preset not in ("lmdeploy", "vllm", "sglang"):
        yield "guided.response_format", f'must be json_schema or json_object with target.preset = "{target.preset}"'


def _guiding_can_be_read(config: Config) -> Broken:
    guided = config.guided
    if config.target.kind not in GUIDING:
        return
    if guided.response_format == "json_schema" and guided.json_schema_path is not None:
        try:
            guided_files.schema(guided.json_schema_path)
        except ValueError as error:
            yield "guided.json_schema_path", str(error)
    if guided.response_format == "regex_schema" and guided.regex and (fault := guided_files.regex_fault(guided.regex)):
        yield "guided.regex", fault


RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("target.model", "target.api"), _model_is_named),
    (("target.base_url", "target.preset"), _base_url_is_one),
    (("target.headers",), _headers_can_be_sent),
    (("target.extra_body",), _extra_body_measures_the_plan),
    (("target.env",), _environment_is_usable),
    (("target.api_key_env",), _api_key_variable_is_a_name),
    (("dataset.kind", "dataset.path", "dataset.input_len", "dataset.output_len"), _dataset_is_complete),
    (("load.mode", "dataset.kind"), _trace_load_has_a_trace),
    (("load.mode", "load.ramp_s", "load.rate"), _ramp_has_a_rate),
    (("cancel.rate", "cancel.when", "cancel.value", "cancel.value_max"), _cancel_is_complete),
    (("guided.response_format", "guided.baseline", "target.api", "target.preset"), _guiding_is_possible),
    (("guided.response_format", "guided.json_schema_path", "guided.regex"), _guiding_can_be_read),
    *engine_rules.RULES,
)
"""The keys that a rule reads, beside target.kind, and the rule."""
