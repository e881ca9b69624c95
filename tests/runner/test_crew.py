"""Load workers: real processes that send to a real server on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtui.errors import INTERRUPTED, NO_RESULT, TARGET
from lmtui.metrics.sessions import Sessions
from lmtui.runner import machine, recorded, runs, spawn
from lmtui.runner.crew import STREAMS_EACH, worker_count
from lmtui.runner.rundir import RunDirectory
from lmtui.workload import tiny_tokenizer, tokenizers
from tests.runner.harness import config
from tests.runner.test_process import is_under_way, planned_is_the_sum, rows, wait, wait_end
from tests.targets.fake_server import Reply, Seen, answer, completion, fake_server

TTFT_MS, ITL_MS = 20, 5


def server_config(url: str, load: dict[str, Any], **sections: dict[str, Any]) -> Any:
    target = {"kind": "server", "base_url": url, **sections.pop("target", {})}
    made = config(load=load, dataset={"input_len": 8, "output_len": 10}, **sections)
    return type(made).model_validate(
        {
            **made.model_dump(exclude={"target"}, by_alias=True),
            "target": target,
        }
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def url() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "lmtui.targets.truth", str(TTFT_MS), str(ITL_MS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    server.stdin.close()
    server.wait()
    server.stdout.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def at_once(sessions: Sessions) -> int:
    """Return the most requests that were in flight at one time."""
    is_there = (sessions.sent_ns[:, None] <= sessions.sent_ns) & (sessions.end_ns[:, None] > sessions.sent_ns)
    return int(is_there.sum(axis=0).max())


@pytest.mark.parametrize(
    ("load", "cores", "expected"),
    [
        ({"concurrency": 64}, 16, 1),
        ({"concurrency": 5 * STREAMS_EACH, "num_prompts": 9999}, 16, 5),
        ({"concurrency": 9999, "num_prompts": 99}, 16, 1),
        ({"concurrency": 9999, "num_prompts": 9999}, 16, 8),
        ({"concurrency": 9999, "num_prompts": 9999}, 1, 1),
        ({"concurrency": 1, "workers": 3}, 1, 3),
        ({"mode": "open", "rate": 10.0, "num_prompts": 9999}, 16, 1),
        ({"mode": "open", "rate": 5000.0, "num_prompts": 9999}, 16, 5),
        ({"mode": "open", "num_prompts": 9999}, 16, 8),
        ({"mode": "open", "num_prompts": 9999, "max_in_flight": 300}, 16, 2),
    ],
)
def test_how_many_workers(monkeypatch: pytest.MonkeyPatch, load: dict[str, Any], cores: int, expected: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert worker_count(server_config("http://127.0.0.1:1", load)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_closed_load(url: str, workers: int) -> None:
    run = spawn.start(server_config(url, {"concurrency": 6, "num_prompts": 30, "workers": workers}))
    status = wait_end(run)
    assert (status.phase, status.exit_code, status.message) == ("done", 0, ""), run.log_tail()
    assert status.counts.planned == status.counts.ok == status.counts.sent == 30
    result = run.result()
    assert result is not None
    assert result.client.cpu_s is not None
    assert 0 < result.client.cpu_s < 60
    found = recorded.read(run.path)
    sessions = found.sessions
    assert sessions.index.tolist() == list(range(30))
    assert len(list(run.path.glob("ticks-*.bin"))) == workers
    assert (sessions.sent_ns >= sessions.start_ns).all()
    assert at_once(sessions) <= 6
    assert found.samples.clock in ("kernel", "user")
    assert found.samples.events == 300
    assert len(found.samples.read_lag_ns) > 0
    assert len(found.samples.loop_lag_ns) > 0
    assert result.metrics.ttft_ms.p50 is not None
    assert result.metrics.ttft_ms.p50 >= TTFT_MS - 1
    assert result.tokens_from == "usage"
    planned_is_the_sum(run)
    assert rows(run) == ["done"]
    assert run.log_tail() == ""


@pytest.mark.slow
def test_a_server_run_and_its_workers_import_no_engine(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoys, imported = tmp_path / "decoys", tmp_path / "imported"
    for name in ("torch", "transformers", "lmdeploy", "textual"):
        (decoys / name).mkdir(parents=True)
        lines = ("import traceback", f"traceback.print_stack(file=open({str(imported)!r}, 'a'))", "raise ImportError")
        (decoys / name / "__init__.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(decoys))
    told = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False)
    assert told.returncode != 0
    assert imported.exists()
    imported.unlink()
    load = {"concurrency": 4, "num_prompts": 8, "workers": 2}
    run = spawn.start(server_config(url, load, target={"tokenizer": str(tiny_tokenizer.path())}))
    assert wait_end(run).phase == "done", run.log_tail()
    assert not imported.exists(), imported.read_text()


@pytest.mark.slow
def test_the_warm_up_of_two_workers_is_not_in_the_figures_of_the_client(url: str) -> None:
    load = {"concurrency": 4, "num_prompts": 8, "workers": 2, "warmup_requests": 6}
    run = spawn.start(server_config(url, load))
    assert wait_end(run).exit_code == 0
    samples = recorded.read(run.path).samples
    assert samples.events == 80
    assert len(samples.read_lag_ns) <= 80 + 3 * 8  # of 8 answers: a read an event at most, and head and end


@pytest.mark.slow
def test_an_open_load_of_two_workers_keeps_the_schedule(url: str) -> None:
    load = {"mode": "open", "rate": 100.0, "arrival": "constant", "num_prompts": 50, "workers": 2}
    run = spawn.start(server_config(url, load))
    assert wait_end(run).exit_code == 0
    sessions = recorded.read(run.path).sessions
    due = np.round((sessions.due_ns - sessions.start_ns) / 1e6, 6)
    assert due.tolist() == pytest.approx([10.0 * i for i in range(50)])
    assert (sessions.sent_ns >= sessions.due_ns).all()


@pytest.mark.slow
def test_two_workers_share_the_places_of_a_cap(url: str) -> None:
    run = spawn.start(server_config(url, {"mode": "open", "num_prompts": 30, "max_in_flight": 5, "workers": 2}))
    assert wait_end(run).exit_code == 0, run.log_tail()
    sessions = recorded.read(run.path).sessions
    assert sessions.index.tolist() == list(range(30))
    assert at_once(sessions) <= 5


@pytest.mark.slow
def test_texts_of_a_server_that_counts_nothing_are_tokenised_by_its_workers() -> None:
    def reply(seen: Seen) -> Reply:
        return answer(seen) if seen.method == "GET" else Reply(pieces=completion(10, usage=False))

    tokenizer = str(tiny_tokenizer.path())
    with fake_server(reply) as (_, base_url):
        load = {"concurrency": 4, "num_prompts": 40, "workers": 2}
        run = spawn.start(server_config(base_url, load, target={"tokenizer": tokenizer}))
        assert wait_end(run).exit_code == 0, run.log_tail()
    result = run.result()
    assert result is not None
    assert (result.outcomes["ok"], result.tokens_from) == (40, "text")
    text = "".join(f" t{i}" for i in range(10))
    tokens = len(tokenizers.load(tokenizer).encode(text, special_tokens=False))
    assert recorded.read(run.path).sessions.output_tokens.tolist() == [tokens] * 40
    planned_is_the_sum(run)


@pytest.mark.slow
def test_a_duration_of_two_workers_cycles_without_a_shared_index(url: str) -> None:
    run = spawn.start(server_config(url, {"concurrency": 4, "num_prompts": 5, "duration_s": 0.6, "workers": 2}))
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("done", 0)
    sessions = recorded.read(run.path).sessions
    assert len(sessions.index) == len(set(sessions.index.tolist())) == status.counts.planned > 5
    planned_is_the_sum(run)


@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True])
def test_stop_reaches_every_worker(url: str, abort: bool) -> None:
    run = spawn.start(server_config(url, {"concurrency": 4, "num_prompts": 5_000, "workers": 2}))
    wait(run, is_under_way)
    runs.stop(run, abort=abort)
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("stopped", INTERRUPTED)
    assert status.counts.ok > 0
    planned_is_the_sum(run)


@pytest.mark.slow
def test_workers_die_with_a_killed_run(url: str) -> None:
    run = spawn.start(server_config(url, {"concurrency": 4, "num_prompts": 5_000, "workers": 2}))
    status = wait(run, is_under_way)
    workers = children(status.pid)
    assert len(workers) == 2
    os.kill(status.pid, signal.SIGKILL)
    give_up_at = time.monotonic() + 30
    while any(machine.process_started(worker) for worker in workers):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    settled = runs.current(run)
    result = run.result()
    assert result is not None
    assert (settled.phase, result.phase) == ("lost", "lost")
    assert result.outcomes["ok"] > 0
    assert result.client.cpu_s is None or result.client.cpu_s > 0


@pytest.mark.slow
def test_an_abort_kills_a_worker_that_hangs(url: str) -> None:
    run = RunDirectory.create(server_config(url, {"concurrency": 4, "num_prompts": 5_000, "workers": 2}))
    code = "import sys; from lmtui.runner import crew, process; crew.END_S = 0.1; sys.exit(process.main())"
    with run.log_path.open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", code, str(run.path)], stderr=log, start_new_session=True)
    status = wait(run, is_under_way)
    os.kill(children(status.pid)[0], signal.SIGSTOP)
    runs.stop(run, abort=True)
    assert process.wait(60) == INTERRUPTED
    status = wait_end(run)
    assert (status.phase, status.message) == ("stopped", "aborted")
    planned_is_the_sum(run)


@pytest.mark.slow
def test_a_worker_that_dies_fails_the_run_and_keeps_what_was_measured(url: str) -> None:
    run = spawn.start(server_config(url, {"concurrency": 4, "num_prompts": 5_000, "workers": 2}))
    status = wait(run, is_under_way)
    os.kill(children(status.pid)[0], signal.SIGKILL)
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("failed", 1)
    assert "load worker" in status.message
    result = run.result()
    assert result is not None
    assert result.outcomes["ok"] > 0


def run_with_files(url: str, files: int, load: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run under a hard limit on open files, as a user whose system has a low one."""
    sets = [word for key, value in {"workers": 1, **load}.items() for word in ("--set", f"load.{key}={value}")]
    command = [sys.executable, "-m", "lmtui", "run", "vllm-server", "--set", f"target.base_url={url}", *sets]
    return subprocess.run(
        ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "key"),
    [
        ({"concurrency": 200, "num_prompts": 300}, "load.concurrency"),
        ({"mode": '"open"', "rate": '"inf"', "num_prompts": 200}, "load.max_in_flight"),
    ],
)
def test_too_few_open_files_name_the_limit_and_the_remedy(url: str, load: dict[str, Any], key: str) -> None:
    done = run_with_files(url, 128, load)
    assert done.returncode == TARGET, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("lmtui: ")]
    assert "this process may have no more than 128 (`ulimit -Hn`): 200 connections were to be opened" in line
    assert f"Raise the limit (nofile in /etc/security/limits.conf) or load.workers, or lower {key}." in line
    (status,) = [run.status() for run in runs.all_runs()]
    assert status is not None
    assert any("may need 264 open files and the system allows 128" in note for note in status.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("cap", "is_noted"), [({}, True), ({"max_in_flight": 40}, False)])
def test_an_open_load_notes_the_open_files_it_may_come_to_need(url: str, cap: dict[str, int], is_noted: bool) -> None:
    done = run_with_files(url, 160, {"mode": '"open"', "rate": 60.0, "num_prompts": 100, **cap})
    assert done.returncode == 0, done.stderr
    (result,) = [run.result() for run in runs.all_runs()]
    assert result is not None
    told = [note for note in result.notes if "may need 164 open files and the system allows 160" in note]
    assert len(told) == is_noted
    assert all("or lower load.max_in_flight" in note for note in told)


@pytest.mark.slow
def test_no_server() -> None:
    run = spawn.start(server_config("http://127.0.0.1:9", {"num_prompts": 4}, target={"ready_timeout_s": 0.2}))
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("failed", TARGET)
    assert "127.0.0.1:9" in status.message
    assert run.phase() == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(("concurrency", "workers"), [(1, 1), (4, 1), (4, 4), (8, 2)])
def test_a_server_that_goes_away_fails_few_requests_more_than_its_limit(concurrency: int, workers: int) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "lmtui.targets.truth", "20", "5"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    port = server.stdout.readline().strip()
    load = {"concurrency": concurrency, "num_prompts": 5_000, "workers": workers}
    run = spawn.start(server_config(f"http://127.0.0.1:{port}", load, limits={"max_errors": 5}))
    wait(run, is_under_way)
    server.stdin.close()
    server.kill()
    server.wait()
    server.stdout.close()
    status = wait_end(run)
    assert (status.phase, status.exit_code) == ("failed", NO_RESULT)
    assert "limits.max_errors = 5" in status.message
    result = run.result()
    assert result is not None
    assert 5 < status.counts.failed <= 5 + concurrency
    assert 5 < result.outcomes["connect_error"] + result.outcomes["truncated"] <= 5 + concurrency
    planned_is_the_sum(run)


def test_a_run_directory_without_workers_reads_empty(home: Path) -> None:
    run = RunDirectory.create(config())
    assert len(recorded.read(run.path).sessions.index) == 0
