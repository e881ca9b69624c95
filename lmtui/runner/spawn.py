"""Starting a run: its directory, and its process in a session of its own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmtui.config.engine import LMDEPLOY
from lmtui.errors import ConfigError, LmtuiError
from lmtui.runner import interpreter, machine, reaper, succession
from lmtui.runner.rundir import LIVE_PHASES, RunDirectory, Status, takes_nothing
from lmtui.runner.succession import KEEP
from lmtui.targets.engine_environment import variables
from lmtui.targets.reuse import why_anew

if TYPE_CHECKING:
    from lmtui.config.model import Config

PROCESS = "lmtui.runner.process"
POLL_S = 0.005
START_S = 60.0
END_S = 45.0
"""A kept process has this long to close its engine: a little more than it gives itself."""


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
    command = _command(config)
    run = RunDirectory.create(config)
    _started(run, config, command, notes, subprocess.DEVNULL)
    return run


class Series:
    """Runs one after another, which share a loaded engine as long as it serves them: a context.

    The engine's process lives until the series is left, and closes the engine then; also when this process dies. A run
    that is still going on then is not touched: it ends as any other, and its engine with it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._last: tuple[RunDirectory, Config] | None = None

    def __enter__(self) -> Series:
        return self

    def __exit__(self, *error: object) -> None:
        """Wait until the engine is closed and its process gone, so that the GPU is free."""
        self._end()

    def start(self, config: Config, notes: Sequence[str] = (), *, is_last: bool = False) -> RunDirectory:
        """Start a run as `start` does, once the one before has ended.

        Args:
            config: What to run.
            notes: Sentences for the result.
            is_last: Whether no other follows: the engine is closed before the run is over, as that of any single run.

        Raises:
            ConfigError, LmtuiError: As `start` does.
        """
        anew = self._why_anew(config)
        keeps = not is_last and not why_anew(config, config)
        if self._process is not None and not anew:
            run = RunDirectory.create(config)
            if self._handed_over(run, notes, keeps):
                self._last = (run, config)
                return run
            anew = "the process that held it has ended"
        else:
            run = None
        self._end()
        command = _command(config)
        if self._last is not None and config.target.kind in LMDEPLOY:
            notes = (*notes, f"The engine was loaded anew for this run: {anew}.")
        run = RunDirectory.create(config) if run is None else run
        process = _started(run, config, command, notes, subprocess.PIPE if keeps else subprocess.DEVNULL)
        self._process, self._last = process if keeps else None, (run, config)
        return run

    def _why_anew(self, config: Config) -> str:
        """Say why the next run needs an engine of its own, with the run before in view."""
        if self._last is None:
            return ""
        run, before = self._last
        if run.phase() in LIVE_PHASES:
            raise RuntimeError(f"{run.run_id} has not ended")
        status = run.status()
        if status is None or (status.phase, status.exit_code) != ("done", 0):
            return "the run before did not go well"
        return why_anew(before, config)

    def _handed_over(self, run: RunDirectory, notes: Sequence[str], keeps: bool) -> bool:
        """Name the run to the process; return whether it took it."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(succession.line(run, notes, keeps=keeps))
        except BrokenPipeError:
            return False
        return _has_begun(run, self._process)

    def _end(self) -> None:
        """End the process, unless its run goes on, and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert self._last is not None
        process.stdin.close()
        if self._last[0].phase() in LIVE_PHASES:
            return
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if machine.process_started(process.pid) is None:  # else another session has its number
            reaper.end(process.pid)


def _command(config: Config) -> tuple[list[str], dict[str, str]]:
    """Return the interpreter's command for a run, and the environment of its process. Raises ConfigError."""
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
    return python, {**variables(config), **os.environ, **config.target.env, **path, "PYTHONUNBUFFERED": "1"}


def _started(
    run: RunDirectory, config: Config, command: tuple[list[str], dict[str, str]], notes: Sequence[str], stdin: int
) -> subprocess.Popen[bytes]:
    """Start the process of a run; stdin is a pipe when its engine is to be kept. Raises LmtuiError."""
    python, environment = command
    keep = [KEEP] if stdin == subprocess.PIPE else []
    log = os.open(run.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [*python, "-m", PROCESS, *keep, str(run.path), *notes],
            stdin=stdin,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            bufsize=0,
        )
    finally:
        os.close(log)
    if not _has_begun(run, process):
        if process.stdin is not None:
            process.stdin.close()
        tail = run.log_tail().strip() or "nothing was printed"
        message = f"the run process did not start (exit code {process.returncode})"
        try:
            _mark_failed(run, process.pid, config, message)
        except OSError as error:
            raise takes_nothing(run.path, error) from error
        raise LmtuiError(f"{message}; the end of {run.log_path}:\n{tail}")
    # Whoever started the run may live long after it: without this its process would stay as a zombie.
    threading.Thread(target=process.wait, name=f"reaper of {run.run_id}", daemon=True).start()
    return process


def _has_begun(run: RunDirectory, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a run has a status; False: its process has ended before, or says nothing."""
    deadline = time.monotonic() + START_S
    while not run.status_path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


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
