"""What is copied is also written to a file: tmux drops clipboard codes unless it is told not to."""

from __future__ import annotations

import os
from pathlib import Path

from lmtui import paths


def write(text: str, file_name: str) -> Path:
    """Write the text to a file of this name in the folder of copies, and return the file."""
    folder = paths.cache() / "copied"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / file_name
    file.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    return file


def hint() -> str:
    """Return what to do where the clipboard may not be reached; "" elsewhere."""
    return " (tmux passes the clipboard on after: set -g set-clipboard on)" if os.environ.get("TMUX") else ""
