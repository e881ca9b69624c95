"""settings.toml: the theme, the user's own keys, the columns of the results. No Textual.

theme = "ansi-dark"
[results]
columns = ["name", "output_throughput", "ttft_ms.p99"]
[keymap]
"configs.run" = "R,f9"
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from lmtui import paths
from lmtui.errors import LmtuiError
from lmtui.tui import keys


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file says.

    Attributes:
        theme: Name of a theme; None when none is set.
        columns: Columns of the results; () when none are set.
        keymap: Id of a binding → its keys, with commas between them.
        problems: A sentence for each thing that is wrong; the rest counts.
    """

    theme: str | None = None
    columns: tuple[str, ...] = ()
    keymap: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def load() -> Settings:
    """Return the settings; those of no file are all unset."""
    path = paths.settings()
    try:
        values = _read(path).unwrap()
    except LmtuiError as error:
        return Settings(problems=(str(error),))
    problems = [
        f"{path}: no setting {name}; there are theme, results and keymap"
        for name in values
        if name not in ("theme", "results", "keymap")
    ]
    theme = values.get("theme")
    if theme is not None and not isinstance(theme, str):
        problems.append(f"{path}: theme = {theme!r} is no name: write it in quotes")
        theme = None
    columns = _table(values, "results").get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        problems.append(f"{path}: results.columns is no list of names")
        columns = []
    return Settings(theme, tuple(columns), _keymap(path, _table(values, "keymap"), problems), tuple(problems))


def remember(key: str, value: str | list[str] | None) -> None:
    """Write one setting (`theme`, `results.columns`) and leave the rest of the file, and its comments, as they are.

    Raises:
        LmtuiError: The file cannot be read or written.
    """
    path = paths.settings()
    document = _read(path)
    section, _, name = key.rpartition(".")
    place: Any = document.setdefault(section, tomlkit.table()) if section else document
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(tomlkit.dumps(document), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise LmtuiError(f"{path} cannot be written: {error.strerror}. Make it writable") from error


def _read(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (OSError, UnicodeDecodeError) as error:
        raise LmtuiError(f"{path}: the settings cannot be read: {error}. Make it a readable UTF-8 file") from None
    except TOMLKitError as error:
        raise LmtuiError(f"{path}: this is not TOML: {error}. Repair it; nothing in it counts until then") from None


def _table(values: dict[str, Any], name: str) -> dict[str, Any]:
    table = values.get(name, {})
    return table if isinstance(table, dict) else {}


def _keymap(path: Path, table: dict[str, Any], problems: list[str]) -> dict[str, str]:
    """Return the keys that can be set. A dotted id without quotes is a table in TOML: it counts too."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= (
            {f"{name}.{inner}": given for inner, given in value.items()} if isinstance(value, dict) else {name: value}
        )
    known = keys.ids()
    good: dict[str, str] = {}
    for name, value in flat.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "names are such as configs.run"
            problems.append(f"{path}: no key is called {name}; {hint}")
        elif not isinstance(value, str) or not value.strip(", "):
            problems.append(f'{path}: keymap.{name} = {value!r} is no key: write for example "f9" or "x,ctrl+x"')
        else:
            good[name] = ",".join(part.strip() for part in value.split(","))
    for clash in _clashes(good):
        problems.append(f"{path}: {clash}")
    return good


def _clashes(keymap: Mapping[str, str]) -> list[str]:
    """Return a sentence for each key that two actions of one place would have."""
    found = []
    for place in keys.PLACES:
        taken: dict[str, str] = {}
        for key in keys.of(place, keymap):
            for name in key.keys.split(","):
                if name in taken and {key.id, taken[name]} & keymap.keys():
                    found.append(f"{name} is both {taken[name]} and {key.id}: give one of them another key")
                taken.setdefault(name, key.id)
    return found
