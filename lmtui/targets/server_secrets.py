"""Secrets of a server run: taken from the environment when sent, hidden in everything that is written."""

from __future__ import annotations

import os
import re
from typing import Any

from lmtui.errors import TargetError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SHORTEST = 4
"""Values shorter than this are not hidden: they would be found in every other text."""


class Secrets:
    """Expands `${VAR}` and remembers what came out of it."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, value: str) -> None:
        """Hide this value from now on."""
        if len(value) >= SHORTEST:
            self._values.add(value)

    def mask(self, text: str) -> str:
        """Return the text without any secret."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

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
