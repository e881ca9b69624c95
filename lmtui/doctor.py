"""`lmtui doctor`: what this machine has, and what a config needs of it, each with a remedy."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import platform
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lmtui import __version__, paths
from lmtui.config.engine import LMDEPLOY
from lmtui.config.target import IN_PROCESS
from lmtui.errors import TARGET, LmtuiError
from lmtui.output import print_json

if TYPE_CHECKING:
    from lmtui.config.model import Config

ENGINE_PACKAGES = {"transformers": ("torch", "cpu")}
"""Target kind → the package it needs, and the extra that brings it; LMDeploy's have a preflight of their own."""
SERVER_WITHIN_S = 5.0
"""How long a server that does not answer is waited for; a run waits for one that is starting."""
FEW_FILES = 4096
"""Open files below this limit the number of concurrent streams."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: its name, how it stands, what was found, and what to do."""

    name: str
    state: Literal["ok", "note", "fail"]
    found: str
    remedy: str = ""


def doctor(what: str | None, sets: Sequence[str], *, as_json: bool) -> int:
    """Print the checks; exit with 3 when one of them failed."""
    checks = list(environment())
    if what is not None:
        from lmtui.config import store

        config, notes = store.resolve(what, sets)
        checks += [Check("config", "note", note) for note in notes]
        needed = list(needs(config))
        # The engine's own look at LMDeploy says more than whether it is installed.
        if any(check.name == "lmdeploy" for check in needed):
            checks = [check for check in checks if check.name != "lmdeploy"]
        checks += needed
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            mark = {"ok": "ok  ", "note": "note", "fail": "FAIL"}[check.state]
            print(f"{mark}  {check.name:<12} {check.found}" + (f": {check.remedy}" if check.remedy else ""))
    return TARGET if any(check.state == "fail" for check in checks) else 0


def environment() -> Iterator[Check]:
    """Check what every run needs."""
    yield Check("lmtui", "ok", f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    cores = os.cpu_count() or 1
    yield Check(
        "cores",
        "ok" if cores > 1 else "note",
        str(cores),
        "" if cores > 1 else "the client and a local server share one core: measured latencies will hold both",
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Check(
        "open files",
        "ok" if hard >= FEW_FILES else "note",
        f"{soft} (raised to {hard} in a run)",
        "" if hard >= FEW_FILES else f"at most about {hard - 64} streams at once; raise it with ulimit -Hn",
    )
    yield _folder()
    yield from _gpus()
    for package in ("torch", "transformers", "lmdeploy", "ray"):
        found = importlib.util.find_spec(package) is not None
        yield Check(
            package, "ok" if found else "note", importlib.metadata.version(package) if found else "not installed"
        )


def _folder() -> Check:
    try:
        place = paths.runs()
        free_gib = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize / 2**30
    except LmtuiError as error:
        return Check("data", "fail", str(error))
    except OSError as error:
        return Check("data", "fail", str(error), "set LMTUI_HOME to a folder that can be written")
    if not os.access(place, os.W_OK):
        return Check("data", "fail", f"{place} cannot be written", "set LMTUI_HOME to another folder")
    return Check("data", "ok" if free_gib > 1 else "note", f"{place}, {free_gib:.0f} GiB free")


def _gpus() -> Iterator[Check]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield Check("GPU", "note", f"none ({error})", "CPU engines and remote servers can be measured")
        return
    for i in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(i)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        used_gib, total_gib = memory.used / 2**30, memory.total / 2**30
        yield Check("GPU", "ok", f"{i}: {pynvml.nvmlDeviceGetName(handle)}, {used_gib:.1f} of {total_gib:.1f} GiB used")


def needs(config: Config) -> Iterator[Check]:
    """Check what this config needs: its packages, model, dataset, server."""
    kind = config.target.kind
    if kind in LMDEPLOY or (config.target.python is not None and kind in IN_PROCESS):
        yield from _engine(config)
        return
    package, extra = ENGINE_PACKAGES.get(kind, ("", ""))
    if package and importlib.util.find_spec(package) is None:
        yield Check("target", "fail", f"{kind} needs {package}", f"pip install 'lmtui[{extra}]'")
    elif package:
        yield Check("target", "ok", kind)
    model = config.target.model
    if model and kind != "server" and (model.startswith(("/", ".", "~"))) and not Path(model).expanduser().exists():
        yield Check("model", "fail", f"{model} does not exist", "set target.model to a folder with a config.json")
    if config.dataset.path:
        dataset = Path(config.dataset.path).expanduser()
        readable = dataset.is_file() and os.access(dataset, os.R_OK)
        yield Check(
            "dataset",
            "ok" if readable else "fail",
            f"{dataset}" if readable else f"{dataset} cannot be read",
            "" if readable else "set dataset.path to a file",
        )
    if kind == "server":
        yield _server(config)


def _engine(config: Config) -> Iterator[Check]:
    """Look at an engine's environment: this one, or that of `target.python`."""
    from lmtui.runner import interpreter
    from lmtui.targets import lmdeploy_preflight

    is_lmdeploys = config.target.kind in LMDEPLOY
    try:
        if config.target.python is None:
            found = list(lmdeploy_preflight.findings(config))
        else:
            found = interpreter.findings(config) if is_lmdeploys else []
            (python, *_), _ = interpreter.command(config)
            yield Check("python", "ok", python)
    except LmtuiError as error:
        yield Check("python", "fail", str(error))
        return
    yield from (Check(one.name, one.state, one.found, one.remedy) for one in found)


def _server(config: Config) -> Check:
    """Open the target as a run does: readiness, model, and one request with the run's fields."""
    from lmtui.targets.build import build

    patience_s = min(config.target.ready_timeout_s, SERVER_WITHIN_S)
    brief = config.model_copy(update={"target": config.target.model_copy(update={"ready_timeout_s": patience_s})})

    async def look() -> str:
        target = build(brief)
        try:
            info = await target.open(lambda line: print(f"      {line}", file=sys.stderr))
            return f"{info.model} answers" + "".join(f"; {note}" for note in info.notes)
        finally:
            await target.close()

    try:
        return Check("server", "ok", asyncio.run(look()))
    except LmtuiError as error:
        return Check("server", "fail", str(error))
