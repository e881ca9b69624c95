"""Real processes: two writers at once, a full disk, a killed writer."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmtui.errors import LmtuiError
from lmtui.results import history, lock
from tests.results.made_results import result

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import sys
from pathlib import Path
from lmtui.results import history, lock
from tests.results.made_results import result
path, name, count, no_flock = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "True"
if no_flock:
    lock._flock = lambda descriptor, file: False
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    history.append(path, result(f"{name}-{number}", environment={f"{name}{number % 3}": number}))
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.slow
@pytest.mark.parametrize("no_flock", [False, True])
def test_two_writers_at_once_lose_no_row(tmp_path: Path, no_flock: bool) -> None:
    path = tmp_path / "history.csv"
    writers = [start(WRITER, path, name, 40, no_flock) for name in ("a", "b")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    outcomes = [writer.communicate("go\n", timeout=120) for writer in writers]
    assert [(writer.returncode, errors) for writer, (_, errors) in zip(writers, outcomes, strict=True)] == [(0, "")] * 2
    found = history.load(path)
    assert found.bad == ()
    assert sorted(row.text("run_id") for row in found.rows) == sorted(f"{n}-{i}" for n in "ab" for i in range(40))
    grown = {f"environment.{name}{place}" for name in "ab" for place in range(3)}
    assert grown <= set(found.columns)
    assert all(sum(row[column] != "" for column in grown) == 1 for row in found.rows)
    assert not (tmp_path / "history.csv.lock-held").exists()


KILLED = """
import sys
from pathlib import Path
from lmtui.results import history
from tests.results.made_results import result
number = 0
while True:
    history.append(Path(sys.argv[1]), result(f"{sys.argv[2]}-{number}", environment={f"{sys.argv[2]}{number}": "x"}))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_loses_no_row_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    written = []
    for name in ("a", "b", "c"):
        writer = start(KILLED, path, name)
        assert writer.stdout is not None
        for _ in range(5):
            written.append(f"{name}-{writer.stdout.readline().strip()}")
        writer.kill()
        writer.communicate()
    history.append(path, result("after"))
    rows = [row.text("run_id") for row in history.read(path)]
    assert set(written) <= set(rows)
    assert rows[-1] == "after"


FULL = """
import resource, sys
from pathlib import Path
from lmtui.errors import LmtuiError
from lmtui.results import history
from tests.results.made_results import result
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    history.append(path, result("b", environment={"gpu": "x"} if sys.argv[3] == "grow" else {}))
except LmtuiError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 1, 500])
@pytest.mark.parametrize("how", ["append", "grow"])
def test_a_full_disk_takes_the_row_whole_or_not_at_all(tmp_path: Path, room: int, how: str) -> None:
    path = tmp_path / "history.csv"
    history.append(path, result("a"))
    before = path.read_bytes()
    out, errors = start(FULL, path, room, how).communicate(timeout=60)
    assert errors == ""
    assert "the row of b could not be written: File too large" in out
    assert "Make room there" in out
    if how == "append" or not room:
        assert path.read_bytes() == before
    assert [row.text("run_id") for row in history.read(path)] == ["a"]
    assert history.load(path).bad == ()
    assert not list(tmp_path.glob(".*.new"))
    history.append(path, result("b"))
    assert [row.text("run_id") for row in history.read(path)] == ["a", "b"]


def test_a_write_that_fails_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.csv"
    history.append(path, result("a"))
    path.write_bytes(path.read_bytes() + b"torn")
    before = path.read_bytes()
    really_write = os.write
    left = [100]

    def write(descriptor: int, data: Any) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = really_write(descriptor, data[: left[0]])
        left[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(LmtuiError, match="No space left on device"):
        history.append(path, result("b"))
    assert path.read_bytes() == before


def test_a_file_system_without_flock_uses_an_exclusive_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "history.csv"
    with lock.locked(path):
        assert (tmp_path / "history.csv.lock-held").exists()
    assert not (tmp_path / "history.csv.lock-held").exists()
    history.append(path, result("a"))
    assert history.has_run(path, "a")


def test_a_lock_that_is_kept_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_S", 0.0)
    path = tmp_path / "history.csv"
    with lock.locked(path), pytest.raises(LmtuiError, match=r"history\.csv\.lock: another process has held it"):
        history.append(path, result("a"))
    history.append(path, result("a"))


def test_a_holder_that_was_given_up_leaves_the_lock_of_the_next_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_flock", lambda descriptor, file: False)
    monkeypatch.setattr(lock, "ABANDONED_S", 0.0)
    path, held = tmp_path / "history.csv", tmp_path / "history.csv.lock-held"
    given_up, next_one = lock.locked(path), lock.locked(path)
    with given_up:
        first = lock._identity(held)
        next_one.__enter__()
        assert lock._identity(held) != first
    assert held.exists()
    next_one.__exit__(None, None, None)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["history.csv.lock"]


def test_a_lock_that_was_replaced_between_look_and_removal_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "held"
    held.write_text("the next one's")
    looks = iter([(1, 1)])
    identity = lock._identity
    monkeypatch.setattr(lock, "_identity", lambda path: next(looks, None) or identity(path))
    lock._remove(held, (1, 1))
    assert [entry.name for entry in tmp_path.iterdir()] == ["held"]


@pytest.mark.parametrize("refused", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_lock_that_the_file_system_refuses_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.raises(LmtuiError, match=rf"history\.csv\.lock.*{os.strerror(refused)}"),
        lock.locked(tmp_path / "history.csv"),
    ):
        pytest.fail("it is not held")


def test_an_exclusive_file_that_was_left_behind_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_flock", lambda descriptor, file: False)
    path = tmp_path / "history.csv"
    (tmp_path / "history.csv.lock-held").touch()
    monkeypatch.setattr(lock, "WAIT_S", 0.0)
    with pytest.raises(LmtuiError, match=r"lock-held: another process has held it"):
        history.append(path, result("a"))
    monkeypatch.setattr(lock, "WAIT_S", 60.0)
    monkeypatch.setattr(lock, "ABANDONED_S", 0.0)
    history.append(path, result("a"))
    assert history.has_run(path, "a")
