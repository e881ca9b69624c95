"""Where everything is kept. `LMTUI_HOME` puts it all under one folder; without it the platform's folders are used."""

from __future__ import annotations

import os
from pathlib import Path

from lmtui.errors import LmtuiError


def _data() -> Path:
    if home := os.environ.get("LMTUI_HOME"):
        return Path(home).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("lmtui", appauthor=False))


def _config() -> Path:
    if os.environ.get("LMTUI_HOME"):
        return _data()
    import platformdirs

    return Path(platformdirs.user_config_dir("lmtui", appauthor=False))


def _folder(path: Path) -> Path:
    """Make the folder (mode 0700) when it is missing, and return it.

    Raises:
        LmtuiError: It cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LmtuiError(
            f"{path}: the folder cannot be made: {error.strerror}. Set LMTUI_HOME to a folder that can be written"
        ) from error
    return path


def configs() -> Path:
    """Return the folder of saved configs."""
    return _folder(_config() / "configs")


def runs() -> Path:
    """Return the folder of run directories."""
    return _folder(_data() / "runs")


def trash() -> Path:
    """Return the folder that deleted configs and runs are moved to."""
    return _folder(_data() / "trash")


def cache() -> Path:
    """Return the folder of things that can be made again: tiny models, prepared datasets."""
    if os.environ.get("LMTUI_HOME"):
        return _folder(_data() / "cache")
    import platformdirs

    return _folder(Path(platformdirs.user_cache_dir("lmtui", appauthor=False)))


def history() -> Path:
    """Return the file that gains one row per finished point."""
    return _folder(_data()) / "history.csv"


def settings() -> Path:
    """Return the file of the application's settings."""
    return _folder(_config()) / "settings.toml"


def error_log() -> Path:
    """Return the file that keeps the traceback of a bug met by a command or the application."""
    return _folder(_data()) / "error.log"
