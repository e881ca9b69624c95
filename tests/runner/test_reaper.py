"""What a run's process started ends with it: after its end, and when it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmtui.errors import TARGET
from lmtui.runner import machine, reaper, runs
from lmtui.runner.rundir import RunDirectory
from tests.runner.harness import config

pytestmark = pytest.mark.slow

ASLEEP = "import time; print(flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))


FEW = {"num_prompts": 20}


def start(end: str) -> tuple[RunDirectory, int]:
    """Perform a run whose target leaves a deaf child; return its directory and exit code once it is over."""
    run = RunDirectory.create(config(target={"kind": "transformers", "clock": "real"}, load=FEW))
    with run.log_path.open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "tests.runner.stray", str(run.path), end],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return run, done.returncode


def gone(pid: int) -> bool:
    give_up_at = time.monotonic() + 30
    while machine.process_started(pid) is not None:
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.01)
    return True


def test_a_deaf_child_in_a_group_of_its_own_ends_with_the_run() -> None:
    run, code = start("close")
    status = run.status()
    assert status is not None
    assert (status.phase, code) == ("done", 0), run.log_tail()
    assert gone(int((run.path / "stray").read_text()))


def test_what_a_run_leaves_when_its_engine_aborts_is_ended_and_the_cause_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run, code = start("die")
    assert code == -signal.SIGABRT
    stray = int((run.path / "stray").read_text())
    assert machine.process_started(stray) is not None
    monkeypatch.setattr(reaper.end, "__defaults__", (0.2,))
    status = runs.settle(run)
    assert gone(stray)
    assert status.phase == "lost"
    assert status.exit_code == TARGET
    assert status.message == "the run process is gone (CUDA error: out of memory); what it wrote is kept"


def test_a_process_that_leads_no_session_ends_nobody() -> None:
    code = "from lmtui.runner import reaper; print(reaper.end_own())"
    child = subprocess.Popen([sys.executable, "-c", ASLEEP], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()
