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

    An exception that was logged explains more than the errors that follow from it, which have no exception.
    """

    WHILE_LOADING = "INFO"

    def __init__(self, level: str, progress: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._exception = self._message = ""
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

    def forget(self) -> None:
        """Another run begins: errors that the one before survived explain nothing of it."""
        self._exception = self._message = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.levelno >= logging.ERROR:
            if record.exc_info and (error := record.exc_info[1]) is not None:
                self._exception = _first_line(f"{type(error).__name__}: {error}")
            else:
                self._message = _first_line(record.getMessage()) or self._message
        elif self._progress is not None and (line := engine_log.loading_line(record.getMessage())):
            self._progress(line)

    @property
    def last_error(self) -> str:
        """The last exception that was logged, else the last error, as one line; "" when none came."""
        return self._exception or self._message


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][: engine_log.MOST_CHARS]
