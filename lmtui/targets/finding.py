"""One thing that a preflight looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing's name, how it stands, what was found, and what to do."""

    name: str
    state: Literal["ok", "note", "fail"]
    found: str
    remedy: str = ""
