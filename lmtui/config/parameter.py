"""The one declaration that every parameter has: `name: type = parameter(default, ...)` on a section class.

From the declaration come the TOML key, the form row, the CSV column, the help line, the command line flag and the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known about a parameter besides its type and its default.

    Attributes:
        label: Words of the form row.
        help: One line: what it means.
        unit: Unit of the value, "" when it has none.
        minimum: Smallest value allowed (None: no limit); `above` when the limit itself is not allowed.
        maximum: Largest value allowed (None: no limit); `below` when the limit itself is not allowed.
        choices: The values allowed; () means any.
        kinds: Target kinds it applies to; () means all.
        flag: The flag of LMDeploy's scripts that sets it, "" when none does.
        planned: What is still to be built, as the end of the sentence "... is not built yet: ..."; "" when built.
            `planned_choices` does so for single choices of a parameter that is built.
        path: Whether the value is a path that the form completes.
    """

    label: str
    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: bool = False
    below: bool = False
    choices: tuple[str | int, ...] = ()
    kinds: tuple[str, ...] = ()
    flag: str = ""
    planned: str = ""
    planned_choices: tuple[str | int, ...] = ()
    path: bool = False


def parameter(default: Any, label: str, help: str, **more: Any) -> Any:
    """Declare a parameter of a section; `default` is `...` where the user must give the value."""
    return Field(default, json_schema_extra={"declaration": Declaration(label, help, **more)})  # type: ignore[dict-item]


class Section(BaseModel):
    """A flat group of parameters: one `[section]` of the TOML file, one page of the form."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
