"""The wire against a server of known truth, with a prototype beside it that does nothing but read and stamp.

    python tests/benchmarks/wire.py [NAME...]

Builds `sse_server.c` with gcc, sends each load through `ServerTarget` and through `prototype_client.py`, and prints for
both how far TTFT and ITL are from what the server says it did, and the CPU time of a tick. On a busy machine compare
the two: the prototype is what is possible there.
"""

from __future__ import annotations

import asyncio
import gc
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uvloop

from lmtui.config.model import Config
from lmtui.metrics.sessions import Outcome
from lmtui.targets.server import ServerTarget
from lmtui.workload.plan import PlannedRequest

HERE = Path(__file__).parent
Figures = dict[str, float]


@dataclass(frozen=True)
class Load:
    """One load: what the server does, and how much is asked of it."""

    name: str
    ttft_ms: float
    itl_ms: float
    streams: int
    requests: int
    tokens: int


LOADS = (
    Load("200", 50, 20, 200, 400, 200),
    Load("500", 50, 20, 500, 1000, 100),
    Load("1000", 50, 20, 1000, 1000, 100),
    Load("5000", 500, 200, 5000, 5000, 50),
    Load("cpu25k", 50, 20, 500, 1000, 300),
    Load("flood", 0, 0, 8, 64, 2000),
)


@dataclass(slots=True)
class Recorder:
    """As little of a recorder as a session needs: one append a tick."""

    request: PlannedRequest
    rows: list[tuple[int, int, int]]
    cut_as: Outcome | None = None
    on_cut: object = None
    sent_ns: int = 0
    outcome: Outcome | None = None
    error: str = ""

    def sent(self, at_ns: int) -> None:
        self.sent_ns = at_ns

    def tick(self, at_ns: int, tokens: int) -> bool:
        self.rows.append((self.request.index, at_ns, tokens))
        return False

    def end(self, outcome: Outcome, at_ns: int, *, error: str = "", **told: int) -> None:
        self.outcome, self.error = outcome, error


@contextmanager
def server(binary: Path, load: Load) -> Iterator[tuple[int, Figures]]:
    """Run the server; its truth is in the figures after the block."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [binary, str(port), str(load.ttft_ms), str(load.itl_ms)], stderr=subprocess.PIPE, text=True
    )
    truth: Figures = {}
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    try:
        yield port, truth
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=10)
        for name, mean, p50, p99 in re.findall(r"truth (\w+) ms: mean ([\d.]+) p50 ([\d.]+) p99 ([\d.]+)", told):
            truth.update({f"{name} mean": float(mean), f"{name} p50": float(p50), f"{name} p99": float(p99)})


async def measure(load: Load, port: int) -> Figures:
    """Send the load through the server target."""
    config = Config.model_validate(
        {
            "schema": 1,
            "name": "wire",
            "target": {"kind": "server", "base_url": f"http://127.0.0.1:{port}"},
            "dataset": {"kind": "random", "input_len": 40, "output_len": load.tokens},
        }
    )
    target = ServerTarget(config)
    await target.open(lambda line: None)
    requests = [PlannedRequest(i, "hello world " * 20, load.tokens) for i in range(load.requests)]
    await target.prepare(load.streams, requests)
    rows: list[tuple[int, int, int]] = []
    todo, sessions = iter(requests), list[Recorder]()

    async def worker() -> None:
        for request in todo:
            session = Recorder(request, rows)
            sessions.append(session)
            await target.perform(request, session)  # type: ignore[arg-type]

    gc.collect()
    gc.freeze()
    gc.disable()
    target.stats.drain_read_lags()
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(worker() for _ in range(load.streams)))
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    gc.enable()
    stats = target.stats
    await target.close()
    bad = [session for session in sessions if session.outcome is not Outcome.OK]
    if bad or len(rows) != load.requests * load.tokens:
        print(f"LOST: {len(rows)} ticks, {len(bad)} requests not ok: {bad[:1]}", file=sys.stderr)
    table = np.array(rows)
    order = np.lexsort((table[:, 1], table[:, 0]))
    index, at = table[order, 0], table[order, 1]
    first = np.concatenate(([True], index[1:] != index[:-1]))
    sent = np.array([session.sent_ns for session in sorted(sessions, key=lambda s: s.request.index)])
    ttft, itl = (at[first] - sent) / 1e6, (np.diff(at) / 1e6)[~first[1:]]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lag = np.array(stats.read_lag_ns) / 1e6
    print(
        f"   read lag p50 {np.median(lag):.2f} p99 {np.percentile(lag, 99):.2f} ms, clock {stats.clock}, "
        f"coalesced {stats.coalesced / max(stats.events, 1):.2%}, opened {stats.opened}, replaced {stats.replaced}"
    )
    return {
        "TTFT mean": ttft.mean(),
        "TTFT p99": float(np.percentile(ttft, 99)),
        "ITL mean": itl.mean(),
        "ITL p50": float(np.median(itl)),
        "ITL p99": float(np.percentile(itl, 99)),
        "us/tick": 1e6 * cpu / len(rows),
        "ticks/s": len(rows) / wall,
    }


def prototype(load: Load, port: int) -> Figures:
    """Send the load through the prototype, in a process of its own."""
    arguments = [str(load.streams), str(load.requests), str(load.tokens), str(port)]
    told = subprocess.run(
        [sys.executable, HERE / "prototype_client.py", "kernel", *arguments], capture_output=True, text=True, check=True
    ).stdout
    numbers = [float(n.replace(",", "")) for n in re.findall(r"\d[\d.,]*", told)]
    names = ("ticks/s", "us/tick", "TTFT mean", "", "TTFT p99", "ITL mean", "", "ITL p50", "", "ITL p99")
    return {name: number for name, number in zip(names, numbers, strict=False) if name}


def main() -> None:
    """Run the loads that were named, or all."""
    asked = sys.argv[1:] or [load.name for load in LOADS]
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "sse_server"
        subprocess.run(["gcc", "-O2", "-o", binary, HERE / "sse_server.c"], check=True)
        for load in (load for load in LOADS if load.name in asked):
            print(f"{load.name}: {load.streams} streams, {load.requests} requests of {load.tokens} tokens")
            for who in ("lmtui", "prototype"):
                with server(binary, load) as (port, truth):
                    figures = uvloop.run(measure(load, port)) if who == "lmtui" else prototype(load, port)
                off = [
                    f"{name} {figures[name]:.3f} ({figures[name] - truth[name]:+.3f})"
                    for name in ("TTFT mean", "TTFT p99", "ITL mean", "ITL p50", "ITL p99")
                    if name in truth
                ]
                print(f"   {who:9} {figures['us/tick']:.1f} us/tick at {figures['ticks/s']:,.0f}/s  " + "  ".join(off))


if __name__ == "__main__":
    main()
