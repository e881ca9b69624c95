"""Plain TOML values → a config, or every problem with the key it concerns, and notes on what is ignored."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from lmtui.config import rules
from lmtui.config.declared import DECLARED, SECTION_TITLES, Declared, applies, by_key
from lmtui.config.model import Config
from lmtui.config.sentences import missing, sentence, shown, wrong_type, wrong_value

HIDDEN = ("target.headers", "target.extra_body", "target.env", "target.api_key_env", "target.base_url")
"""Keys whose value no problem shows: it may be, or be beside, the very secret that must not be there."""

SECTIONS = tuple(section for section in SECTION_TITLES if section)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a config cannot run. `key` is a declared key, an unknown one as it was typed, or a section."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found: a config only when there are no problems.

    Attributes:
        config: The config; None with problems.
        problems: One per key at most, in the order of declarations, unknown keys last.
        notes: Sentences about values that are kept and ignored.
    """

    config: Config | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def check(values: Mapping[str, Any]) -> Checked:
    """Check a file's values: unknown keys, types, limits, choices, rules across keys, what is not built yet."""
    strays = tuple(_unknown(values))
    known = _known(values)
    config, found = _validated(known)
    if config is None:
        return Checked(None, _in_order(found, strays))
    for key, words in rules.broken(config, skip=frozenset(found)):
        value = None if key in HIDDEN else _value(config, key)
        found.setdefault(key, Problem(key, sentence(key, value, words)))
    for declared in DECLARED:
        if declared.key not in found and (words := _not_built(declared, config)):
            found[declared.key] = Problem(declared.key, words)
    problems = _in_order(found, strays)
    return Checked(None if problems else config, problems, tuple(rules.ignored(config)))


LIKE = 0.75
"""Likeness (0 to 1, of difflib) from which a word is taken for a slip of another."""
MOST_LISTED = 16
"""Keys of a section that a sentence names at most."""


def closest(key: str) -> str | None:
    """Return the known key that an unknown one most likely means; None when none is like it.

    The last part counts: equal, then the label, then alike, then a beginning, then a word of it; of several the one in
    the section that was typed, else the first declared.
    """
    section, _, name = key.lower().rpartition(".")
    ranked = [(_likeness(key.lower(), name, declared), declared.section == section, declared) for declared in DECLARED]
    likeness, _, best = max(ranked, key=lambda entry: entry[:2])
    return best.key if likeness else None


def _likeness(key: str, name: str, declared: Declared) -> float:
    """Return how much a declared key is like a typed one and its last part; 0 when it is not what was meant."""
    mine, label, words = declared.name.lower(), declared.declaration.label.lower(), name.split("_")
    if name == mine or key.startswith(f"{declared.key}."):
        return 5.0
    if " ".join(words) == label:
        return 4.0
    alike = difflib.SequenceMatcher(None, name, mine).ratio()
    if alike >= LIKE:
        return 3.0 + alike / 2
    if len(name) >= 3 and (mine.startswith(name) or any(part.startswith(name) for part in mine.split("_"))):
        return 2.0
    return 1.0 if mine in words or label in words else 0.0


def unknown_key(key: str, value: object = None) -> Problem:
    """Return the problem of a key that does not exist, with the closest that does, or where to find them."""
    if (known := closest(key)) is not None:
        return Problem(key, sentence(key, value, f"is not a known key; the closest is {known}"))
    section = key.partition(".")[0]
    names = [declared.name for declared in DECLARED if declared.section == section] if section in SECTIONS else []
    if not names:
        where = f"there are sections {', '.join(f'[{section}]' for section in SECTIONS)}"
    elif len(names) <= MOST_LISTED:
        where = f"[{section}] has {', '.join(names)}"
    else:
        where = f"the form of `lmtui` shows the {len(names)} keys of [{section}]"
    return Problem(key, sentence(key, value, f"is not a known key; {where}"))


def _unknown(values: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in values.items():
        if name in SECTIONS:
            if isinstance(value, Mapping):
                for inner, held in value.items():
                    if by_key(f"{name}.{inner}") is None or "." in inner:
                        yield unknown_key(f"{name}.{inner}", held)
            else:
                words = f"must be a section: a line [{name}], and its keys in the lines below"
                yield Problem(name, sentence(name, value, words))
        elif by_key(name) is not None and "." not in name:
            continue
        elif isinstance(value, Mapping):
            near = difflib.get_close_matches(name.lower(), SECTIONS, 1)
            known = f"the closest is [{near[0]}]" if near else f"there are {', '.join(f'[{s}]' for s in SECTIONS)}"
            words = f"is not a known section; {known}"
            yield Problem(name, sentence(f"[{name}]", None, words))
        else:
            yield unknown_key(name, value)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of known keys, as pydantic takes them."""
    known: dict[str, Any] = {}
    for declared in DECLARED:
        place = values.get(declared.section) if declared.section else values
        if isinstance(place, Mapping) and declared.name in place:
            inner = known.setdefault(declared.section, {}) if declared.section else known
            inner[declared.name] = place[declared.name]
    return known


def _validated(known: dict[str, Any]) -> tuple[Config | None, dict[str, Problem]]:
    """Return the config with wrong values left out, and a problem for each; no config without a usable kind."""
    found: dict[str, Problem] = {}
    known.setdefault("target", {})
    try:
        return Config.model_validate(known), found
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            key = ".".join(str(part) for part in fault["loc"][: 2 if fault["loc"][0] in SECTIONS else 1])
            declared = by_key(key)
            assert declared is not None, key
            place = known[declared.section] if declared.section else known
            if key not in found:
                found[key] = Problem(key, _words(declared, place.get(declared.name), fault))
    for key in found:
        declared = by_key(key)
        assert declared is not None
        (known[declared.section] if declared.section else known).pop(declared.name, None)
    if "target.kind" in found:
        return None, found
    return Config.model_validate({"name": "unnamed", **known}), found


def _words(declared: Declared, value: object, fault: Any) -> str:
    if declared.key in HIDDEN and isinstance(value, (str, list, dict)):
        value = None
    if fault["type"] == "missing":
        return sentence(declared.key, None, missing(declared))
    if fault["type"] == "declared":
        words: str = fault["ctx"]["words"]
        if declared.declaration.choices:
            return sentence(declared.key, value, f"must be {words}")
        return sentence(declared.key, value, wrong_value(declared, words))
    return sentence(declared.key, value, wrong_type(declared))


def _not_built(declared: Declared, config: Config) -> str:
    """Return the sentence that refuses a key or choice whose feature is not built yet; "" for all others."""
    value, declaration = declared.of(config), declared.declaration
    if not applies(declared, config.target.kind) or value == declared.default:
        return ""
    if declaration.planned:
        return sentence(declared.key, value, f"is not built yet: {declaration.planned}")
    if value in declaration.planned_choices:
        built = ", ".join(shown(c) for c in declaration.choices if c not in declaration.planned_choices)
        return sentence(declared.key, value, f"is not built yet: use one of {built} until then")
    return ""


def _value(config: Config, key: str) -> object:
    declared = by_key(key)
    assert declared is not None, key
    return declared.of(config)


def _in_order(found: Mapping[str, Problem], strays: tuple[Problem, ...]) -> tuple[Problem, ...]:
    broken_sections = {stray.key for stray in strays}
    ordered = tuple(
        found[declared.key]
        for declared in DECLARED
        if declared.key in found and declared.section not in broken_sections
    )
    return (*ordered, *strays)
