"""What the user reads about a key: its value made visible, and one sentence with the remedy."""

from __future__ import annotations

import datetime
import json

from lmtui.config.declared import Declared

LONGEST = 60
"""Characters of a value that are shown."""


def visible(text: str) -> str:
    """Return text with control and other unprintable characters escaped: shown, never interpreted by a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def shown(value: object) -> str:
    """Return a value as TOML would have it, on one line and cut when it is long."""
    if isinstance(value, (datetime.date, datetime.time)):
        text = value.isoformat()
    elif isinstance(value, float):
        text = repr(value)
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**LONGEST:
        text = f"a whole number of over {LONGEST} digits"  # Python refuses to print the longest ones
    else:
        text = visible(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def sentence(key: str, value: object, words: str) -> str:
    """Return "key = value: words."; without the value where there is none."""
    head = visible(key) if value is None else f"{visible(key)} = {shown(value)}"
    return f"{head}: {words}."


def wrong_type(declared: Declared) -> str:
    """Return what a value of the wrong type must be, with an example where the choices do not show it."""
    words = f"must be {declared.type_words}"
    return words if declared.declaration.choices else f"{words}, such as {declared.example}"


def wrong_value(declared: Declared, words: str) -> str:
    """Return what a value of the right type must be, and what the key means."""
    return f"must be {words} ({meaning(declared)})"


def missing(declared: Declared) -> str:
    """Return that a value must be given."""
    return f"must be given: {declared.type_words}, such as {declared.example} ({meaning(declared)})"


def meaning(declared: Declared) -> str:
    """Return the help as the middle of a sentence."""
    text = declared.declaration.help
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
