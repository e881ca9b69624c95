"""The recorder and its writer."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.runner import recorded, writer
from lmtui.runner.recorder import FLUSH_S, MAX_ERROR_CHARS, Recorder
from lmtui.runner.ticklog import Kind, TailReader, decode, encode
from lmtui.runner.writer import Batch, Writer
from tests.runner.harness import on_virtual_loop, requests


def batch(rows: int) -> Batch:
    return Batch([], [(i, i, i) for i in range(rows)], [], [], [])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ticks-0.bin"


def test_what_a_session_records(path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(path, lambda: 0)
        recorder.start()
        recorder.release(5)
        first, second = (recorder.session(request, 7) for request in requests(2, cancel_after=None))
        first.sent(10)
        assert not first.tick(20, 1)
        assert not first.tick(30, UNKNOWN)
        first.end(
            Outcome.OK,
            31,
            output_tokens=2,
            token_source=TokenSource.USAGE,
            prompt_tokens=6,
            cached_tokens=4,
            connect_ns=3,
        )
        second.end(Outcome.CONNECT_ERROR, 12, error="x" * 9999)
        assert (recorder.tally.sent, recorder.tally.done, recorder.tally.ok, recorder.tally.failed) == (1, 2, 1, 1)
        recorder.close()

    on_virtual_loop(main())
    found = recorded.read(path.parent, 2)
    sessions = found.sessions
    assert sessions.start_ns == 5
    assert sessions.due_ns.tolist() == [7, 7]
    assert sessions.sent_ns.tolist() == [10, UNKNOWN]
    assert sessions.end_ns.tolist() == [31, 12]
    assert sessions.tick_ns.tolist() == [20, 30]
    assert sessions.tick_tokens.tolist() == [1, UNKNOWN]
    assert sessions.prompt_tokens.tolist() == [6, UNKNOWN]
    assert sessions.cached_tokens.tolist() == [4, UNKNOWN]
    assert sessions.connect_ns.tolist() == [3, UNKNOWN]
    assert sessions.token_source.tolist() == [TokenSource.USAGE, TokenSource.NONE]
    assert sessions.outcome.tolist() == [Outcome.OK, Outcome.CONNECT_ERROR]
    assert found.errors == {1: "x" * MAX_ERROR_CHARS}


def test_a_second_end_is_a_bug(path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(path, lambda: 0)
        recorder.start()
        session = recorder.session(requests(1)[0], 0)
        session.end(Outcome.NO_TOKEN, 1, error="none")
        with pytest.raises(RuntimeError, match="ended twice"):
            session.end(Outcome.OK, 2)
        recorder.close()

    on_virtual_loop(main())


def test_a_request_cut_before_it_was_sent_is_dropped(path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(path, lambda: 0)
        recorder.start()
        session = recorder.session(requests(1)[0], 0)
        session.cut(Outcome.ABORTED)
        session.end(Outcome.ABORTED, 2, error="cut")
        recorder.close()

    on_virtual_loop(main())
    assert recorded.read(path.parent, 1).sessions.outcome.tolist() == [Outcome.DROPPED]


def test_a_cut_is_told_once(path: Path) -> None:
    async def main() -> list[str]:
        recorder = Recorder(path, lambda: 0, timeout_s=1.0)
        recorder.start()
        session = recorder.session(requests(1, cancel_after_s=0.5)[0], 0)
        told: list[str] = []
        session.on_cut = lambda: told.append(session.cut_as.label if session.cut_as is not None else "?")
        session.sent(0)
        assert not session.tick(1, 1)
        await asyncio.sleep(2)
        assert session.tick(2, 2)
        session.end(Outcome.CANCELLED, 3)
        session.cut(Outcome.ABORTED)
        recorder.close()
        return told

    assert on_virtual_loop(main()) == ["cancelled"]


def test_timers_start_anew_when_the_request_is_sent_again(path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(path, lambda: 0, timeout_s=1.0)
        recorder.start()
        session = recorder.session(requests(1)[0], 0)
        session.sent(0)
        await asyncio.sleep(0.9)
        session.sent(900)
        await asyncio.sleep(0.9)
        assert session.cut_as is None
        await asyncio.sleep(0.2)
        assert session.tick(1, 1)
        session.end(Outcome.TIMEOUT, 1, error="late")
        assert recorder.tally.sent == 1
        recorder.close()

    on_virtual_loop(main())


def kinds_of(folder: Path, count: int) -> list[Kind]:
    """Wait for that many frames, and return what they are."""
    reader = TailReader(folder)
    kinds: list[Kind] = []
    give_up_at = time.monotonic() + 30
    while len(kinds) < count and time.monotonic() < give_up_at:
        kinds += [frame.kind for frame in reader.read()]
    return kinds


def test_rows_reach_the_file_while_the_load_runs(path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(path, lambda: 0)
        recorder.self_report = lambda: {"what": "worker", "cpu_s": None, "wall_s": None}
        recorder.start()
        session = recorder.session(requests(1)[0], 0)
        session.sent(1)
        session.tick(2, 1)
        await asyncio.sleep(5.5 * FLUSH_S)
        assert await asyncio.to_thread(kinds_of, path.parent, 3) == [Kind.SENT, Kind.TICKS, Kind.JSON]
        session.end(Outcome.OK, 3)
        recorder.close()

    on_virtual_loop(main())


class Disk:
    """Stands for os.write: takes what there is room for, and `at_once` bytes at most."""

    def __init__(self, room: int, at_once: int = 1 << 30) -> None:
        self.room = room
        self.at_once = at_once

    def write(self, fd: int, data: memoryview) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = os.write(fd, data[: min(self.room, self.at_once)])
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", [0, 1, 19, 20, 35, 36, 100])
def test_a_full_disk_loses_nothing_when_room_comes_back(path: Path, room: int) -> None:
    disk = Disk(room)
    out = Writer(path, disk.write)
    for _ in range(3):
        out._take(batch(5))
        out._write()
    assert "No space left" in out.failure
    assert path.stat().st_size == room
    disk.room = 1 << 40
    out._write()
    assert out.failure == ""
    assert path.read_bytes() == encode(Kind.TICKS, [(i, i, i) for i in range(5)]) * 3
    assert "everything was written later" in out.notes[0]
    out.start()
    out.close()


def test_short_writes_go_on_where_they_ended(path: Path) -> None:
    out = Writer(path, Disk(1 << 40, at_once=7).write)
    out._take(batch(5))
    out._write()
    assert path.read_bytes() == encode(Kind.TICKS, [(i, i, i) for i in range(5)])
    assert (out.failure, out.notes) == ("", ())
    out.start()
    out.close()


def test_what_waits_for_the_disk_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING_BYTES", 250)
    disk = Disk(30)
    out = Writer(path, disk.write)
    for _ in range(5):
        out._take(batch(5))
        out._write()
    disk.room = 1 << 40
    out._write()
    assert path.read_bytes() == encode(Kind.TICKS, [(i, i, i) for i in range(5)]) * 2
    assert "3 batches of the tick log are lost" in out.notes[0]
    out.start()
    out.close()


@pytest.mark.slow
def test_the_kernel_s_limit_on_files_neither_ends_the_writer_nor_spoils_the_log(tmp_path: Path) -> None:
    """As ENOSPC, but by a real kernel error: RLIMIT_FSIZE in a process of its own."""
    code = """
        import resource, sys
        from pathlib import Path
        from lmtui.runner.writer import Batch, Writer
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        out = Writer(Path(sys.argv[1]))
        out.start()
        for _ in range(20):
            out.put(Batch([], [(i, i, i) for i in range(10)], [], [], []))
        out.close()
        assert "too large" in out.notes[0], out.notes
        assert "batches of the tick log are lost" in out.notes[0]
    """
    path = tmp_path / "ticks-0.bin"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], check=True)
    assert path.stat().st_size == 1000
    assert len(decode(path.read_bytes())[0]) == 1000 // len(encode(Kind.TICKS, [(i, i, i) for i in range(10)]))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000
