"""From a script's options to the runs that they ask for: one config each, and the sentences to say about them."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmtui.config.document import Document
from lmtui.config.script_flags import GUIDED, LOG_LEVELS, RESTFUL, RESTFUL_BACKENDS, SCRIPTS, Flag
from lmtui.errors import ConfigError

if TYPE_CHECKING:
    from lmtui.config.model import Config


READY_S = 5.0
"""The restful script does not wait for its server at all; this long a slow answer may take."""
PATIENCE_S = 6 * 60 * 60.0
"""The restful script gives each request six hours, and silence no limit: sent all at once, the last ones wait long."""


COUNTED = (
    "requests have the script's fields and stream_options = {include_usage: true}, for the server's own token counts."
)
PROBED = "--disable-warmup: no warm-up request is sent; lmtui's probe with the run's fields still is, before the start."


@dataclass(frozen=True, slots=True)
class Point:
    """One run.

    Attributes:
        command: The script command that it comes from.
        document: Its config.
        label: What tells it from the others: a rate, `baseline`, `guided`; "" for the only one.
        rate: Requests per second as the restful script's table and row show it; None for the other scripts.
    """

    command: str
    document: Document
    label: str = ""
    rate: float | int | None = None


def points(options: argparse.Namespace, base_url: str | None = None) -> tuple[list[Point], list[str]]:
    """Return the runs of a command, and notes about values that are not used.

    Args:
        options: What was parsed; `options.script` names the command.
        base_url: Where the server of the restful script is.

    Raises:
        ConfigError: The flags do not fit each other; the script would refuse or crash.
    """
    script = SCRIPTS[options.script]
    notes: list[str] = []
    check_dataset(options)
    document = Document.parse("", f"lmtui {script.command}")
    document.set("name", script.command)
    for key, value in script.fixed.items():
        document.set(key, value)
    engine = getattr(options, "backend", "") if script is not RESTFUL else ""
    for flag in script.flags:
        _apply(flag, options, engine, document, notes)
    # With sharegpt the scripts run what there is; with random lengths the guided one begins again, and others crash.
    document.set("dataset.take_fewer", options.dataset_name == "sharegpt" or script is GUIDED)
    if script is RESTFUL:
        return _restful(options, base_url, document, notes), notes
    if options.top_k < 0:
        raise ConfigError(
            f"--top-k {options.top_k}: must be 0 or more, as LMDeploy's engines have it; 0 means all tokens"
        )
    document.set("target.log_level", LOG_LEVELS[options.log_level])
    return (_guided(options, document, notes) if script is GUIDED else [Point(script.command, document)]), notes


def check_dataset(options: argparse.Namespace) -> None:
    """Refuse lengths that do not go with the dataset, as the scripts do.

    Raises:
        ConfigError: Names the flag and the remedy.
    """
    name = options.dataset_name
    lengths = {"--random-input-len": options.random_input_len, "--random-output-len": options.random_output_len}
    if name == "image":
        raise ConfigError("--dataset-name image: image requests are not built yet: use sharegpt or random until then")
    if name == "sharegpt":
        if given := [flag for flag, length in lengths.items() if length is not None]:
            raise ConfigError(
                f"{given[0]} {lengths[given[0]]} does not go with --dataset-name sharegpt: leave it out, or give "
                "--dataset-name random"
            )
        if options.sharegpt_output_len is not None and options.sharegpt_output_len < 4:
            raise ConfigError(
                f"--sharegpt-output-len {options.sharegpt_output_len} is too small: give 4 or more, for shorter "
                "answers are left out"
            )
    if name == "random" and (missing := [flag for flag, length in lengths.items() if length is None]):
        raise ConfigError(f"--dataset-name random needs {' and '.join(missing)}, such as {missing[0]} 512")


def _apply(flag: Flag, options: argparse.Namespace, engine: str, document: Document, notes: list[str]) -> None:
    """Write one flag's value under its key; where the script would not use it, say so when it was given."""
    value = getattr(options, flag.attribute)
    unused = ""
    if flag.engines and engine not in flag.engines:
        unused = f"--backend {engine}"
    if flag.datasets and options.dataset_name not in flag.datasets:
        unused = f"--dataset-name {options.dataset_name}"
    if unused:
        if value != flag.default:
            notes.append(f"{flag.names[-1]} is not used with {unused}, as in the script.")
        return
    if flag.key and value is not None:
        document.set(flag.key, not value if flag.is_inverse else value)


def _guided(options: argparse.Namespace, document: Document, notes: list[str]) -> list[Point]:
    for flag, value, form in (
        ("--json-schema-path", options.json_schema_path, "json_schema"),
        ("--regex-schema", options.regex_schema, "regex_schema"),
    ):
        if value is not None and options.response_format != form:
            notes.append(f"{flag} is not used with --response-format {options.response_format}, as in the script.")
    guided = _copy(document)
    guided.set("guided.baseline", False)
    guided.set("name", f"{GUIDED.command}-guided")
    if options.no_baseline:
        return [Point(GUIDED.command, guided, "guided")]
    for key in ("guided.response_format", "guided.json_schema_path", "guided.regex"):
        document.unset(key)
    document.set("name", f"{GUIDED.command}-baseline")
    return [Point(GUIDED.command, document, "baseline"), Point(GUIDED.command, guided, "guided")]


def _restful(options: argparse.Namespace, base_url: str | None, document: Document, notes: list[str]) -> list[Point]:
    backend = RESTFUL_BACKENDS[options.backend]
    assert backend is not None, "refused before"
    document.set("target.api", backend.api)
    document.set("target.preset", backend.preset)
    document.set("target.base_url", base_url)
    document.set("target.ready_timeout_s", READY_S)
    document.set("target.timeout_s", PATIENCE_S)
    document.set("target.idle_timeout_s", PATIENCE_S)
    if backend.api not in ("completions", "chat"):
        document.set("target.api_key_env", "")  # the scripts send the key on OpenAI's APIs alone
    document.set("dataset.path", options.dataset_path or None)
    document.set("load.warmup_requests", 0 if options.disable_warmup else 1)
    if options.disable_warmup:
        notes.append(PROBED)
    extra: dict[str, Any] = {"best_of": 1} if backend.api == "completions" else {}
    if backend.api == "trt":
        document.set("request.temperature", 1e-6)
        document.set("request.top_p", 1.0)
    extra |= _extra_body(options.extra_request_body)
    for key, value in _overruled(extra).items():
        document.set(key, value)
        notes.append(
            f"--extra-request-body sets {key} = {json.dumps(value)} for every request, and the plan has it so."
        )
    document.set("target.extra_body", extra or None)
    if backend.api in ("completions", "chat") and document.get("request.stream"):
        notes.append(COUNTED)
    if not options.multi:
        return [Point(RESTFUL.command, document, rate=options.request_rate)]
    made = []
    for place, rate in enumerate(rates(options.request_rate_range)):
        one = _copy(document)
        one.set("load.skip_arrivals", place)
        one.set("load.rate", float(rate))
        one.set("name", f"{RESTFUL.command}-{rate}")
        made.append(Point(RESTFUL.command, one, f"{rate} req/s", rate))
    return made


def rates(text: str) -> list[int]:
    """Return the rates of `--request-rate-range`: exactly three numbers are start, stop (not reached) and step.

    Raises:
        ConfigError: They are no whole numbers, or give no rate.
    """
    try:
        numbers = [int(part) for part in text.split(",")]
        found = list(range(*numbers)) if len(numbers) == 3 else numbers
    except ValueError as error:
        raise ConfigError(
            f"--request-rate-range {text}: must be whole numbers with commas between them, such as 2,34,2 (start, "
            "stop, step) or 1,2,4,8"
        ) from error
    if not found or min(found) < 1:
        raise ConfigError(f"--request-rate-range {text}: gives {found or 'no rate'}; every rate must be 1 or more")
    return found


def _extra_body(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        body = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--extra-request-body {text}: is not JSON ({error})") from error
    if not isinstance(body, dict):
        raise ConfigError(f'--extra-request-body {text}: must be a JSON object, such as {{"min_p": 0.1}}')
    return body


def _overruled(body: dict[str, Any]) -> dict[str, Any]:
    """Take the fields of a body that decide what is measured out of it, and return the keys that they overrule."""
    found = {
        key: body.pop(name) for name, key in (("model", "target.model"), ("stream", "request.stream")) if name in body
    }
    nested = body.get("sampling_params")
    for fields in (body, nested if isinstance(nested, dict) else {}):
        for name in ("max_tokens", "max_completion_tokens", "max_new_tokens"):
            if name in fields:
                found["request.max_tokens"] = fields.pop(name)
    return found


def _copy(document: Document) -> Document:
    return Document.parse(document.text(), document.source)


def checked(point: Point) -> tuple[Config, tuple[str, ...]]:
    """Return a point's config, ready to run, and its notes.

    Raises:
        ConfigError: Every problem, one per line.
    """
    found = point.document.check()
    if found.config is None:
        raise ConfigError("\n".join(problem.message for problem in found.problems))
    # That all requests go at once is what the scripts do unless they are told otherwise.
    return found.config, tuple(note for note in found.notes if not note.startswith("load.rate = inf:"))


def planned(point: Point) -> Config:
    """Return a point's config for its plan alone: the target may be one that is not built yet.

    Raises:
        ConfigError: Every problem but those of features to come, one per line.
    """
    from pydantic import ValidationError

    from lmtui.config import rules
    from lmtui.config.model import Config
    from lmtui.config.sentences import sentence

    try:
        config = Config.model_validate(point.document.values())
    except ValidationError:
        checked(point)
        raise
    broken = [sentence(key, None, words) for key, words in rules.broken(config)]
    if broken:
        raise ConfigError("\n".join(broken))
    return config
