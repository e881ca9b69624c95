"""What a config's guided outputs are held to, as read here: a broken schema or expression is found before any run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

OTHER_DIALECTS = ("bad escape", "unknown extension")
"""Beginnings of Python's complaints about what other kinds of expressions have, such as `\\p{L}`: the engine judges."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema that a file holds.

    Raises:
        ValueError: The rest of a sentence that begins with key and file.
    """
    try:
        found = json.loads(Path(name).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ValueError(f"cannot be read ({reason}): give a JSON file") from error
    if not isinstance(found, dict):
        raise ValueError("holds no schema: it must be a JSON object")
    return found


def regex_fault(text: str) -> str | None:
    """Return what is wrong with a regular expression, in any of their dialects; None when that cannot be told here."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        if str(error).startswith(OTHER_DIALECTS):
            return None
        return f"is no regular expression ({error}): correct it"
    return None
