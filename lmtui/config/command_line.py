"""The command that runs what a form shows: WHAT, and the `--set`s by which the form differs from it."""

from __future__ import annotations

import shlex
from typing import Any

from lmtui.config import store
from lmtui.config.declared import DECLARED, Declared
from lmtui.config.document import Document
from lmtui.config.writing import inline


def command_line(document: Document, what: str) -> str:
    """Return `lmtui run WHAT --set ...`, quoted for a shell, that draws the same plan as the document.

    Args:
        document: What is to run, saved or not.
        what: The saved config, preset or file that it was made from.

    Raises:
        ConfigError: There is no such WHAT.
    """
    base = store.find(what)
    words = ["lmtui", "run", what]
    for declared in DECLARED:
        value = document.get(declared.key)
        if value is None and declared.required:
            continue  # nothing that can be typed unsets it
        if value != base.get(declared.key) or type(value) is not type(base.get(declared.key)):
            words += ["--set", f"{declared.key}={_typed(declared, value)}"]
    return shlex.join(words)


def _typed(declared: Declared, value: Any) -> str:
    """Return what to type after `=` so that the key has this value; None: so that it has its default."""
    if value is None:
        if declared.default is None:
            return "null"
        value = declared.default
    if isinstance(value, str) and value.isprintable() and _is_plain(declared.key, value):
        return value
    if declared.type is int and isinstance(value, float) and value.is_integer():
        return f"{value:.1f}"  # wrong, and must stay so: 1e16 is taken for a whole number there
    return str(inline(value).as_string())


def _is_plain(key: str, text: str) -> bool:
    """Tell whether a text stays itself without quotes."""
    trial = Document.parse("", "")
    trial.set_text(key, text)
    return bool(trial.get(key) == text)
