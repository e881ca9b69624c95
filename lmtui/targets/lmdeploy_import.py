"""Importing LMDeploy, once, in the run process, and listening to its logger."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lmtui.errors import TargetError
from lmtui.targets import engine_log


def import_lmdeploy(name: str) -> Any:
    """Import LMDeploy (some 5 s) and return the package.

    Raises:
        TargetError: It, or a package that it needs, is missing or broken.
    """
    try:
        import lmdeploy
        import lmdeploy.messages
    except Exception as error:  # a broken environment fails in many ways
        raise TargetError(
            f"LMDeploy cannot be imported for the {name} engine ({type(error).__name__}: {error}): "
            "repair its installation, or pip install 'lmtui[lmdeploy]'."
        ) from error
    return lmdeploy


class LmdeployLog(logging.Handler):
    """Hears LMDeploy's logger: phases of loading become progress, and the last error is kept.

    While the engine loads, the logger tells INFO; only what the config's level lets through is printed.

    Attributes:
        last_error: The last error as one line, "" when none came.
    """

    def __init__(self, level: str, progress: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.last_error = ""
        self._progress: Callable[[str], None] | None = progress
        self._level = getattr(logging, level)
        self._logger = logging.getLogger("lmdeploy")
        for handler in self._logger.handlers:
            handler.setLevel(max(handler.level, self._level))
        self._logger.setLevel(min(self._level, logging.INFO))
        self._logger.addHandler(self)

    def loaded(self) -> None:
        """Loading is over: let the logger tell no more than the config asks for."""
        self._progress = None
        self._logger.setLevel(min(self._level, logging.ERROR))

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.levelno >= logging.ERROR:
            text = record.getMessage().strip()
            if record.exc_info and record.exc_info[1] is not None:
                error = record.exc_info[1]
                text = f"{type(error).__name__}: {error}"
            self.last_error = (text.splitlines() or [""])[0][: engine_log.MOST_CHARS] or self.last_error
        elif self._progress is not None and (line := engine_log.loading_line(record.getMessage())):
            self._progress(line)
