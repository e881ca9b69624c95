"""Runs of LMDeploy's real PyTorch engine over the stub executor, in a run process as a user's."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from lmtui.config.model import Config
from lmtui.metrics.result import Result
from lmtui.runner.rundir import RunDirectory, Status
from tests.contract.stub_run import DIE_AFTER, STEP_S


def config(kind: str, model: str, **sections: dict[str, Any]) -> Config:
    """Return a config of 100 requests of 16 + 20 tokens, one warm-up, 8 at once; sections are merged over it."""
    values: dict[str, dict[str, Any]] = {
        "target": {"kind": kind, "model": model},
        "dataset": {"kind": "random", "input_len": 16, "output_len": 20},
        "load": {"concurrency": 8, "num_prompts": 100},
    }
    for name, keys in sections.items():
        values[name] = {**values.get(name, {}), **keys}
    return Config.model_validate({"schema": 1, "name": "contract", **values})


def start(config: Config, *arguments: str) -> tuple[RunDirectory, subprocess.Popen[bytes]]:
    """Start a run whose steps take arguments[0] seconds and whose engine dies after arguments[1] steps."""
    run = RunDirectory.create(config)
    with run.log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.stub_run", str(run.path)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **dict(zip((STEP_S, DIE_AFTER), arguments, strict=False))},
        )
    return run, process


def ended(run: RunDirectory, process: subprocess.Popen[bytes]) -> tuple[int, Status, Result]:
    """Wait for the end of a run; return its exit code, status and result."""
    try:
        code = process.wait(120)
    finally:
        process.kill()
    status, result = run.status(), run.result()
    assert status is not None, run.log_tail()
    assert result is not None, run.log_tail()
    return code, status, result


def performed(config: Config, *arguments: str) -> tuple[RunDirectory, int, Status, Result]:
    """Do a run to its end."""
    run, process = start(config, *arguments)
    return run, *ended(run, process)
