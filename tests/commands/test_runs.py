"""The commands end to end, in processes of their own: run, detach, stop, listings, exit codes, pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lmtui.runner import runs
from lmtui.runner.rundir import RunDirectory
from tests.runner.harness import config

pytestmark = pytest.mark.slow

VIRTUAL = ["--set", "target.clock=virtual", "--set", "load.num_prompts=60"]
"""The simulated engine in a fraction of a second."""
LONG = ["--set", "load.num_prompts=100000", "--set", "limits.grace_s=5"]
"""The simulated engine for longer than any test."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


def lmtui(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "lmtui", *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


def run_json(*arguments: str) -> dict[str, Any]:
    """Run a config and return the object it prints."""
    done = lmtui("run", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    return result


def test_a_run_prints_one_object_and_is_kept(home: Path) -> None:
    result = run_json("simulated", *VIRTUAL)
    assert result["phase"] == "done"
    assert result["outcomes"]["ok"] == result["metrics"]["completed"] == 60
    assert result["simulated"] is True
    assert json.loads(lmtui("show", "last", "--json").stdout) == result
    (row,) = json.loads(lmtui("results", "--json").stdout)
    assert row["run_id"] == result["run_id"]
    assert float(row["ttft_ms.p50"]) == pytest.approx(result["metrics"]["ttft_ms"]["p50"])
    (listed,) = json.loads(lmtui("runs", "--json").stdout)
    assert (listed["phase"], listed["done"]) == ("done", 60)
    assert lmtui("show", result["run_id"][:-2]).stdout.count("SIMULATED") >= 1


def test_the_same_seed_gives_the_same_virtual_run(home: Path) -> None:
    first, second = (run_json("simulated", *VIRTUAL, "--set", "cancel.rate=0.3")["metrics"] for _ in range(2))
    assert first == second
    assert first["cancel"]["planned"] > 0


def test_stdout_has_the_result_and_stderr_the_rest(home: Path) -> None:
    done = lmtui("run", "simulated", *VIRTUAL)
    assert "TTFT" in done.stdout
    assert "kept as" in done.stderr
    assert "kept as" not in done.stdout
    assert lmtui("run", "simulated", *VIRTUAL, "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "nosuch"], 2, "neither a saved config nor a preset"),
        (["run", "simulated", "--set", "load.concurency=1"], 2, "load.concurrency"),
        (["run", "simulated", "--set", "load.concurrency"], 2, "KEY=VALUE"),
        (["run", "./missing.toml"], 2, "missing.toml"),
        (["show", "nosuch"], 2, "nosuch"),
        (["stop", "last"], 2, "last"),
        (["import", "nosuch.csv"], 2, "nosuch.csv"),
        (["run", "simulated", "--set", "target.over=http"], 2, "not built yet"),
        (["run", "openai-nowhere.toml"], 2, "openai-nowhere.toml"),
    ],
)
def test_what_the_user_can_mend_is_a_sentence(home: Path, arguments: list[str], code: int, words: str) -> None:
    done = lmtui(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_no_server_is_exit_code_3_and_says_where(home: Path) -> None:
    done = lmtui(
        "run", "vllm-server", "--set", "target.base_url=http://127.0.0.1:9", "--set", "target.ready_timeout_s=0.5"
    )
    assert done.returncode == 3
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_strict_fails_a_run_that_is_not_good(home: Path) -> None:
    few = ["--set", "target.clock=virtual", "--set", "load.num_prompts=5"]  # fewer than 30 ok requests: suspect
    assert lmtui("run", "simulated", *few).returncode == 0
    done = lmtui("run", "simulated", *few, "--strict")
    assert done.returncode == 5
    assert "suspect" in done.stderr
    done = lmtui("run", "simulated", *few, "--fail-if", "ttft.p99>1", "--fail-if", "ok<5")
    assert done.returncode == 5
    assert done.stderr.count("--fail-if") == 1
    assert lmtui("run", "simulated", *few, "--fail-if", "ok<5").returncode == 0
    for wrong in (("--fail-if", "nosuch>1"), ("--detach", "--fail-if", "ok<5")):
        assert lmtui("run", "simulated", *few, *wrong).returncode == 2
    assert len(json.loads(lmtui("results", "--json").stdout)) == 4


def test_detach_then_stop_keeps_what_was_measured(home: Path) -> None:
    started = lmtui("run", "simulated", *LONG, "--detach")
    run_id = started.stdout.strip()
    assert started.returncode == 0
    assert (home / "runs" / run_id / "status.json").exists()
    assert lmtui("show", run_id).returncode == 2, "there is no result yet"
    stopped = lmtui("stop", "last")
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped" in stopped.stdout
    result = json.loads(lmtui("show", run_id, "--json").stdout)
    assert result["phase"] == "stopped"
    assert sum(result["outcomes"].values()) == 100000
    assert result["outcomes"]["dropped"] > 0


def test_interrupting_a_followed_run_keeps_it_with_130(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "lmtui", "run", "simulated", *LONG, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if line.startswith("running"):
                break
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
        process.stderr.read()
    assert process.returncode == 130
    assert result["phase"] == "stopped"


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_interrupting_a_run_while_it_starts_stops_it_with_130(home: Path, detach: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "lmtui", "run", "simulated", *LONG, "--quiet", *detach],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not list(home.glob("runs/*/config.toml")):  # its process is about to start, and has no status yet
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    (run,) = runs.all_runs()
    give_up_at = time.monotonic() + 60
    while not runs.current(run).is_final:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    assert runs.current(run).phase == "stopped"
    if not detach:
        assert run.run_id in out, "what there is is printed"
        assert "lmtui: stopped" in error


def test_a_stop_without_abort_never_aborts(home: Path) -> None:
    slow = ["--set", "target.step_ms=300", "--set", "load.concurrency=4"]
    run_id = lmtui("run", "simulated", *LONG, *slow, "--detach").stdout.strip()
    with ThreadPoolExecutor(2) as pool:
        stops = list(pool.map(lambda _: lmtui("stop", run_id), range(2)))
    assert [stop.returncode for stop in stops] == [0, 0]
    assert json.loads(lmtui("show", run_id, "--json").stdout)["outcomes"]["aborted"] == 0


def test_a_run_that_did_not_start_cannot_be_stopped(home: Path) -> None:
    run = RunDirectory.create(config())
    done = lmtui("stop", "last")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{run.run_id} has no process yet" in done.stderr


def test_a_run_without_an_ok_request_says_why_also_when_quiet(home: Path) -> None:
    broken = ["--set", "target.kv_tokens=20", "--set", "load.num_prompts=8"]
    done = lmtui("run", "simulated", *broken, "--quiet", "--json")
    assert done.returncode == 4
    assert done.stderr.startswith("lmtui: no request was ok: ")
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["phase"] == "done"


def test_stopped_is_one_word(home: Path) -> None:
    lmtui("run", "simulated", *LONG, "--detach")
    done = lmtui("stop", "last")
    assert "stopped stopped" not in done.stderr + done.stdout
    assert "stopped: stopped" not in done.stderr + done.stdout


def test_a_reader_that_leaves_early_is_no_error(home: Path) -> None:
    lmtui("run", "simulated", *VIRTUAL, "--quiet")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "lmtui", "results", "--csv"],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_application_needs_a_terminal(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lmtui"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


def test_doctor_lists_what_it_looked_at(home: Path) -> None:
    done = lmtui("doctor", "simulated", "--json")
    assert done.returncode == 0
    assert {"lmtui", "cores", "open files", "data", "torch"} <= {check["name"] for check in json.loads(done.stdout)}
    broken = lmtui(
        "doctor", "vllm-server", "--set", "target.base_url=http://127.0.0.1:9", "--set", "target.ready_timeout_s=0.5"
    )
    assert broken.returncode == 3
    assert "FAIL  server" in broken.stdout
