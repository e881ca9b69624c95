"""What the form shows and does, without a screen: a draft of a config, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmtui.config.declared import DECLARED, SECTION_TITLES, Declared, applies, by_key
from lmtui.config.document import Checked, Document

HIDDEN = frozenset({"schema"})
SHORT_CHOICES = 6
"""Up to this many choices are taken in turn; more are picked from a list."""


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the form.

    Attributes:
        key: Key of the parameter.
        label: Its words; with the section's title before it when fields of several sections stand together.
        value: What is set, or the default, as text; "" when it is null.
        unit: The value's unit.
        is_changed: Whether the config sets it to something else than its default.
        error: What is wrong with it; "" when nothing is.
        choices: The words it can be; () when it is free.
    """

    key: str
    label: str
    value: str
    unit: str
    is_changed: bool
    error: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One row of the list of sections."""

    section: str
    title: str
    errors: int
    changed: int


class Draft:
    """A config that is being edited. Everything that was typed stays, right or wrong."""

    def __init__(self, document: Document, made_from: str, *, is_saved: bool) -> None:
        self.document = document
        self.made_from = made_from
        self._saved_text = document.text() if is_saved else None
        self._opened_text = document.text()
        self._check()

    @property
    def checked(self) -> Checked:
        """The config when everything is right; else what is wrong."""
        return self._checked

    @property
    def is_saved(self) -> bool:
        """Whether the file has what is shown."""
        return self.document.text() == self._saved_text

    @property
    def is_edited(self) -> bool:
        """Whether leaving would lose something that was typed."""
        return self.document.text() not in (self._saved_text, self._opened_text)

    @property
    def name(self) -> str:
        """The name as it is typed."""
        return str(self._values.get("name", ""))

    def saved(self, name: str) -> None:
        """Take note that the draft was saved under this name."""
        self.made_from = name
        self._saved_text = self.document.text()

    def _check(self) -> None:
        self._checked = self.document.check()
        self._errors = {problem.key: problem.message for problem in self._checked.problems}
        self._values = {d.key: value for d in DECLARED if (value := _at(self.document.values(), d.key)) is not None}

    def _shown(self) -> list[Declared]:
        kind = str(self._values.get("target.kind", ""))
        known = [d for d in DECLARED if d.key not in HIDDEN and not d.declaration.planned]
        return [d for d in known if not kind or applies(d, kind) or d.key in self._errors]

    def sections(self) -> list[SectionRow]:
        """Return the sections that have fields, with how many are wrong and how many changed."""
        shown = self._shown()
        rows = []
        for section, title in SECTION_TITLES.items():
            inside = [d for d in shown if d.section == section]
            if inside:
                errors = sum(d.key in self._errors for d in inside)
                rows.append(SectionRow(section, title, errors, sum(self._is_changed(d) for d in inside)))
        return rows

    @property
    def stray_errors(self) -> list[str]:
        """What is wrong with keys that no field shows: unknown ones, and those of the whole file."""
        shown = {d.key for d in self._shown()}
        return [problem.message for problem in self._checked.problems if problem.key not in shown]

    def fields(self, section: str | None, *, words: str = "", changed_only: bool = False) -> list[Field]:
        """Return the fields of a section (None: of all): those with these words; only those that are not default."""
        wanted = words.lower().split()
        found = []
        for declared in self._shown():
            if section is not None and declared.section != section:
                continue
            if changed_only and not self._is_changed(declared):
                continue
            haystack = f"{declared.key} {declared.declaration.label} {declared.declaration.flag}".lower()
            if not all(word in haystack for word in wanted):
                continue
            found.append(self._field(declared, with_section=section is None))
        return found

    def _field(self, declared: Declared, *, with_section: bool) -> Field:
        label = declared.declaration.label
        if with_section and declared.section:
            label = f"{SECTION_TITLES[declared.section]}: {label}"
        return Field(
            key=declared.key,
            label=label,
            value=self.shown_value(declared.key),
            unit=declared.declaration.unit,
            is_changed=self._is_changed(declared),
            error=_inline(self._errors.get(declared.key, "")),
            choices=choices(declared),
        )

    def _is_changed(self, declared: Declared) -> bool:
        return declared.key in self._values and self._values[declared.key] != declared.default

    def shown_value(self, key: str) -> str:
        """Return the value as text: what is set, else the default, else ""."""
        declared = by_key(key)
        return _text(self._values.get(key, declared.default if declared else None))

    def first_error(self) -> tuple[str, str] | None:
        """Return section and key of the first field that is wrong; None when none is."""
        for declared in self._shown():
            if declared.key in self._errors:
                return declared.section, declared.key
        return None

    def commit(self, key: str, text: str) -> None:
        """Set a field to what was typed; nothing typed takes the default again."""
        declared = by_key(key)
        text = text.strip()
        if not text or declared is None:
            self.document.unset(key)
        elif declared.type is str and not any(isinstance(c, int) for c in declared.declaration.choices):
            self.document.set(key, text)
        elif declared.type is list and not text.startswith("["):
            self.document.set(key, [_item(part, declared) for part in text.split(",") if part.strip()])
        else:
            self.document.set_text(key, text)
        self._check()

    def unset(self, key: str) -> None:
        """Take a field's default again."""
        self.document.unset(key)
        self._check()

    def step(self, key: str, by: int) -> bool:
        """Take the choice `by` places on, round and round; False when the field is free or has many choices."""
        declared = by_key(key)
        words = choices(declared) if declared is not None else ()
        if not words or len(words) > SHORT_CHOICES:
            return False
        at = self.shown_value(key)
        index = words.index(at) if at in words else -by if by > 0 else 0
        self.commit(key, words[(index + by) % len(words)])
        return True

    def about(self, key: str) -> list[str]:
        """Return what the lines below the form say of a field: its meaning, and what it may be."""
        declared = by_key(key)
        if declared is None:
            return []
        facts = [key, f"default {_text(declared.default) or 'none'}"]
        if limits := _limits(declared):
            facts.append(limits)
        if declared.declaration.flag:
            facts.append(f"script flag {declared.declaration.flag}")
        return [self._errors.get(key) or declared.declaration.help, " · ".join(facts)]


def choices(declared: Declared) -> tuple[str, ...]:
    """Return the words a parameter can be; () when it is free. Choices that are not built yet are left out."""
    declaration = declared.declaration
    if declared.type is bool:
        return ("true", "false")
    return tuple(_text(c) for c in declaration.choices if c not in declaration.planned_choices)


def _at(values: Mapping[str, Any], key: str) -> object:
    """Return what is written for a key; None when nothing is, or when it stands below a value that is no table."""
    section, _, name = key.rpartition(".")
    place = values.get(section) if section else values
    return place.get(name) if isinstance(place, Mapping) else None


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        inside = ", ".join(f'"{k}" = "{v}"' if isinstance(v, str) else f'"{k}" = {_text(v)}' for k, v in value.items())
        return f"{{ {inside} }}" if value else ""
    return str(value)


def _inline(sentence: str) -> str:
    """Return an error without the key and value before it: the row has both."""
    return sentence.partition(": ")[2] or sentence


def _item(text: str, declared: Declared) -> object:
    text = text.strip().strip('"')
    return int(text) if "whole numbers" in declared.type_words and text.lstrip("-").isdigit() else text


def _limits(declared: Declared) -> str:
    d = declared.declaration
    parts: Sequence[str] = [
        f"{'over' if d.above else 'at least'} {_text(d.minimum)}" if d.minimum is not None else "",
        f"{'under' if d.below else 'at most'} {_text(d.maximum)}" if d.maximum is not None else "",
    ]
    return ", ".join(part for part in parts if part)
