"""The machine and its processes: names to tell them by, and facts for the result."""

from __future__ import annotations

import os
import platform
import socket
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import lmtui

PACKAGES = ("numpy", "transformers", "tokenizers", "torch", "lmdeploy", "uvloop", "httptools", "triton", "accelerate")
"""Packages whose version is told when the run has loaded them."""


@cache
def host() -> str:
    """Return the machine's name."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """Return what the kernel calls this boot; "" where it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def process_started(pid: int) -> int | None:
    """Return when a process started, in kernel ticks since boot; None when it is gone (a zombie is)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything, also spaces and parentheses.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def python() -> list[str]:
    """Return the command of this interpreter, which imports from the working folder only if this process does so, too.

    Who measures from a checkout of an engine's source means the installed engine, as this process would find it.
    """
    if sys.version_info < (3, 11) or {"", str(Path.cwd())} & set(sys.path):
        return [sys.executable]
    return [sys.executable, "-P"]


def environment() -> dict[str, Any]:
    """Return the facts about machine and software that a result keeps; no variable of the environment is among them."""
    return {
        "host": host(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "lmtui": lmtui.__version__,
        "packages": {name: version for name in PACKAGES if name in sys.modules and (version := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
