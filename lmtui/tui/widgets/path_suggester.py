"""Completing a path while it is typed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.suggester import Suggester


class PathSuggester(Suggester):
    """Completes a path from the file system; → takes what is offered."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the first entry that begins so; folders end with a slash."""
        return await asyncio.to_thread(completed, value)


def completed(value: str) -> str | None:
    """Return the first path that begins so; None when none does, or when this does not look like a path."""
    folder, slash, start = value.rpartition("/")
    if not slash:
        return None
    try:
        found = sorted(
            entry
            for entry in Path(folder or "/").expanduser().iterdir()
            if entry.name.startswith(start) and (start or not entry.name.startswith("."))
        )
    except (OSError, RuntimeError):
        return None
    return f"{folder}/{found[0].name}{'/' if found[0].is_dir() else ''}" if found else None
