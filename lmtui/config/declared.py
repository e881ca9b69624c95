"""Every parameter as data, in the order of files, forms and columns; read from the section classes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lmtui.config.model import Config
from lmtui.config.parameter import Declaration, Section, alternatives, choices_of, declaration_of

SECTION_TITLES = {
    "": "General",
    "target": "Target",
    "dataset": "Dataset",
    "load": "Load",
    "request": "Sampling",
    "cancel": "Cancel",
    "guided": "Guided",
    "slo": "SLO",
    "sweep": "Sweep",
    "limits": "Limits",
}
"""Section of the file ("" is its top) → title of its page in the form, in order."""

_TYPE_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class Declared:
    """One parameter.

    Attributes:
        key: Path in the file: `load.concurrency`.
        section: `load`; "" for the top.
        name: Last part of the key.
        attribute: Name of the attribute on the section (differs from `name` where that is a word of Python).
        type: What it holds: bool, int, float, str, list or dict. For a number or a word (`load.workers`): int.
        type_words: The same for people, as the end of "must be ...".
        default: Its default; None: null, or none when `required`.
        required: Whether the user must give it, whatever else is set.
        nullable: Whether it may be left unset, meaning "not sent" or "no limit".
        declaration: Label, help, unit, limits, choices, flag.
    """

    key: str
    section: str
    name: str
    attribute: str
    type: type
    type_words: str
    default: object
    required: bool
    nullable: bool
    declaration: Declaration

    def of(self, config: Config) -> Any:
        """Return its value in a config."""
        return getattr(getattr(config, self.section) if self.section else config, self.attribute)

    @property
    def example(self) -> str:
        """A right value, as TOML."""
        if self.declaration.example:
            return self.declaration.example
        value = self.default
        if isinstance(value, str):
            return f'"{value}"'
        return str(value).lower()


def _declared(section: str, attribute: str, field: FieldInfo) -> Declared:
    name = field.alias or attribute
    choices = choices_of(field.annotation)
    members = alternatives(field.annotation)
    kind = type(choices[0]) if choices else get_origin(members[0]) or members[0]
    if choices:
        words = f"one of {', '.join(map(str, choices))}"
    elif kind is list:
        words = "a list of whole numbers" if get_args(members[0]) == (int,) else "a list of texts"
    elif kind is dict:
        value = get_args(members[0])[1]
        words = "a table of texts" if value is str else "a table of lists" if get_origin(value) is list else "a table"
    else:
        words = _TYPE_WORDS[kind]
    words += "".join(f' or "{word}"' for m in members[1:] if get_origin(m) is Literal for word in get_args(m))
    default = field.get_default(call_default_factory=True)
    return Declared(
        key=f"{section}.{name}" if section else name,
        section=section,
        name=name,
        attribute=attribute,
        type=kind,
        type_words=words,
        default=None if default is PydanticUndefined else default,
        required=field.is_required(),
        nullable=type(None) in get_args(field.annotation),
        declaration=dataclasses.replace(declaration_of(field), choices=choices),
    )


def _all() -> tuple[Declared, ...]:
    top, rest = [], []
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            rest += [_declared(name, attribute, inner) for attribute, inner in section.model_fields.items()]
        else:
            top.append(_declared("", name, field))
    return (*top, *rest)


DECLARED = _all()
"""Every parameter, in the order of files, forms and columns."""


@cache
def _keys() -> dict[str, Declared]:
    return {declared.key: declared for declared in DECLARED}


def by_key(key: str) -> Declared | None:
    """Return the parameter with that key; None when there is none."""
    return _keys().get(key)


def applies(declared: Declared, kind: str) -> bool:
    """Tell whether a parameter means something for a kind of target."""
    return not declared.declaration.kinds or kind in declared.declaration.kinds
