"""What outputs are held to: the `response_format` of engines, and the fields that ask servers for the same."""

from __future__ import annotations

import json
from typing import Any

from lmtui.config import guided_files
from lmtui.config.model import Config
from lmtui.errors import ConfigError, TargetError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "confidence": {"type": "number"}},
    "required": ["answer"],
}
"""The schema where none is given: the guided script's own, which most models can satisfy."""

REGEX = r"[A-Z][a-z]+ (is|are|was|were) [a-z]+\."
"""The expression where none is given: the guided script's own."""

NAME = "benchmark"


def is_guided(config: Config) -> bool:
    """Return whether outputs are held to a format: they may then end before the asked length, and count."""
    return config.guided.response_format != "none"


def response_format(config: Config) -> dict[str, Any] | None:
    """Return LMDeploy's (and for JSON, OpenAI's) `response_format`; None when outputs are free.

    Raises:
        ConfigError: The schema's file cannot be read.
    """
    guided = config.guided
    if guided.response_format == "none":
        return None
    if guided.response_format == "json_object":
        return {"type": "json_object"}
    if guided.response_format == "regex_schema":
        return {"type": "regex_schema", "regex_schema": guided.regex or REGEX}
    schema = SCHEMA if guided.json_schema_path is None else _schema(guided.json_schema_path)
    return {"type": "json_schema", "json_schema": {"name": NAME, "schema": schema}}


def server_fields(config: Config) -> dict[str, Any]:
    """Return the fields of a request body; regular expressions have another name at each server.

    Raises:
        ConfigError: The schema's file cannot be read.
    """
    wanted = response_format(config)
    if wanted is None:
        return {}
    if wanted["type"] == "regex_schema" and config.target.preset == "vllm":
        return {"structured_outputs": {"regex": wanted["regex_schema"]}}
    if wanted["type"] == "regex_schema" and config.target.preset == "sglang":
        return {"regex": wanted["regex_schema"]}
    return {"response_format": wanted}


def refuse_uncompilable(wanted: dict[str, Any] | None) -> None:
    """Raise TargetError when XGrammar cannot compile the format: TurboMind would go on unguided, with a warning."""
    if wanted is None or wanted["type"] == "json_object":
        return
    try:
        import xgrammar
    except ImportError as error:
        raise TargetError(f"Guided decoding needs XGrammar ({error}): pip install xgrammar.") from error
    key, text = "guided.regex", wanted.get("regex_schema", "")
    try:
        if wanted["type"] == "json_schema":
            key, text = "guided.json_schema_path", json.dumps(wanted["json_schema"]["schema"])
            xgrammar.Grammar.from_json_schema(text)
        else:
            xgrammar.Grammar.from_regex(text)
    except Exception as error:  # its native part raises more than one kind
        reason = (str(error).strip().splitlines() or ["no reason given"])[-1]
        raise TargetError(f"{key} cannot be compiled into a grammar ({reason}): {text[:200]}") from error


def _schema(name: str) -> dict[str, Any]:
    try:
        return guided_files.schema(name)
    except ValueError as error:
        raise ConfigError(f"guided.json_schema_path = '{name}' {error}.") from error
