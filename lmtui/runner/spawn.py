"""Starting a run: its directory, and its process in a session of its own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmtui.errors import ConfigError, LmtuiError
from lmtui.runner import interpreter, machine
from lmtui.runner.rundir import RunDirectory, Status, takes_nothing
from lmtui.targets.engine_environment import variables

if TYPE_CHECKING:
    from lmtui.config.model import Config

POLL_S = 0.005
START_S = 60.0


def start(config: Config, notes: Sequence[str] = ()) -> RunDirectory:
    """Start a run and return its directory as soon as the run process has written its status.

    The process is the leader of a session of its own, so that no terminal's end reaches it; what it and native code in
    it print goes to the run's log; it reads nothing.

    Args:
        config: What to run.
        notes: Sentences about what was done on the user's behalf so far; the result keeps them.

    Raises:
        ConfigError: It asks for two runs (`guided.baseline`), or `target.python` cannot run lmtui; what is missing
            there is named.
        LmtuiError: The process ended at once; the text has the end of its log.
    """
    from lmtui.config.guiding import pair

    if pair(config) is not None:
        raise ConfigError(
            "guided.baseline = true asks for two runs of the same plan: `lmtui run` does both and compares them; "
            "set it to false for the guided one alone."
        )
    python = machine.python()
    path: dict[str, str] = {}
    if config.target.python is not None:
        python, path = interpreter.command(config)
    run = RunDirectory.create(config)
    environment = {**variables(config), **os.environ, **config.target.env, **path, "PYTHONUNBUFFERED": "1"}
    log = os.open(run.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [*python, "-m", "lmtui.runner.process", str(run.path), *notes],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )
    finally:
        os.close(log)
    _wait_for_status(run, process, config)
    return run


def _wait_for_status(run: RunDirectory, process: subprocess.Popen[bytes], config: Config) -> None:
    deadline = time.monotonic() + START_S
    while not run.status_path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = run.log_tail().strip() or "nothing was printed"
            message = f"the run process did not start (exit code {process.returncode})"
            try:
                _mark_failed(run, process.pid, config, message)
            except OSError as error:
                raise takes_nothing(run.path, error) from error
            raise LmtuiError(f"{message}; the end of {run.log_path}:\n{tail}")
        time.sleep(POLL_S)
    # Whoever started the run may live long after it: without this its process would stay as a zombie.
    threading.Thread(target=process.wait, name=f"reaper of {run.run_id}", daemon=True).start()


def _mark_failed(run: RunDirectory, pid: int, config: Config, message: str) -> None:
    now = time.time()
    run.write_status(
        Status(
            run_id=run.run_id,
            name=config.name,
            phase="failed",
            pid=pid,
            pid_started=None,
            host=machine.host(),
            boot_id=machine.boot_id(),
            heartbeat=now,
            started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            message=message,
            target_kind=config.target.kind,
            exit_code=1,
        )
    )
