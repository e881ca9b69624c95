"""Errors the user can act on: one sentence of what, why and what to do next, and an exit code."""

from __future__ import annotations

BUG, USAGE, TARGET, NO_RESULT, VERDICT, INTERRUPTED = 1, 2, 3, 4, 5, 130


class LmtuiError(Exception):
    """Something the user can mend. Its text is shown as it is; everything else is a bug and may traceback."""

    exit_code = USAGE


class ConfigError(LmtuiError):
    """A key, a value or a file of the user's that cannot be used; the text names the key, the value and the remedy."""


class DatasetError(LmtuiError):
    """The dataset cannot be read, or holds too few usable requests; the text has the counts."""


class TargetError(LmtuiError):
    """The target could not be opened, or died: a missing extra, no connection, a refused request, a lost engine."""

    exit_code = TARGET


class RunNotFoundError(LmtuiError):
    """No run, or more than one, answers to the name given."""
