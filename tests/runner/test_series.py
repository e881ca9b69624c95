"""Runs one after another in one process that keeps its engine, and every way in which it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lmtui.cli import main
from lmtui.config.model import Config
from lmtui.errors import INTERRUPTED, TARGET, USAGE, ConfigError
from lmtui.metrics.result import Result
from lmtui.runner import machine, runs, spawn
from lmtui.runner.rundir import RunDirectory, Status
from lmtui.workload import tiny_tokenizer
from tests.runner.kept_process import DIES, HANGS, REFUSED, SLOW, UNSOUND

pytestmark = pytest.mark.slow

GIVE_UP_S = 8.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # the stand-in is not installed
    monkeypatch.setattr(spawn, "PROCESS", "tests.runner.kept_process")


def config(name: str = "well", **sections: dict[str, Any]) -> Config:
    values: dict[str, dict[str, Any]] = {
        "target": {"kind": "pytorch", "model": str(tiny_tokenizer.path())},
        "dataset": {"kind": "random", "input_len": 8, "output_len": 10},
        "load": {"concurrency": 4, "num_prompts": 20, "warmup_requests": 0},
    }
    for section, keys in sections.items():
        values[section] = {**values.get(section, {}), **keys}
    return Config.model_validate({"schema": 1, "name": name, **values})


def ended(run: RunDirectory) -> tuple[Status, Result]:
    give_up_at = time.monotonic() + GIVE_UP_S
    while (status := run.status()) is None or not status.is_final:
        assert time.monotonic() < give_up_at, (status, run.log_tail())
        time.sleep(0.01)
    result = run.result()
    assert result is not None
    return status, result


def gone(pid: int) -> None:
    give_up_at = time.monotonic() + GIVE_UP_S
    while machine.process_started(pid) is not None:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def end(pid: int, number: signal.Signals) -> None:
    """Signal a process until it is gone: one that has just written its run's last status does not hear it yet."""
    give_up_at = time.monotonic() + GIVE_UP_S
    while machine.process_started(pid) is not None:
        assert time.monotonic() < give_up_at
        os.kill(pid, number)
        time.sleep(0.01)


def anew(result: Result) -> str:
    return next((note for note in result.notes if "loaded anew" in note), "")


def test_the_second_run_has_the_first_s_engine_and_loop_and_a_directory_of_its_own() -> None:
    with spawn.Series() as series:
        first = series.start(config(), ["a note of the first"])
        status, result = ended(first)
        assert machine.process_started(status.pid) is not None
        assert "closed" not in first.log_tail()
        second = series.start(config("another", cancel={"rate": 1.0}), ["a note of the second"])
        again, other = ended(second)
        third = series.start(config("the last"), is_last=True)
        last, _ = ended(third)
        assert "closed" in third.log_tail()  # before it is over
    gone(status.pid)
    assert status.pid == again.pid == last.pid
    assert status.pid_started == again.pid_started
    assert result.target["versions"] == other.target["versions"]
    assert result.target["versions"]["opened"] == "1"
    assert (result.outcomes["ok"], result.outcomes["cancelled"]) == (20, 0)
    assert other.outcomes["cancelled"] > 0
    assert sum(other.outcomes.values()) == 20
    assert (again.phase, again.exit_code, again.counts.planned) == ("done", 0, 20)
    assert result.started_at <= other.started_at
    kept = f"The engine was loaded for the run {first.run_id} and has answered its requests before."
    assert [note for note in other.notes if "note of" in note or "engine was" in note] == ["a note of the second", kept]
    assert [note for note in result.notes if "note of" in note or "engine was" in note] == ["a note of the first"]
    assert second.log_tail().startswith(f"The engine was loaded by the run {first.run_id}; ")
    assert "stdin is /dev/null" in first.log_tail()
    assert [run.run_id for run in runs.all_runs()] == [third.run_id, second.run_id, first.run_id]


def test_a_series_of_one_run_ends_as_any_run() -> None:
    with spawn.Series() as series:
        run = series.start(config(), is_last=True)
        status, _ = ended(run)
        assert "closed" in run.log_tail()
        gone(status.pid)


@pytest.mark.parametrize(
    ("name", "phase", "code"), [(DIES, "failed", TARGET), (UNSOUND, "done", 0)], ids=["dead", "unsound"]
)
def test_an_engine_at_fault_is_not_kept(name: str, phase: str, code: int) -> None:
    with spawn.Series() as series:
        first = series.start(config(name))
        status, result = ended(first)
        assert (status.phase, status.exit_code) == (phase, code)
        assert "closed" in first.log_tail()
        second = series.start(config())
        again, other = ended(second)
    assert again.pid != status.pid
    assert (again.phase, other.outcomes["ok"]) == ("done", 20)
    why = "the run before did not go well" if code else "the process that held it has ended"
    assert anew(other) == f"The engine was loaded anew for this run: {why}."
    assert anew(result) == ""
    gone(again.pid)


def test_a_run_that_the_engine_cannot_serve_fails_and_the_engine_is_closed() -> None:
    with spawn.Series() as series:
        ended(series.start(config()))
        run = series.start(config(REFUSED))
        status, _ = ended(run)
        gone(status.pid)
    assert (status.phase, status.exit_code, status.message) == ("failed", TARGET, "it cannot be served")
    assert "closed" in run.log_tail()


def test_a_plan_that_cannot_be_drawn_closes_the_engine() -> None:
    with spawn.Series() as series:
        ended(series.start(config()))
        run = series.start(config(dataset={"kind": "jsonl", "path": "/nowhere/x.jsonl"}))
        status, _ = ended(run)
        gone(status.pid)
    assert (status.phase, status.exit_code) == ("failed", USAGE)
    assert "closed" in run.log_tail()


def test_another_engine_is_loaded_only_once_the_one_before_is_gone() -> None:
    with spawn.Series() as series:
        first = series.start(config())
        status, _ = ended(first)
        second = series.start(config(target={"session_len": 999}))
        assert machine.process_started(status.pid) is None
        assert "closed" in first.log_tail()
        _, other = ended(second)
    assert anew(other) == "The engine was loaded anew for this run: target.session_len differs."


def test_with_a_prefix_cache_nothing_is_kept() -> None:
    warm = config(target={"enable_prefix_caching": True})
    with spawn.Series() as series:
        status, _ = ended(series.start(warm))
        gone(status.pid)
        _, other = ended(series.start(warm))
    assert "target.enable_prefix_caching" in anew(other)


def test_a_stop_of_the_second_run_is_its_own() -> None:
    with spawn.Series() as series:
        first = series.start(config())
        ended(first)
        second = series.start(config(SLOW, limits={"grace_s": 600.0}))
        give_up_at = time.monotonic() + GIVE_UP_S
        while (status := second.status()) is None or status.counts.in_flight < 4:
            assert time.monotonic() < give_up_at, (status, second.log_tail())
            time.sleep(0.01)
        runs.stop(first, abort=True)  # over: nothing happens
        runs.stop(second)
        while (status := second.status()) is None or status.phase != "draining":
            assert time.monotonic() < give_up_at, (status, second.log_tail())
            time.sleep(0.01)
        runs.stop(second, abort=True)
        status, result = ended(second)
        third = series.start(config())
        again, other = ended(third)
    assert (status.phase, status.exit_code, status.message) == ("stopped", INTERRUPTED, "aborted")
    assert result.outcomes["aborted"] == 4
    assert ended(first)[0].phase == "done"
    assert again.pid != status.pid
    assert anew(other) != ""


def test_between_runs_a_run_is_over_though_its_process_lives(capsys: pytest.CaptureFixture[str]) -> None:
    with spawn.Series() as series:
        run = series.start(config())
        status, _ = ended(run)
        assert main(["stop", "last"]) == USAGE
        assert "is done: there is nothing to stop" in capsys.readouterr().err
        assert main(["runs"]) == 0
        assert "done" in capsys.readouterr().out
        assert (run.phase(), runs.settle(run).phase) == ("done", "done")
        assert machine.process_started(status.pid) is not None
        again, _ = ended(series.start(config()))
        assert again.pid == status.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_kept_process_that_is_ended_from_outside_is_replaced(number: signal.Signals) -> None:
    with spawn.Series() as series:
        first = series.start(config())
        status, _ = ended(first)
        end(status.pid, number)
        assert ("closed" in first.log_tail()) == (number != signal.SIGKILL)
        second = series.start(config())
        _, other = ended(second)
    assert other.outcomes["ok"] == 20
    assert anew(other) == "The engine was loaded anew for this run: the process that held it has ended."


def test_a_kept_process_ends_with_whoever_started_it() -> None:
    code = (
        "import os, signal, time; from tests.runner.test_series import *; spawn.PROCESS = 'tests.runner.kept_process'\n"
        "series = spawn.Series(); run = series.start(config()); ended(run); print(run.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    run = RunDirectory(Path(parent.stdout.strip()))
    status, _ = ended(run)
    gone(status.pid)
    assert "closed" in run.log_tail()


def test_a_run_outlives_whoever_started_it_and_its_engine_ends_with_it() -> None:
    code = (
        "import os, signal, time; from tests.runner.test_series import *; spawn.PROCESS = 'tests.runner.kept_process'\n"
        "series = spawn.Series(); run = series.start(config(SLOW)); print(run.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    run = RunDirectory(Path(parent.stdout.strip()))
    give_up_at = time.monotonic() + GIVE_UP_S
    while (status := run.status()) is None or status.counts.in_flight < 4:
        assert time.monotonic() < give_up_at, (status, run.log_tail())
        time.sleep(0.01)
    runs.stop(run, abort=True)
    gone(ended(run)[0].pid)


def test_leaving_a_series_leaves_a_run_alone() -> None:
    with spawn.Series() as series:
        run = series.start(config(SLOW))
    status = run.status()
    assert status is not None
    assert not status.is_final
    runs.stop(run, abort=True)
    gone(ended(run)[0].pid)


def test_a_run_before_the_last_has_ended_is_refused() -> None:
    with spawn.Series() as series:
        run = series.start(config(SLOW))
        with pytest.raises(RuntimeError, match="has not ended"):
            series.start(config())
        runs.stop(run, abort=True)
        ended(run)


def test_an_engine_that_hangs_at_its_close_does_not_keep_the_process() -> None:
    with spawn.Series() as series:
        status, _ = ended(series.start(config(HANGS)))
    assert machine.process_started(status.pid) is None


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "END_S", 0.0)
    with spawn.Series() as series:
        status, _ = ended(series.start(config()))
        os.kill(status.pid, signal.SIGSTOP)
    assert machine.process_started(status.pid) is None


def test_a_pair_is_refused_as_it_is_for_one_run() -> None:
    with spawn.Series() as series, pytest.raises(ConfigError, match="asks for two runs"):
        series.start(config(guided={"response_format": "json_object"}))
