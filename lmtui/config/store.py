"""Saved configs, by name: one TOML file each. And what a command line's WHAT means: file, saved config or preset."""

from __future__ import annotations

import difflib
import io
import os
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lmtui import paths
from lmtui.config import naming, presets
from lmtui.config.document import Document
from lmtui.config.model import Config
from lmtui.config.sentences import shown, visible
from lmtui.errors import ConfigError

SUFFIX = ".toml"
LARGEST_BYTES = 10 * 1024 * 1024
"""A config is a page of text: what is larger is another file."""


def names() -> list[str]:
    """Return the names of saved configs, sorted; also of files that cannot be read."""
    found = (file.name[: -len(SUFFIX)] for file in paths.configs().glob(f"*{SUFFIX}"))
    return sorted(name for name in found if not naming.fault(name))


def path(name: str) -> Path:
    """Return the file of a name, whether it exists or not.

    Raises:
        ConfigError: It cannot be a name.
    """
    if words := naming.fault(name):
        raise ConfigError(f"{shown(name)}: cannot be the name of a config, for that must be {words}.")
    return paths.configs() / f"{name}{SUFFIX}"


def load(name: str) -> Document:
    """Return a saved config.

    Raises:
        ConfigError: There is none, or it cannot be read, or it is not TOML.
    """
    file = path(name)
    if not file.exists():
        raise ConfigError(_not_found(name, names()))
    return _read(file)


def save(name: str, document: Document) -> None:
    """Write a config, with its mistakes if it has any; the file is replaced in one step.

    Raises:
        ConfigError: The name or the place cannot be used.
    """
    _write(path(name), document.text())


def delete(name: str) -> Path:
    """Move a saved config to the trash and return where it lies now.

    Raises:
        ConfigError: There is none.
    """
    file = path(name)
    resting = paths.trash() / f"{name}-{time.strftime('%Y%m%dT%H%M%S')}-{os.urandom(3).hex()}{SUFFIX}"
    try:
        file.rename(resting)
    except FileNotFoundError:
        raise ConfigError(_not_found(name, names())) from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be moved to {resting}: {error.strerror}.") from error
    return resting


def duplicate(name: str, new: str) -> None:
    """Save a copy of a saved config or preset under a new name, which it also carries inside.

    Raises:
        ConfigError: There is no such config, or the new name is taken or unusable.
    """
    target = path(new)
    if target.exists():
        raise ConfigError(f"{new}: is the name of a saved config already; choose another.")
    document = load(name) if path(name).exists() else _preset(name)
    document.set("name", new)
    _write(target, document.text())


def find(what: str) -> Document:
    """Return the config that WHAT means: a file when it has a `/` or ends in `.toml`, else a saved one, else a preset.

    Raises:
        ConfigError: There is none; the closest known name is in the text.
    """
    if "/" in what or what.endswith(SUFFIX):
        return _read(Path(os.path.expanduser(what)))
    if not naming.fault(what) and path(what).exists():
        return load(what)
    return _preset(what)


def resolve(what: str, sets: Sequence[str] = ()) -> tuple[Config, tuple[str, ...]]:
    """Return the config that WHAT means after `--set KEY=VALUE`s, and notes on what it ignores.

    Raises:
        ConfigError: It has problems: one sentence each, one per line.
    """
    document = find(what)
    for assignment in sets:
        document.assign(assignment)
    checked = document.check()
    if checked.config is None:
        raise ConfigError("\n".join(problem.message for problem in checked.problems))
    return checked.config, checked.notes


def _preset(name: str) -> Document:
    if name not in presets.names():
        raise ConfigError(_not_found(name, [*names(), *presets.names()]))
    return presets.load(name)


def _not_found(name: str, known: Sequence[str]) -> str:
    missing = f"{shown(name)}: is neither a saved config nor a preset"
    if not known:
        return f"{missing}; none is saved yet."
    near = difflib.get_close_matches(name.lower(), [other.lower() for other in known], 1)
    closest = next((other for other in known if near and other.lower() == near[0]), None)
    where = f"the closest is {closest}" if closest else "`lmtui configs` lists them all"
    return f"{missing}; {where}. A file needs a / in its path, or the ending .toml."


def _read(file: Path) -> Document:
    try:
        if not stat.S_ISREG(mode := file.stat().st_mode) and not stat.S_ISDIR(mode):
            raise ConfigError(f"{visible(str(file))}: cannot be read: it is no regular file.")
        with file.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise ConfigError(f"{visible(str(file))}: cannot be read: it is over {LARGEST_BYTES >> 20} MiB long.")
        text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{visible(str(file))}: is not text in UTF-8: byte {error.start} is not.") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        words = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{visible(str(file))}: cannot be read: {words}.") from error
    return Document.parse(text, str(file))


def _write(file: Path, text: str) -> None:
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ConfigError(f"{visible(str(file))}: cannot be written: {error.strerror}.") from error
