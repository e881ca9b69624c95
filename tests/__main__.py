"""The one test command: `python3 -m tests`. It sets up its own virtual environment, then checks and tests everything.

    python3 -m tests              everything, fast tests first
    python3 -m tests --fast       without the tests that start engines, servers or terminals

It needs nothing but Python 3.10 or newer with venv. The environment is kept in `.venv-test` and made again only when
`pyproject.toml` or this file changes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-test"
BIN = ENVIRONMENT / "bin"
TORCH = "torch==2.13.0"
"""The contract tests hold LMDeploy beside this one: it pins an older PyTorch."""
LMDEPLOY = ("lmdeploy==0.18.0", "xgrammar==0.2.9")
"""Without their dependencies: those would bring CUDA, Triton and Ray, which nothing here needs."""


def main() -> int:
    """Set up, check, test; return the first exit status that is not 0."""
    os.chdir(ROOT)
    set_up()
    slow_too = "--fast" not in sys.argv[1:]
    steps: list[list[str]] = [
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy"],
        ["lint-imports"],
        ["pytest", "-m", "not slow"],
        *([["pytest", "-m", "slow"]] if slow_too else []),
    ]
    for step in steps:
        print(f"\n== {' '.join(step)}", flush=True)
        started = time.monotonic()
        status = subprocess.run([str(BIN / step[0]), *step[1:]], env=environment()).returncode
        print(f"== {step[0]} took {time.monotonic() - started:.0f} s", flush=True)
        if status:
            return status
    return 0


def environment() -> dict[str, str]:
    """Return the environment of the steps: no model hub, no user's own settings."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}


def set_up() -> None:
    """Make the virtual environment, unless one of the same recipe is there."""
    recipe = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + Path(__file__).read_bytes() + sys.version.encode()
    ).hexdigest()
    mark = ENVIRONMENT / "recipe"
    if mark.exists() and mark.read_text() == recipe:
        return
    print(f"== setting up {ENVIRONMENT.name}: a few minutes the first time", flush=True)
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, TORCH, "-e", ".[cpu,test]"], check=True)
    subprocess.run([*pip, "--no-deps", *LMDEPLOY], check=True)
    mark.write_text(recipe)


if __name__ == "__main__":
    raise SystemExit(main())
