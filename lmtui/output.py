"""What commands print: text for any encoding, JSON that loses nothing, and streams that are closed or full."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys

from lmtui.errors import LmtuiError

_SIGNS = "lmtui-signs"
"""The error handler that writes what an encoding lacks in ASCII."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def prepare() -> None:
    """Let nothing that is printed fail for its characters.

    Raises:
        LmtuiError: stdout is closed.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays as long as the process
    if sys.stdout is None:
        raise LmtuiError("stdout is closed, so nothing can be printed; send it somewhere, such as >/dev/null")
    codecs.register_error(_SIGNS, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_SIGNS)


def takes_signs() -> bool:
    """Return whether stdout can hold every sign and any name."""
    encoding = sys.stdout.encoding or ""
    return encoding.lower().replace("-", "").startswith(("utf8", "utf16", "utf32"))


def print_json(value: object) -> None:
    """Print one JSON value on a line; what stdout's encoding lacks is escaped, as JSON can."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    print(text if takes_signs() else _BEYOND_ASCII.sub(_escaped, text))


def is_problem(error: Exception) -> bool:
    """Return whether an error is stdout's, which takes nothing more; then it is given up."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    try:
        print(flush=True)  # what failed was dropped, so only one more line tells
    except OSError:
        give_up()
        return True
    return False


def give_up() -> None:
    """Let what is left for stdout go nowhere, so that the interpreter's own last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    from lmtui.metrics.table import to_ascii

    return to_ascii(error.object[error.start : error.end]), error.end


def _escaped(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
