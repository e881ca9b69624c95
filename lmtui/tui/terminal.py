"""What the application asks of the terminal it runs in."""

from __future__ import annotations

import locale
import os
import sys

HUNG_UP = 129
"""The exit code when the terminal is gone: that of a process that SIGHUP ended."""


def let_its_size_count() -> None:
    """Forget COLUMNS and LINES: exported, they would hold the size still when the window changes."""
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)


def is_utf8() -> bool:
    """Tell whether the locale can show more than ASCII."""
    return locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "") == "utf8"


def leave_when_lost() -> None:
    """End when nobody can see this any more; runs go on, they are processes of their own.

    At once: an orderly end would wait for ever to write to the terminal that is gone.
    """
    try:
        os.get_terminal_size(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except OSError:
        os._exit(HUNG_UP)
