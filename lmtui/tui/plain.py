"""Text of others (servers, logs, names) made safe to show: its escape codes and control characters are taken out."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS and their kind, with their text
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|\x9b[0-?]*[ -/]*[@-~]",
    re.DOTALL,
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def plain(text: str) -> str:
    """Return `text` without escape codes, control and direction characters; tabs are spaces, newlines stay."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", text.expandtabs(4))


def line(text: str) -> str:
    """Return `text` as `plain` does, on one line."""
    return " ".join(plain(text).split("\n"))


def log_lines(text: str) -> list[str]:
    """Return the lines of a log; of a line that was redrawn with carriage returns (a progress bar) the last state."""
    return [plain(one.rstrip("\r").rpartition("\r")[2]) for one in text.split("\n")]


def cell(text: str, width: int, *, right: bool = False) -> str:
    """Return `text` as exactly `width` cells; what does not fit is cut and ends with `…`."""
    length = cell_len(text)
    if length <= width:
        return " " * (width - length) + text if right else text + " " * (width - length)
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1) + "…"


_ASCII = str.maketrans(
    {
        "–": "-",
        "—": "-",
        "─": "-",
        "━": "-",
        "│": "|",
        "┃": "|",
        "…": "~",
        "●": "*",
        "○": "o",
        "•": "*",
        "·": ".",
        "×": "x",
        "▲": "^",
        "▼": "v",
        "▶": ">",
        "◀": "<",
        "←": "<",
        "→": ">",
        "↑": "^",
        "↓": "v",
        "█": "#",
        "░": ".",
        "▌": "|",
        "▎": "|",
        "▏": "|",
        "▊": "|",
        "✓": "+",
        "≤": "<",
        "≥": ">",
    }
)


def to_ascii(text: str) -> str:
    """Return `text` in ASCII alone and as wide as before; what has no likeness is `?`."""
    if text.isascii():
        return text
    text = text.translate(_ASCII)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in text)
