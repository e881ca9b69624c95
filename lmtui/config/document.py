"""The TOML a user has, comments and mistakes kept: what the form edits, files hold and `--set` changes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from lmtui.config.check import Checked, Problem, check, unknown_key
from lmtui.config.declared import Declared, by_key
from lmtui.config.sentences import sentence, shown, visible
from lmtui.config.writing import inline
from lmtui.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Checked", "Document", "Problem"]

_LOOSE_NUMBER = re.compile(r"[+-]?([0-9]{1,20}|[0-9]{1,20}\.|[0-9]*\.?[0-9]+[eE][+-]?[0-9]{1,3}|\.[0-9]+)")
"""Numbers that TOML lacks or takes for another type; what it has (1.5) is left to it."""

NULL_WORDS = ("null", "none")
"""Words that unset a nullable key on the command line and in the form: TOML has no null."""


class Document:
    """A config as it is written. Nothing is checked until `check`, and wrong values are kept as they were typed."""

    def __init__(self, toml: tomlkit.TOMLDocument, source: str) -> None:
        self._toml = toml
        self.source = source

    @classmethod
    def parse(cls, text: str, source: str) -> Document:
        """Read TOML; `source` names it in errors.

        Raises:
            ConfigError: It is not TOML; the text has the source, line and column.
        """
        try:
            return cls(tomlkit.parse(text), source)
        except (TOMLKitError, ValueError, RecursionError) as error:
            raise ConfigError(f"{visible(source)}: {_not_toml(text, error)}") from error

    def text(self) -> str:
        """Return the file's text."""
        return tomlkit.dumps(self._toml)

    def values(self) -> dict[str, Any]:
        """Return the plain values of the file, unknown keys and wrong types included."""
        plain: dict[str, Any] = self._toml.unwrap()
        return plain

    def get(self, key: str) -> Any:
        """Return the value that is written for a key, of whatever type; None when none is."""
        place: Any = self.values()
        for part in _path(key):
            if not isinstance(place, dict) or part not in place:
                return None
            place = place[part]
        return place

    def set(self, key: str, value: Any) -> None:
        """Write a value, right or wrong; None unsets it. A key below a table's (`target.env.NAME`) writes into it.

        Raises:
            ConfigError: The key runs through a value that is no table, or the text is not Unicode.
        """
        if value is None:
            self.unset(key)
            return
        if not _is_unicode(key) or (isinstance(value, str) and not _is_unicode(value)):
            raise ConfigError(sentence(key, value, "must be Unicode text, in UTF-8"))
        *above, name = _path(key)
        place: MutableMapping[str, Any] = self._toml
        for depth, part in enumerate(above):
            if part not in place:
                place[part] = tomlkit.inline_table() if depth or isinstance(place, InlineTable) else tomlkit.table()
            inner = place[part]
            if not isinstance(inner, MutableMapping):
                raise ConfigError(self._blocked(key, ".".join(above[: depth + 1]), inner))
            place = inner
        place[name] = inline(value)

    def set_text(self, key: str, text: str) -> None:
        """Write what was typed: a TOML value when it is one, else text. `null` or `none` unsets a nullable key.

        Where a number is wanted it may be written as other tools write it: `.5`, `5.`, `1e3` for a whole number.

        Raises:
            ConfigError: As `set`.
        """
        declared = by_key(key)
        if declared is not None and declared.nullable and text.strip() in NULL_WORDS:
            self.unset(key)
        else:
            self.set(key, _value(text, declared) if _is_unicode(text) else text)

    def assign(self, assignment: str) -> None:
        """Apply one `--set KEY=VALUE`.

        Raises:
            ConfigError: It has no `=` or no key, or as `set`.
        """
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not all(part.strip() for part in key.split(".")):
            raise ConfigError(f"--set {visible(assignment)}: must be KEY=VALUE, such as load.concurrency=64.")
        self.set_text(key, text)

    def unset(self, key: str) -> None:
        """Remove a key, so that its default holds; nothing happens when it is not there."""
        *above, name = _path(key)
        place: Any = self._toml
        for part in above:
            if not isinstance(place, MutableMapping) or part not in place:
                return
            place = place[part]
        if isinstance(place, MutableMapping) and name in place:
            del place[name]

    def check(self) -> Checked:
        """Return the config, or every problem of it."""
        return check(self.values())

    @staticmethod
    def _blocked(key: str, above: str, value: Any) -> str:
        if by_key(key) is None and not _is_below_a_table(key):
            return unknown_key(key).message
        return (
            f"{visible(key)}: cannot be set, for {visible(above)} = {shown(_plain(value))} is no table; mend it first."
        )


def _path(key: str) -> Sequence[str]:
    """Return the names that lead to a key in the file. What stands below `sweep.over` is one name: a key with dots."""
    parts = key.split(".")
    if parts[:2] == ["sweep", "over"] and len(parts) > 2:
        return ["sweep", "over", ".".join(parts[2:])]
    return parts


def _is_below_a_table(key: str) -> bool:
    declared = by_key(".".join(key.split(".")[:2]))
    return declared is not None and declared.type is dict


def _value(text: str, declared: Declared | None) -> Any:
    """Return a text's TOML value, or the number it is where one is wanted; the text itself when it is neither."""
    typed = text.strip()
    if declared is not None and declared.type in (int, float) and _LOOSE_NUMBER.fullmatch(typed):
        number = float(typed)
        if declared.type is int and number.is_integer():
            return int(typed) if typed.lstrip("+-").isdigit() else int(number)
        if math.isfinite(number) and not typed.lstrip("+-").isdigit():
            return number
    try:
        held = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return held["value"] if len(held) == 1 else text


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be written; arguments that are not UTF-8 reach Python as lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _plain(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _not_toml(text: str, error: Exception) -> str:
    """Say where and why a text is not TOML. The standard parser words it better, where it finds it wrong too."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as standard:
        error = standard
    except (ValueError, RecursionError):
        pass  # its limits are not TOML's: the first error says more
    words = str(error)
    lines = text.splitlines() or [""]
    if "at end of document" in words:
        words = words.replace("at end of document", f"at line {len(lines)}, column {len(lines[-1]) + 1}, the end")
    return f"not TOML: {visible(_given_twice(words, lines) or words)}"


_TABLE_TWICE = re.compile(r"Cannot (?:declare|mutate immutable namespace) \((.*)\)(?: twice)? \(at line (\d+)")
_KEY_TWICE = re.compile(r"(?:Cannot overwrite a value|Duplicate inline table key '(.*)') \(at line (\d+)")


def _given_twice(words: str, lines: list[str]) -> str | None:
    """Return what the standard parser says of a table or key that is there twice, in words of a config's reader."""
    if found := _TABLE_TWICE.match(words):
        name = ".".join(part.strip().strip("'\"") for part in found[1].split(",") if part.strip())
        return f"[{name}] is there already, and again at line {found[2]}: put its keys under one heading"
    if found := _KEY_TWICE.match(words):
        key = found[1] or lines[int(found[2]) - 1].partition("=")[0].strip()
        return f"{key} is there already, and again at line {found[2]}: keep one of them"
    return None
