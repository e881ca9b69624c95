"""Run directories: names, phases, finding."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec
import pytest

from lmtui import paths
from lmtui.errors import LmtuiError, RunNotFoundError
from lmtui.runner import machine, runs
from lmtui.runner.rundir import Counts, RunDirectory, slug, write_whole
from tests.runner.harness import config, status


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


def test_a_new_run_has_its_config_and_a_name_that_sorts_by_time() -> None:
    run = RunDirectory.create(config())
    assert re.fullmatch(r"\d{8}T\d{6}Z-test-run-[0-9a-f]{6}", run.run_id)
    assert run.config() == config()
    assert (run.status(), run.result(), run.phase(), run.log_tail()) == (None, None, "queued", "")
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert run.path.parent == paths.runs()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Größe 7B!", "groe-7b"),
        ("../../etc", "etc"),
        ("", "run"),
        ("日本", "run"),
        ("a" * 99, "a" * 40),
        ("x -- y", "x-y"),
    ],
)
def test_slugs(name: str, part: str) -> None:
    assert slug(name) == part


def test_a_live_process_is_not_lost_and_another_of_its_number_is() -> None:
    run = RunDirectory.create(config())
    mine = status(run, heartbeat=0.0)
    run.write_status(mine)
    assert (run.phase(), run.status()) == ("running", mine)
    run.write_status(msgspec.structs.replace(mine, pid_started=1))
    assert run.phase() == "lost"


@pytest.mark.parametrize("phase", ["done", "stopped", "failed", "lost"])
def test_a_final_phase_stays(phase: str) -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, phase=phase, pid=1, pid_started=0))
    assert run.phase() == phase
    assert runs.current(run).phase == phase


def test_the_boot_before_is_another_host() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, boot_id="before"))
    assert run.phase() == "running"
    run.write_status(status(run, boot_id="before", heartbeat=time.time() - 99))
    assert run.phase() == "lost"


def test_a_lost_run_without_ticks_is_settled() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, pid_started=1, message="loading weights"))
    settled = runs.current(run)
    result = run.result()
    assert result is not None
    assert (settled.phase, result.phase, settled.exit_code) == ("lost", "lost", None)
    assert "loading weights" in settled.message
    assert runs.current(run) == settled


def test_a_lost_run_whose_config_is_spoilt_is_still_listed() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, pid_started=1))
    run.config_path.write_text("what?")
    assert "cannot be summarised" in runs.current(run).message
    assert run.result() is None


def test_a_run_that_died_after_its_summary_keeps_its_phase() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, pid_started=1))
    first = runs.current(run)
    result = run.result()
    assert result is not None
    run.write_result(msgspec.structs.replace(result, phase="done"))
    run.write_status(msgspec.structs.replace(first, phase="running"))
    assert runs.current(run).phase == "done"


def test_a_status_of_another_version_is_no_crash() -> None:
    run = RunDirectory.create(config())
    run.status_path.write_text('{"phase": 7}')
    assert (run.status(), run.phase()) == (None, "queued")
    assert runs.current(run).phase == "queued"
    old = RunDirectory(run.path.rename(run.path.with_name("20200101T000000Z-old-abcdef")))
    found = runs.current(old)
    assert (found.phase, found.message) == ("failed", "the run process never started")
    assert found.started_at == "2020-01-01T00:00:00Z"
    old.ticks_path(0).write_bytes(b"")
    assert runs.current(old).phase == "lost"


def test_a_folder_that_is_no_run_is_not_listed() -> None:
    run = RunDirectory.create(config())
    (paths.runs() / "zz notes").mkdir()
    (paths.runs() / "99990101T000000Z-empty-abcdef").mkdir()
    (paths.runs() / "99990101T000000Z-log-abcdef").mkdir()
    (paths.runs() / "99990101T000000Z-log-abcdef" / "engine.log").write_text("")
    assert [found.run_id for found in runs.all_runs()] == [run.run_id]
    assert runs.find("last").run_id == run.run_id


def test_runs_are_ordered_by_the_time_of_their_ids() -> None:
    new, old = RunDirectory.create(config()), RunDirectory.create(config())
    os.utime(new.config_path, (5, 5))
    old = RunDirectory(old.path.rename(old.path.with_name("20200101T000000Z-old-abcdef")))
    named = RunDirectory(paths.runs() / "zz by hand")
    named.path.mkdir()
    named.config_path.write_text("")
    os.utime(named.config_path, (5, 5))
    assert [run.run_id for run in runs.all_runs()] == [new.run_id, old.run_id, named.run_id]


def test_a_summary_tells_of_a_run_whose_status_is_gone() -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, pid_started=1, counts=Counts(planned=3)))
    runs.settle(run)
    run.status_path.unlink()
    found = runs.current(run)
    assert (found.phase, found.is_final, found.counts) == ("lost", True, Counts(planned=3))
    result = run.result()
    assert result is not None
    run.write_result(msgspec.structs.replace(result, phase="done", outcomes={"ok": 2, "dropped": 1, "http_error": 4}))
    found = runs.current(run)
    assert (found.phase, found.name, found.target_kind) == ("done", "test run", result.target.get("kind") or "")
    assert found.counts == Counts(planned=7, sent=6, done=6, ok=2, failed=4)


def test_a_lost_run_on_a_disk_that_takes_nothing_is_lost_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory.create(config())
    run.write_status(status(run, pid_started=1))

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lmtui.runner.rundir.write_whole", full)
    found = runs.current(run)
    assert found.phase == "lost"
    assert "No space left on device" in found.message
    kept = run.status()
    assert kept is not None
    assert kept.phase == "running"


def test_finding() -> None:
    with pytest.raises(RunNotFoundError, match="no runs yet"):
        runs.find("last")
    made = [RunDirectory.create(config()) for _ in range(3)]
    for age, run in enumerate(made):
        os.utime(run.config_path, (1000 + age, 1000 + age))
    (paths.runs() / "a file").write_text("")
    assert runs.find("last").run_id == made[2].run_id
    assert runs.find(made[1].run_id).run_id == made[1].run_id
    assert runs.find(made[0].run_id[:-1]).run_id == made[0].run_id
    with pytest.raises(RunNotFoundError, match="3 runs begin with 2"):
        runs.find("2")
    with pytest.raises(RunNotFoundError, match="no run has the id nothing"):
        runs.find("nothing")
    with pytest.raises(RunNotFoundError):
        runs.find("")


def test_a_disk_without_room_is_said_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lmtui.runner.rundir.write_whole", full)
    with pytest.raises(LmtuiError, match=r"No space left on device\. Make room .* LMTUI_HOME"):
        RunDirectory.create(config())
    assert list(paths.runs().iterdir()) == []


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_whole(path, b"one")

    def full(self: Path, data: bytes) -> int:
        raise OSError("full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="full"):
        write_whole(path, b"two")
    assert path.read_bytes() == b"one"
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == ["x.json"]


def test_the_process_s_name_may_hold_anything(tmp_path: Path) -> None:
    started = machine.process_started(os.getpid())
    comm = Path("/proc/self/comm")
    before = comm.read_text()
    comm.write_text("a) b (c")
    try:
        assert machine.process_started(os.getpid()) == started
    finally:
        comm.write_text(before)
    assert machine.process_started(2**22 + 1) is None


def test_the_environment_tells_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    facts = machine.environment()
    assert "sk-secret" not in repr(facts)
    assert facts["packages"]["numpy"]
    assert facts["cores"] >= 1
