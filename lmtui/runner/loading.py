"""Loading made visible: while an engine loads, what its log says of its progress is the run's message."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from lmtui.targets.engine_log import loading_line

EVERY_S = 0.5
MOST_BYTES = 8192


class LoadingLog:
    """Follows a log from where it stands; a thread of its own, for the loop is blocked while an engine loads."""

    def __init__(self, log: Path, show: Callable[[str], None]) -> None:
        """Follow `log`, and give each new line of progress to `show` (in the thread)."""
        self._path = log
        self._show = show
        self._over = threading.Event()
        self._offset = log.stat().st_size if log.exists() else 0
        self._last = ""
        self._thread = threading.Thread(target=self._follow, name="loading-log", daemon=True)

    def __enter__(self) -> None:
        """Begin."""
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        """End; nothing is shown after this."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        """Show what has been written since the last look, if it tells of progress and of another than before."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(self._offset, size - MOST_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return
        self._offset = size
        line = loading_line(text)
        if line and line != self._last:
            self._last = line
            self._show(line)
