"""Secrets of a server run: taken from the environment when sent, hidden in everything that is written."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import quote, quote_plus

from lmtui.config.headers import is_sendable
from lmtui.errors import TargetError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SHORTEST = 4
"""Values shorter than this are not hidden: they would be found in every other text."""


class Secrets:
    """Expands `${VAR}` and remembers what came out of it."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, value: str) -> None:
        """Hide this value from now on, also as other programs quote it."""
        quoted = {repr(value)[1:-1], repr(value.encode("utf-8", "surrogateescape"))[2:-1], json.dumps(value)[1:-1]}
        quoted |= {value.strip(), *(escape(value, safe="", errors="surrogateescape") for escape in (quote, quote_plus))}
        self._values |= {form for form in (value, *quoted) if len(form) >= SHORTEST}

    def mask(self, text: str) -> str:
        """Return the text without any secret."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

    def api_key(self, variable: str) -> str:
        """Return the API key that an environment variable holds; "" when it is not set.

        Raises:
            TargetError: It cannot be sent; the text names the variable, never the value.
        """
        value = os.environ.get(variable, "") if variable else ""
        return self._sendable(variable, value, "target.api_key_env") if value else ""

    def header(self, text: str) -> str:
        """Return a value of `target.headers` with every `${VAR}` replaced by what can be sent in a header field.

        Raises:
            TargetError: A variable is not set, or its value cannot be sent; the text names it, never its value.
        """
        key = "target.headers"
        return _VARIABLE.sub(lambda match: self._sendable(match[1], self._variable(match[1], key), key), text)

    def expand(self, value: Any, key: str) -> Any:
        """Return a copy of a value of the config, every `${VAR}` of its texts replaced.

        Raises:
            TargetError: A variable is not set; the text names it and the key.
        """
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: self._variable(match[1], key), value)
        if isinstance(value, dict):
            return {name: self.expand(part, key) for name, part in value.items()}
        if isinstance(value, list):
            return [self.expand(part, key) for part in value]
        return value

    def _variable(self, name: str, key: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise TargetError(f"{key} names ${{{name}}}, but the environment variable {name} is not set: set it.")
        self.add(value)
        return value

    def _sendable(self, name: str, value: str, key: str) -> str:
        """Return a value without the blanks at its ends, such as the line's end of the file that it came from."""
        self.add(value)
        stripped = value.strip()
        if not is_sendable(stripped):
            raise TargetError(
                f"The environment variable {name}, which {key} names, holds line breaks, control or non-ASCII "
                "characters, which no header field can carry: set it to one line of plain characters."
            )
        return stripped
