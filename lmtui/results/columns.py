"""A result → the cells of its history row: every config key and figure under its path with dots."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lmtui.config.declared import DECLARED
from lmtui.metrics.result import Client, Metrics, Result
from lmtui.metrics.sessions import Outcome

OWN_SOURCE = "lmtui"
IDENTITY = ("run_id", "name", "phase", "started_at", "source")
"""Columns that every row has and by which a history file is known."""

_APART = {"grade", "reasons"}
"""Parts of `client` that have columns of their own."""
_UNIONS = (types.UnionType, typing.Union)


def cells(result: Result) -> dict[str, str]:
    """Return column → cell of one result, in the order of the columns; missing is empty.

    `target.*` is what answered where the target said so, else what the config asked for. Lists of sentences are
    joined by "; "; other lists and tables are JSON.
    """
    row: dict[str, object] = {
        "run_id": result.run_id,
        "name": result.name,
        "phase": result.phase,
        "started_at": result.started_at,
        "source": OWN_SOURCE,
        "grade": result.client.grade,
        "reasons": "; ".join(result.client.reasons),
        "simulated": result.simulated,
        "tokens_from": result.tokens_from,
    }
    row |= {f"outcomes.{outcome}": count for outcome, count in result.outcomes.items()}
    row |= dict(_figures(Metrics, result.metrics, ""))
    row |= {f"client.{name}": value for name, value in _figures(Client, result.client, "") if name not in _APART}
    row["errors"] = msgspec.to_builtins(result.errors) or None
    row["run_notes"] = "; ".join(result.notes)
    for section, value in result.config.items():
        if isinstance(value, Mapping):
            row |= {f"{section}.{name}": item for name, item in value.items()}
        else:
            row.setdefault(section, value)
    row |= {name: value for name, value in _tree("target", result.target) if value is not None or name not in row}
    row |= dict(_tree("environment", result.environment))
    return {column: cell(value) for column, value in row.items()}


def names() -> tuple[str, ...]:
    """Return the columns that every row has: what it is, all figures, all config keys."""
    figures = [name for name, _ in _figures(Metrics, None, "")]
    client = [f"client.{name}" for name, _ in _figures(Client, None, "") if name not in _APART]
    outcomes = [f"outcomes.{outcome.label}" for outcome in Outcome]
    keys = [declared.key for declared in DECLARED]
    return tuple(dict.fromkeys((*IDENTITY, "grade", "simulated", "tokens_from", *outcomes, *figures, *client, *keys)))


def cell(value: object) -> str:
    """Return a value as the text of its cell: "" for None, `true`, `inf`, the shortest exact number, or JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float | int):
        return repr(value)
    return msgspec.json.encode(value).decode()


def _figures(kind: type[msgspec.Struct], value: msgspec.Struct | None, prefix: str) -> Iterator[tuple[str, object]]:
    """Yield path and value of every figure; a part that is missing yields its paths all the same, so columns stay."""
    for field in msgspec.structs.fields(kind):
        if field.name == "unresolved":  # follows from n
            continue
        item = None if value is None else getattr(value, field.name)
        part = _struct(field.type)
        if part is None:
            yield prefix + field.name, item
        else:
            yield from _figures(part, item, f"{prefix}{field.name}.")


def _struct(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the struct that a field holds, also where it may be None."""
    options = typing.get_args(annotation) if typing.get_origin(annotation) in _UNIONS else (annotation,)
    for option in options:
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def _tree(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _tree(f"{prefix}.{name}", item)
        else:
            yield f"{prefix}.{name}", item
