"""What the application costs on a real pty at 120×40: `python tests/benchmarks/terminal.py`.

A process of its own writes the tick log of a run of 20,000 ticks a second (400 streams, 50 tokens a second each); the
viewer watches it. Then a history of 10,000 rows, and the form with the most parameters. A table against the budgets.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lmtui.config import presets
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.results import columns
from lmtui.results.csvtext import encode
from lmtui.runner import machine
from lmtui.runner.quiet import collector_off
from lmtui.runner.recorder import Recorder
from lmtui.runner.rundir import Counts, RunDirectory, Status
from lmtui.workload.plan import PlannedRequest

ROOT = Path(__file__).parents[2]
SIZE = (120, 40)
STREAMS, TICK_S, REQUESTS = 400, 0.02, 50_000
WATCH_S = 30.0
ROWS = 10_000
PRESSES = 40
QUIET_S = 0.03
"""Output after a silence of this length is another redraw."""


@dataclasses.dataclass
class Line:
    """One line of the table."""

    what: str
    budget: str
    measured: str
    is_within: bool


class Viewer:
    """The application on a pty, and what it wrote."""

    def __init__(self, home: Path, *arguments: str) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        environment = {**os.environ, "LMTUI_HOME": str(home), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        environment.pop("COLORTERM", None)
        environment.pop("NO_COLOR", None)
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lmtui", *arguments],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._master = master
        self._came = threading.Condition()
        self._text = b""
        self.reads: list[tuple[float, int]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            select.select([self._master], [], [])
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            with self._came:
                self.reads.append((time.perf_counter(), len(data)))
                self._text += data
                self._came.notify_all()

    def press(self, keys: str, until: str, *, after_s: float = 0.0) -> float:
        """Wait, type, and return the seconds until the pattern is written."""
        time.sleep(after_s)
        with self._came:
            self._text = b""
        begun = time.perf_counter()
        os.write(self._master, keys.encode())
        self.wait(until)
        return time.perf_counter() - begun

    def wait(self, pattern: str) -> None:
        """Wait until the pattern was written since the last key."""
        compiled = re.compile(pattern.encode())
        with self._came:
            if not self._came.wait_for(lambda: compiled.search(self._text), timeout=30):
                raise TimeoutError(f"never saw {pattern}; the end of what came: {self._text[-2000:]!r}")

    def cpu_s(self) -> float:
        """Return the CPU time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def viewer(home: Path, *arguments: str) -> Iterator[Viewer]:
    opened = Viewer(home, *arguments)
    try:
        yield opened
    finally:
        opened.close()


async def write_run(folder: Path) -> None:
    """Write the run until this process is ended."""
    run = RunDirectory(folder)
    random = np.random.default_rng(1)
    recorder = Recorder(run.ticks_path(0), time.monotonic_ns)
    recorder.start()
    recorder.release(time.monotonic_ns())
    lengths = random.integers(100, 400, REQUESTS)
    planned = (PlannedRequest(i, "", int(lengths[i]), 100) for i in range(REQUESTS))
    live: list[list[object]] = []
    sent = done = 0
    pid = os.getpid()
    began = time.monotonic()
    next_status = 0.0
    run.log_path.write_text("the engine is ready\n")
    with collector_off():
        while True:
            now = time.monotonic_ns()
            while len(live) < STREAMS:
                request = next(planned)
                session = recorder.session(request, now)
                session.sent(now)
                live.append([session, 0, request.output_len])
                sent += 1
            over = []
            for one in live:
                one[1] += 1  # type: ignore[operator]
                one[0].tick(now, one[1])  # type: ignore[attr-defined]
                if one[1] >= one[2]:  # type: ignore[operator]
                    one[0].end(Outcome.OK, now, output_tokens=one[1], token_source=TokenSource.ENGINE)  # type: ignore[attr-defined]
                    over.append(one)
                    done += 1
            if over:
                live = [one for one in live if one not in over]
            if time.monotonic() >= next_status:
                next_status = time.monotonic() + 0.5
                run.write_status(
                    Status(
                        run_id=run.run_id, name="bench", phase="running", pid=pid,
                        pid_started=machine.process_started(pid), host=machine.host(), boot_id=machine.boot_id(),
                        heartbeat=time.time(), started_at="2026-01-01T00:00:00Z", target_kind="simulated",
                        simulated=True,
                        counts=Counts(planned=REQUESTS, sent=sent, done=done, ok=done, in_flight=len(live)),
                    )
                )  # fmt: skip
            ticks = round((time.monotonic() - began) / TICK_S) + 1
            await asyncio.sleep(max(began + ticks * TICK_S - time.monotonic(), 0))


def live_lines(home: Path) -> list[Line]:
    """Measure the live screen."""
    config = presets.load("simulated").check().config
    assert config is not None
    run = RunDirectory.create(config)
    writer = subprocess.Popen(
        [sys.executable, __file__, "--write", str(run.path)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        while run.status() is None and writer.poll() is None:
            time.sleep(0.05)
        with viewer(home, "attach", run.run_id) as view:
            view.wait("tok/s")
            time.sleep(8)  # the first screens, and the axes as they grow
            with view._came:
                view.reads.clear()
            cpu, begun = view.cpu_s(), time.perf_counter()
            time.sleep(WATCH_S)
            wall = time.perf_counter() - begun
            cpu = view.cpu_s() - cpu
            reads = list(view.reads)
            written = sum(size for _, size in reads)
            stamps = [at for at, _ in reads]
            redraws = sum(b - a > QUIET_S for a, b in zip([0.0, *stamps], stamps, strict=False))
            waits = [
                view.press("t", f"{name} over time", after_s=0.13)
                for _ in range(PRESSES // 2)
                for name in ("ITL", "TTFT")
            ]
    finally:
        writer.kill()
        writer.wait()
    p95 = float(np.percentile(waits, 95)) * 1000
    return [
        Line("bytes to the terminal", "≤ 10 KB/s", f"{written / wall / 1000:.1f} KB/s", written / wall <= 10_000),
        Line("redraws", "≤ 4 /s", f"{redraws / wall:.1f} /s", redraws / wall <= 4.2),
        Line("CPU of the viewer", "≤ 15 %", f"{cpu / wall:.1%}", cpu / wall <= 0.15),
        Line("a key while live, P95", "< 100 ms", f"{p95:.0f} ms (P50 {np.median(waits) * 1000:.0f})", p95 < 100),
    ]


def start_lines(home: Path) -> list[Line]:
    """Measure how soon the first screen, and the help, are there."""
    found = []
    for _ in range(5):
        with viewer(home) as view:
            view.wait("quickstart")
            found.append(time.perf_counter() - view.begun)
    first = float(np.median(found))
    helps = []
    for _ in range(7):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lmtui", "--help"], capture_output=True, check=True, cwd=ROOT)
        helps.append(time.perf_counter() - begun)
    text = float(np.median(helps))
    return [
        Line("first screen", "< 1.0 s", f"{first:.2f} s", first < 1.0),
        Line("--help", "< 0.15 s", f"{text:.2f} s", text < 0.15),
    ]


def history_lines(home: Path) -> list[Line]:
    """Measure a history of many rows."""
    from tests.tui.driving import result

    cells = columns.cells(result())
    with (home / "history.csv").open("w") as file:
        file.write(encode(list(cells)))
        for i in range(ROWS):
            cells |= {
                "run_id": f"20260101T000000Z-bench-{i:06}",
                "name": f"bench-{i:05}",
                "output_throughput": str(i / 7),
            }
            file.write(encode(list(cells.values())))
    with viewer(home) as view:
        view.wait("quickstart")
        time.sleep(1.5)
        opened = view.press("h", f"{ROWS} runs")
        time.sleep(0.5)
        view.press("/", "/")
        keystrokes = [view.press(key, f"of {ROWS} runs", after_s=0.3) for key in "7314"]
        view.press("\x1b", f"{ROWS} runs")
        time.sleep(0.3)
        pages = [view.press("\x1b[6~", "bench-0", after_s=0.05) for _ in range(20)]
    return [
        Line(f"history of {ROWS:,} rows opens", "< 1 s", f"{opened:.2f} s", opened < 1),
        Line(
            "a keystroke of its filter, the slowest",
            "< 100 ms",
            f"{max(keystrokes) * 1000:.0f} ms",
            max(keystrokes) < 0.1,
        ),
        Line("a page down in it, the slowest", "< 100 ms", f"{max(pages) * 1000:.0f} ms", max(pages) < 0.1),
    ]


def form_lines(home: Path) -> list[Line]:
    """Measure how soon a section of the largest form opens."""
    with viewer(home) as view:
        view.wait("quickstart")
        time.sleep(1.0)
        view.press("/lmdeploy-engine\r", "turbomind")
        view.press("e", "› Target")
        time.sleep(0.5)
        opened = [view.press("\t", "› [A-Z]", after_s=0.2) for _ in range(16)]
    return [
        Line("a section of the form opens, the slowest", "< 150 ms", f"{max(opened) * 1000:.0f} ms", max(opened) < 0.15)
    ]


def main() -> int:
    """Measure and print the table; 1 when something is over its budget."""
    if sys.argv[1:2] == ["--write"]:
        asyncio.run(write_run(Path(sys.argv[2])))
    lines: list[Line] = []
    for measure in (start_lines, live_lines, history_lines, form_lines):
        with tempfile.TemporaryDirectory(prefix="lmtui-terminal-") as name:
            os.environ["LMTUI_HOME"] = name
            lines += measure(Path(name))
    print(f"| at {SIZE[0]}×{SIZE[1]}, a run of {round(STREAMS / TICK_S):,} ticks/s | budget | measured | |")
    print("|---|---|---|---|")
    for line in lines:
        print(f"| {line.what} | {line.budget} | {line.measured} | {'' if line.is_within else 'OVER'} |")
    return 0 if all(line.is_within for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
