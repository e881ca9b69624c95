"""What an engine's log tells: why it died, and how far its loading is. Pure text in, one line out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

TAIL_BYTES = 64 * 1024
MOST_CHARS = 300
"""Longest line that is shown to a person."""

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FATAL = re.compile(r"\[TM\]\[FATAL\](?:\[[^\]]*\])?\s*(.+)")
_CHECK_FAILED = re.compile(r"<(\w+)> (?:check|test) failed!\s*(.*)")
_EXCEPTION = re.compile(r"^(?:[\w]+\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Exit|OutOfMemory)\w*)(?::\s*(.*))?$")
_LOGGED_ERROR = re.compile(r"- lmdeploy - (?:ERROR|CRITICAL) - [\w.]+:\d+ - (.*)$")
_SIGNAL = re.compile(r"^(?:Fatal Python error: (.*)|terminate called .*|(Segmentation fault.*))$")
_NEVER_A_CAUSE = ("CancelledError", "KeyboardInterrupt", "SystemExit", "BrokenProcessPool", "GeneratorExit")

_BAR = re.compile(r"^\s*(?P<what>[^|]*?):?\s*(?P<share>\d{1,3})%\|[^|]*\|\s*(?P<count>\d+/\d+)?")
_LMDEPLOY_LINE = re.compile(r"- lmdeploy - [A-Z]+ - [\w.]+:\d+ - (.*)$")
_PHASES = (
    ("Building Model", "building the model"),
    ("Loading weights", "loading weights"),
    ("Updating configs", "sizing the KV cache"),
    ("Building GraphRunner", "preparing CUDA graphs"),
    ("Building CacheEngine", "allocating the KV cache"),
    ("Warming up model", "warming the engine up"),
    ("Capturing", "capturing CUDA graphs"),
    ("capture", "capturing CUDA graphs"),
    ("turbomind engine config", "building the engine"),
    ("Build <", "starting the executor"),
    ("Waiting for placement group", "waiting for Ray to give the GPUs"),
)
"""Beginning (or part) of a line of LMDeploy → words of the loading line."""


def cause(log: str) -> str:
    """Return the line that tells best why an engine died; "" when none does.

    In this order: TurboMind's last FATAL line, the last exception of a traceback, an environment check that failed,
    the last error that LMDeploy logged, what the interpreter said when a signal ended it.
    """
    lines = _lines(log)
    fatal = exception = check = logged = signal = ""
    for number, line in enumerate(lines):
        if found := _FATAL.search(line):
            fatal = found[1]
        elif found := _EXCEPTION.match(line):
            if found[1] not in _NEVER_A_CAUSE:
                exception = line
        elif found := _CHECK_FAILED.search(line):
            said = found[2] or (lines[number + 1].strip() if number + 1 < len(lines) else "")
            check = f"LMDeploy's check of {found[1]} failed: {said}".rstrip(": ")
        elif found := _LOGGED_ERROR.search(line):
            logged = found[1] or logged
        elif found := _SIGNAL.match(line):
            signal = line
    return (fatal or exception or check or logged or signal).strip()[:MOST_CHARS]


def loading_line(log: str) -> str:
    """Return the words for what the end of a log says about loading: a bar of tqdm's, or a phase; "" for neither."""
    for line in reversed(_lines(log)):
        if bar := _BAR.match(line):
            what = bar["what"].strip() or "loading"
            count = f" ({bar['count']})" if bar["count"] else ""
            return f"{what[0].lower()}{what[1:]} {bar['share']}%{count}"[:MOST_CHARS]
        said = found[1] if (found := _LMDEPLOY_LINE.search(line)) else line
        for part, words in _PHASES:
            if part in said:
                return words
    return ""


def own_tail() -> str:
    """Return the end of what this process wrote to its stderr; "" when that is no file."""
    try:
        with open("/proc/self/fd/2", "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _lines(log: str) -> list[str]:
    return list(_shown(log))


def _shown(log: str) -> Iterator[str]:
    """Yield lines as a terminal would show them: without escapes, and of a line that was rewritten the last state."""
    for line in log.split("\n"):
        states = [state for state in _ESCAPE.sub("", line).split("\r") if state.strip()]
        if states:
            yield states[-1].rstrip()
