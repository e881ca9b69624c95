"""The one declaration that every parameter has: `name: type = parameter(default, ...)` on a section class.

From it come the TOML key, the form row, the CSV column, the help line, the command line flag and the check.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known about a parameter besides its type and its default.

    Attributes:
        label: Words of the form row.
        help: One line: what it means.
        unit: Unit of the value, "" when it has none.
        minimum: Smallest value allowed (None: no limit); `above` when the limit itself is not allowed.
        maximum: Largest value allowed (None: no limit); `below` when the limit itself is not allowed.
        infinite: Whether `inf` is a value.
        kinds: Target kinds it applies to; () means all.
        flag: The flag of LMDeploy's scripts that sets it, "" when none does.
        planned: What is still to be built, as the end of the sentence "... is not built yet: ..."; "" when built.
            `planned_choices` does so for single choices of a parameter that is built.
        path: Whether the value is a path that the form completes.
        example: A right value as TOML, for messages and empty form rows; "" where the default shows it.
        choices: The values allowed, () means any; read from the `Literal` of the annotation, never given.
    """

    label: str
    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: bool = False
    below: bool = False
    infinite: bool = False
    kinds: tuple[str, ...] = ()
    flag: str = ""
    planned: str = ""
    planned_choices: tuple[str | int, ...] = ()
    path: bool = False
    example: str = ""
    choices: tuple[str | int, ...] = ()

    def limit_broken(self, value: float) -> str:
        """Say which limit a number breaks, as the end of "must be ..."; "" when it keeps them all."""
        if isinstance(value, float) and not (math.isfinite(value) or (self.infinite and not math.isnan(value))):
            return "a finite number, or inf" if self.infinite else "a finite number"
        if self.minimum is not None and (value <= self.minimum if self.above else value < self.minimum):
            return f"above {self.minimum:g}" if self.above else f"at least {self.minimum:g}"
        if self.maximum is not None and (value >= self.maximum if self.below else value > self.maximum):
            return f"below {self.maximum:.10g}" if self.below else f"at most {self.maximum:.10g}"
        return ""


def parameter(default: Any, label: str, help: str, *, alias: str | None = None, **more: Any) -> Any:
    """Declare a parameter of a section; `default` is `...` where the user must give the value.

    `alias` is the key where the attribute cannot have its name. `more` is passed to `Declaration`.
    """
    declaration = Declaration(label, help, **more)
    extra: Any = {"declaration": declaration}
    if isinstance(default, (list, dict)):
        return Field(default_factory=default.copy, json_schema_extra=extra, alias=alias)
    return Field(default, json_schema_extra=extra, alias=alias)


def declaration_of(field: FieldInfo) -> Declaration:
    """Return the declaration that `parameter` left on a field."""
    extra: Any = field.json_schema_extra
    declaration: Declaration = extra["declaration"]
    return declaration


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Split a union annotation into its members; `None` is left out."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return tuple(member for member in members if member is not type(None))


def choices_of(annotation: Any) -> tuple[str | int, ...]:
    """Return the values of an annotation that is a `Literal`, or one and None; () for any other."""
    members = alternatives(annotation)
    return get_args(members[0]) if len(members) == 1 and get_origin(members[0]) is Literal else ()


class Section(BaseModel):
    """A flat group of parameters: one `[section]` of the TOML file, one page of the form.

    A wrong value gives a pydantic error whose context holds the words that end "must be ...", or none when the
    type is wrong: `lmtui.config.document` makes the sentences.
    """

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=(), validate_default=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_choice(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what `Literal` lets through (true and 1.0 equal 1), and name the choices."""
        choices = choices_of(cls.model_fields[info.field_name or ""].annotation)
        if choices and value is not None and not any(type(value) is type(c) and value == c for c in choices):
            raise PydanticCustomError("declared", "not a choice", {"words": f"one of {', '.join(map(str, choices))}"})
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _is_usable(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if words := _unusable(value, field):
            raise PydanticCustomError("declared", "not usable", {"words": words})
        return value


def _unusable(value: Any, field: FieldInfo) -> str:
    """Say what a value of the right type must be that it is not, as the end of "must be ..."; "" when it is fine."""
    if isinstance(value, str):
        if not value and type(None) in get_args(field.annotation):
            return "text that is not empty; leave the key out instead"
        if any(not c.isprintable() and c not in "\n\t" for c in value):
            return "text without control characters"
        if declaration_of(field).path and value.startswith("~") and os.path.expanduser(value) == value:
            return "a path whose ~ names a home folder that there is"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return declaration_of(field).limit_broken(value)
    elif isinstance(value, (list, dict)) and not _is_jsonable(value):
        return "made of texts, finite numbers, true, false, lists and tables"
    return ""


def _is_jsonable(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_jsonable, value.values()))
    if isinstance(value, list):
        return all(map(_is_jsonable, value))
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
