"""Another interpreter for the run process: the environment that has the engine, which lmtui is lent to.

Only lmtui's own code is lent, by a folder that holds a link to it and nothing else, last on the interpreter's
`PYTHONPATH`; every other package is that environment's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import lmtui
from lmtui import paths
from lmtui.errors import ConfigError
from lmtui.targets.finding import Finding

if TYPE_CHECKING:
    from lmtui.config.model import Config

OLDEST = (3, 10)
ASK_S = 60.0
PACKAGES = {
    "numpy": "numpy",
    "msgspec": "msgspec",
    "pydantic": "pydantic",
    "tomlkit": "tomlkit",
    "platformdirs": "platformdirs",
    "transformers": "transformers",
    "pynvml": "nvidia-ml-py",
}
"""Modules that a run process imports besides its engine → the packages that bring them."""

_ASK = """
import importlib.util, json, sys
names = json.loads(sys.argv[1])
lacking = [name for name in names if importlib.util.find_spec(name) is None]
print(json.dumps([list(sys.version_info[:2]), lacking]))
"""

_LOOK = """
import dataclasses, json, sys
from lmtui.config import store
from lmtui.targets.lmdeploy_preflight import findings
config, _ = store.resolve(sys.argv[1])
print(json.dumps([dataclasses.asdict(finding) for finding in findings(config)]))
"""


def command(config: Config) -> tuple[list[str], dict[str, str]]:
    """Return the command of `target.python`, and the environment variables that lend lmtui to it.

    Raises:
        ConfigError: It is no interpreter, is too old, or lacks packages, which are named.
    """
    given = config.target.python
    assert given is not None
    python = _resolved(given)
    packages = dict(PACKAGES)
    if config.request.uvloop:
        packages["uvloop"] = "uvloop"
    version, lacking = _asked(given, python, list(packages))
    if version < OLDEST:
        raise ConfigError(
            f"target.python = {given!r} is Python {_dotted(version)}: lmtui needs {_dotted(OLDEST)} or newer."
        )
    if version < (3, 11) and _asked(given, python, ["tomli"])[1]:
        lacking, packages = [*lacking, "tomli"], {**packages, "tomli": "tomli"}
    if lacking:
        names = " ".join(packages[name] for name in lacking)
        raise ConfigError(f"target.python = {given!r} lacks packages that a run needs: {python} -m pip install {names}")
    before = config.target.env.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
    path = os.pathsep.join(part for part in (before, str(_lent())) if part)
    return [python, *(["-P"] if version >= (3, 11) else [])], {"PYTHONPATH": path}


def findings(config: Config) -> list[Finding]:
    """Return what the preflight of an LMDeploy engine finds in the environment of `target.python`.

    Raises:
        ConfigError: It cannot run lmtui.
    """
    python, path = command(config)
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(config.to_toml())
        file.flush()
        environment = {**os.environ, **config.target.env, **path}
        done = subprocess.run(
            [*python, "-c", _LOOK, file.name], capture_output=True, text=True, timeout=ASK_S, env=environment
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise ConfigError(f"target.python = {config.target.python!r} cannot run lmtui ({last}).")
    return [Finding(**found) for found in json.loads(done.stdout)]


def _resolved(given: str) -> str:
    path = Path(given).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"  # the environment's folder is meant
    found = shutil.which(str(path))
    if found is None:
        raise ConfigError(f"target.python = {given!r} is no interpreter: give the path of an environment's bin/python.")
    return found


def _asked(given: str, python: str, names: list[str]) -> tuple[tuple[int, ...], list[str]]:
    """Ask the interpreter for its version, and which of the modules it lacks."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK, json.dumps(names)], capture_output=True, text=True, timeout=ASK_S, cwd="/"
        )
        version, lacking = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise ConfigError(f"target.python = {given!r} does not answer as a Python interpreter: {error}.") from error
    return tuple(version), lacking


def _lent() -> Path:
    """Return a folder that holds nothing but a link to this lmtui; made once."""
    package = Path(lmtui.__file__).resolve().parent
    folder = paths.cache() / f"lent-{hashlib.sha256(os.fsencode(package)).hexdigest()[:12]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "lmtui").symlink_to(package, target_is_directory=True)
    return folder


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
