"""Real run processes: their ends, good and bad."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from lmtui import paths
from lmtui.config.model import Config
from lmtui.errors import BUG, INTERRUPTED, NO_RESULT, TARGET, USAGE, LmtuiError
from lmtui.results import history
from lmtui.runner import machine, runs, spawn
from lmtui.runner.rundir import RunDirectory, Status
from tests.runner.harness import config

pytestmark = pytest.mark.slow

REAL = {"kind": "simulated", "clock": "real", "step_ms": 5.0, "step_ms_per_seq": 0.0, "prefill_tokens_per_s": 1e6}
ENDLESS = {"concurrency": 4, "num_prompts": 100_000, "warmup_requests": 0}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait(run: RunDirectory, true: Callable[[Status], bool], seconds: float = 60.0) -> Status:
    give_up_at = time.monotonic() + seconds
    while True:
        status = run.status()
        if status is not None and true(status):
            return status
        assert time.monotonic() < give_up_at, (status, run.log_tail())
        time.sleep(0.01)


def wait_end(run: RunDirectory) -> Status:
    status = wait(run, lambda status: status.is_final)
    give_up_at = time.monotonic() + 60
    while machine.process_started(status.pid) is not None:
        assert time.monotonic() < give_up_at, "the process goes on after its final status"
        time.sleep(0.01)
    return status


def is_under_way(status: Status) -> bool:
    return status.phase == "running" and status.counts.done > 0


def rows(run: RunDirectory) -> list[str]:
    return [row.text("phase") or "" for row in history.read(paths.history()) if row.text("run_id") == run.run_id]


def odd(started: list[subprocess.Popen[bytes]], what: str, **sections: dict[str, object]) -> RunDirectory:
    run = RunDirectory.create(config(**{"target": REAL, **sections}))
    with run.log_path.open("wb") as log:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.runner.odd_process", str(run.path), what],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        )
    return run


def planned_is_the_sum(run: RunDirectory) -> None:
    result = run.result()
    status = run.status()
    assert result is not None
    assert status is not None
    assert sum(result.outcomes.values()) == status.counts.planned


def test_a_run_from_start_to_end() -> None:
    run = spawn.start(config(), ["a note"])
    status = wait_end(run)
    result = run.result()
    assert result is not None
    assert (status.phase, status.exit_code, status.message) == ("done", 0, "")
    assert (status.counts.planned, status.counts.ok, status.counts.in_flight) == (20, 20, 0)
    assert (result.phase, result.simulated, result.outcomes["ok"]) == ("done", True, 20)
    assert "a note" in result.notes
    assert result.environment["cores"] >= 1
    assert rows(run) == ["done"]
    assert status.started_at.endswith("Z")
    assert run.log_tail() == ""
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert os.getsid(0) != status.pid
    planned_is_the_sum(run)


def test_the_run_process_leads_a_session_of_its_own_and_a_hangup_does_not_reach_it() -> None:
    code = (
        "import sys, os, signal; from tests.runner.harness import config; from tests.runner.test_process import *; "
        "run = spawn.start(config(target=REAL, load=ENDLESS)); print(run.path, flush=True); "
        "os.killpg(0, signal.SIGHUP)"
    )
    viewer = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True, check=False
    )
    assert viewer.returncode == -signal.SIGHUP
    run = RunDirectory(Path(viewer.stdout.strip()))
    status = wait(run, is_under_way)
    assert os.getsid(status.pid) == status.pid
    done = status.counts.done
    wait(run, lambda status: status.counts.done > done)
    runs.stop(run, abort=True)
    assert wait_end(run).phase == "stopped"


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_stop_drains_and_keeps(clock: str) -> None:
    run = spawn.start(config(target={**REAL, "clock": clock}, load=ENDLESS))
    wait(run, is_under_way)
    runs.stop(run)
    status = wait_end(run)
    result = run.result()
    assert result is not None
    assert (status.phase, status.exit_code, result.phase) == ("stopped", INTERRUPTED, "stopped")
    assert result.outcomes["aborted"] == 0
    assert result.outcomes["ok"] == status.counts.ok > 0
    planned_is_the_sum(run)
    assert rows(run) == ["stopped"]
    runs.stop(run)  # nothing is left to stop


def test_abort_cuts() -> None:
    slow = {**REAL, "step_ms": 500.0}
    run = spawn.start(config(target=slow, load=ENDLESS))
    wait(run, lambda status: status.phase == "running" and status.counts.in_flight == 4)
    runs.stop(run, abort=True)
    status = wait_end(run)
    result = run.result()
    assert result is not None
    assert (status.phase, status.exit_code, status.message) == ("stopped", INTERRUPTED, "aborted")
    assert (result.outcomes["aborted"], result.outcomes["ok"]) == (4, 0)
    planned_is_the_sum(run)


def test_a_second_stop_changes_nothing_and_a_second_signal_aborts() -> None:
    slow = {**REAL, "step_ms": 300.0}
    run = spawn.start(config(target=slow, load=ENDLESS))
    pid = wait(run, lambda status: status.phase == "running" and status.counts.in_flight == 4).pid
    runs.stop(run)
    assert not wait(run, lambda status: status.phase == "draining").is_final
    wait(run, lambda status: status.is_told_to_stop)
    runs.stop(run)
    runs.stop(run)
    status = wait_end(run)
    assert (status.phase, status.message, status.counts.ok) == ("stopped", "", 4)

    run = spawn.start(config(target=slow, load=ENDLESS))
    pid = wait(run, lambda status: status.phase == "running" and status.counts.in_flight == 4).pid
    os.kill(pid, signal.SIGTERM)
    wait(run, lambda status: status.is_told_to_stop)
    os.kill(pid, signal.SIGTERM)
    assert wait_end(run).message == "aborted"


def test_a_killed_run_is_lost_and_settled_once_by_many_viewers() -> None:
    run = spawn.start(config(target=REAL, load=ENDLESS))
    status = wait(run, is_under_way)
    wait(run, lambda _: run.ticks_path(0).stat().st_size > 4000)
    os.kill(status.pid, signal.SIGKILL)
    give_up_at = time.monotonic() + 30
    while run.phase() != "lost":
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    code = "import sys; from pathlib import Path; from lmtui.runner import runs; from lmtui.runner.rundir import *; "
    code += "print(runs.current(RunDirectory(Path(sys.argv[1]))).phase)"
    viewers = [
        subprocess.Popen([sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: runs.settle(run), range(4)))
    assert [viewer.communicate()[0].strip() for viewer in viewers] == ["lost"] * 2
    assert {status.phase for status in found} == {"lost"}
    result = run.result()
    assert result is not None
    assert (result.phase, rows(run)) == ("lost", ["lost"])
    assert result.outcomes["ok"] > 0
    assert 0 < result.outcomes["aborted"] <= 4
    assert sum(result.outcomes.values()) == 100_000
    assert "kept" in found[0].message


def test_a_missing_gpu_is_told_before_the_plan_is_drawn() -> None:
    target = {"kind": "pytorch", "model": "no/such-model", "env": {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}}
    run = spawn.start(Config.model_validate({**config().model_dump(by_alias=True), "target": target}))
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("failed", TARGET)
    assert "NVIDIA driver is missing" in status.message or "No GPU is visible" in status.message
    assert "tokenizer" not in status.message


def test_a_run_of_another_host_is_lost_by_silence_and_never_signalled() -> None:
    run = spawn.start(config())
    status = wait_end(run)
    elsewhere = msgspec.structs.replace(status, host="elsewhere", phase="running", pid=1, heartbeat=time.time())
    run.write_status(elsewhere)
    assert run.phase() == "running"
    with pytest.raises(LmtuiError, match="runs on host elsewhere"):
        runs.stop(run)
    run.write_status(msgspec.structs.replace(elsewhere, heartbeat=time.time() - 31))
    assert run.phase() == "lost"


@pytest.mark.parametrize(
    ("what", "phase", "code", "message"),
    [
        ("no-target", "failed", TARGET, "no engine here: install it"),
        ("bug-at-load", "failed", BUG, "a bug: ZeroDivisionError: oops; traceback in "),
        ("exit-at-load", "failed", BUG, "a bug: SystemExit: 7; traceback in "),
        ("bug-at-close", "done", 0, ""),
        ("blocked-close", "done", 0, ""),
    ],
)
def test_odd_targets(started: list[subprocess.Popen[bytes]], what: str, phase: str, code: int, message: str) -> None:
    run = odd(started, what)
    status = wait_end(run)
    assert (status.phase, status.exit_code) == (phase, code)
    assert status.message.startswith(message)
    assert ("Traceback" in run.log_tail()) == (what in ("bug-at-load", "bug-at-close", "exit-at-load"))
    assert rows(run) == [phase]
    planned_is_the_sum(run)


@pytest.mark.parametrize("what", ["slow-load", "blocked-load"])
def test_stop_while_loading(started: list[subprocess.Popen[bytes]], what: str) -> None:
    run = odd(started, what)
    status = wait(run, lambda status: status.message == "loading weights")
    beat = status.heartbeat
    wait(run, lambda status: status.heartbeat > beat)  # it beats while the loop is blocked
    runs.stop(run)
    status = wait_end(run)
    result = run.result()
    assert result is not None
    assert (status.phase, status.exit_code) == ("stopped", INTERRUPTED)
    assert (result.phase, result.outcomes["dropped"], result.metrics.completed) == ("stopped", 20, 0)
    assert rows(run) == ["stopped"]


def test_too_many_errors(started: list[subprocess.Popen[bytes]]) -> None:
    broken = {**REAL, "kv_tokens": 20}
    run = spawn.start(
        config(target=broken, dataset={"input_len": 30}, load={"num_prompts": 50}, limits={"max_errors": 5})
    )
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("failed", NO_RESULT)
    assert "limits.max_errors = 5" in status.message
    planned_is_the_sum(run)


def test_no_ok_request() -> None:
    broken = {**REAL, "kv_tokens": 20}
    run = spawn.start(config(target=broken, dataset={"input_len": 30}, load={"num_prompts": 8}))
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("done", NO_RESULT)
    assert status.message.startswith("no request was ok: ")


def test_a_config_that_cannot_be_drawn_fails_with_one_sentence() -> None:
    run = spawn.start(config(dataset={"kind": "sharegpt", "path": "/nowhere/x.json"}))
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("failed", 2)
    assert "/nowhere/x.json" in status.message
    assert rows(run) == ["failed"]


def test_a_disk_that_takes_nothing_more_does_not_end_the_run(
    started: list[subprocess.Popen[bytes]], home: Path
) -> None:
    """The kernel's limit on the size of files stands for the full disk: the tick log stops growing at it."""
    run = RunDirectory.create(config(target=REAL, load={"num_prompts": 400, "concurrency": 16}))
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY)); "
    code += "from lmtui.runner import process; sys.exit(process.main())"
    with run.log_path.open("wb") as log:
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", code, str(run.path)], stdout=log, stderr=log, start_new_session=True
            )
        )
    wait(run, lambda status: "cannot write" in status.message)
    status = wait_end(run)
    result = run.result()
    assert result is not None
    assert status.counts.ok == 400
    assert any("batches of the tick log are lost" in note for note in result.notes)
    assert (status.phase, status.exit_code) == ("failed", USAGE)
    assert "only a part of what was measured is kept: cannot write " in status.message
    assert "File too large" in status.message
    assert 0 < result.outcomes["ok"] < 400
    assert sum(result.outcomes.values()) == 400


def full_writes(number: str) -> str:
    """Return code whose `write_whole` fails from its n-th call on, and until the reserve is given up."""
    return f"""
import sys
from lmtui.runner import process, rundir
real, calls = rundir.write_whole, []
def full(path, data):
    calls.append(path)
    if len(calls) >= {number} and (path.parent / ".reserve").exists():
        raise OSError(28, "No space left on device")
    real(path, data)
rundir.write_whole = full
sys.exit(process.main())
"""


def test_a_run_ends_whole_on_a_full_disk_since_it_kept_room(started: list[subprocess.Popen[bytes]]) -> None:
    run = RunDirectory.create(config(target=REAL, load={"num_prompts": 40, "concurrency": 16}))
    with run.log_path.open("wb") as log:
        started.append(
            subprocess.Popen([sys.executable, "-c", full_writes("2"), str(run.path)], stdout=log, stderr=log)
        )
    started[-1].wait(60)
    status = run.status()
    assert status is not None
    assert (status.phase, status.counts.ok) == ("done", 40)
    assert run.result() is not None
    assert rows(run) == ["done"]
    assert not (run.path / ".reserve").exists()


def test_a_run_whose_first_status_cannot_be_written_ends_at_once_with_a_sentence(
    started: list[subprocess.Popen[bytes]],
) -> None:
    run = RunDirectory.create(config(target=REAL))
    (run.path / ".reserve").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", full_writes("1"), str(run.path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == USAGE
    assert done.stderr.startswith(f"{run.path}: cannot be written: No space left on device. Make room")
    assert done.stderr.count("\n") == 1


def test_a_process_that_dies_at_once_is_told_with_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(LmtuiError, match="did not start"):
        spawn.start(config())
    (run,) = runs.all_runs()
    assert runs.current(run).phase == "failed"


def test_reapers_leave_no_zombie() -> None:
    run = spawn.start(config())
    wait_end(run)
    give_up_at = time.monotonic() + 30
    while any(thread.name == f"reaper of {run.run_id}" for thread in threading.enumerate()):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
