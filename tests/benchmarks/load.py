"""The load on a server, through the load worker's own parts: how late it sends, and whether it grows.

    python tests/benchmarks/load.py [pacing] [memory]

`pacing` sends open loads at several rates and prints how late each request went; `memory` sends 50,000 short requests,
half of them cut, with the garbage collector off, and prints the resident memory on the way and what garbage there was.
The budgets: send lag P99 under 1 ms at 1,000 requests a second on an idle machine; no garbage, and no growth beyond the
first 5,000 requests but that of the allocator (a few MB).
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import uvloop

from lmtui.config.model import Config
from lmtui.runner import recorded
from lmtui.runner.load import Control, Load
from lmtui.runner.quiet import collector_off, resident_bytes
from lmtui.runner.recorder import Recorder
from lmtui.runner.share import Share
from lmtui.targets.server import ServerTarget
from lmtui.workload.plan import PlannedRequest
from tests.benchmarks.wire import HERE, server
from tests.benchmarks.wire import Load as Truth

CONNECTIONS = 64
RATES = (10, 100, 1000)
PACED_S = 5
REQUESTS = 50_000


def share(requests: tuple[PlannedRequest, ...], *, is_closed: bool) -> Share:
    """Return all requests as one worker's share."""
    return Share(
        requests=requests,
        warmup=(),
        is_closed=is_closed,
        concurrency=CONNECTIONS,
        max_in_flight=None,
        duration_s=None,
        is_cycled=False,
        period_s=0.0,
        grace_s=10.0,
        timeout_s=None,
        connections=CONNECTIONS,
        max_errors=None,
    )


async def send(port: int, part: Share, ticks: Path, *, watches_memory: bool = False) -> None:
    """Send a share as a load worker does; `watches_memory`: print the memory every 10,000 requests, and the garbage."""
    config = Config.model_validate(
        {
            "name": "load",
            "target": {"kind": "server", "base_url": f"http://127.0.0.1:{port}"},
            "dataset": {"kind": "random", "input_len": 40, "output_len": 20},
        }
    )
    target = ServerTarget(config)
    await target.open(lambda line: None)
    await target.prepare(part.connections, part.requests[:100])
    recorder = Recorder(ticks, time.monotonic_ns)
    load = Load(target, part, recorder, Control())
    told = [0]

    def look() -> list[tuple[int, ...]]:
        target.stats.drain_read_lags()
        done = recorder.tally.done
        if watches_memory and done // 5_000 > told[-1]:
            told.append(done // 5_000)
            print(f"   {done:7,} requests  {resident_bytes() / 1e6:6.1f} MB")
        return []

    recorder.take_samples = look
    recorder.start()
    with collector_off(lambda: 0):
        await load.run()
        if watches_memory:
            tally, before = recorder.tally, resident_bytes()
            print(f"   ok {tally.ok:,}  cancelled {tally.cancelled:,}  failed {tally.failed:,}")
            print(f"   garbage: {gc.collect()} objects; {before / 1e6:.1f} MB at the end")
    load.close()
    recorder.close()
    await target.close()


def pacing(port: int, folder: Path) -> None:
    """Print how late requests of open loads go."""
    print("pacing: send lag of an open load")
    for rate in RATES:
        requests = tuple(PlannedRequest(i, "hello " * 20, 20, due_s=i / rate) for i in range(rate * PACED_S))
        (ticks := folder / "ticks-0.bin").unlink(missing_ok=True)
        uvloop.run(send(port, share(requests, is_closed=False), ticks))
        sessions = recorded.read(folder, len(requests)).sessions
        lag = (sessions.sent_ns - sessions.due_ns) / 1e6
        p50, p99 = np.percentile(lag, [50, 99])
        print(f"   {rate:5} req/s  P50 {p50:.3f} ms  P99 {p99:.3f} ms  max {lag.max():.3f} ms  n {len(lag):,}")


def memory(port: int, folder: Path) -> None:
    """Print the memory of a long closed load."""
    print(f"memory: {REQUESTS:,} requests of 20 tokens, every second one cut, collector off")
    requests = tuple(PlannedRequest(i, "hello " * 20, 20, cancel_after=5 if i % 2 else None) for i in range(REQUESTS))
    uvloop.run(send(port, share(requests, is_closed=True), folder / "ticks-0.bin", watches_memory=True))


def main() -> None:
    """Run what was named, or all."""
    asked = sys.argv[1:] or ["pacing", "memory"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["gcc", "-O2", "-o", folder / "sse_server", HERE / "sse_server.c"], check=True)
        truth = Truth("load", ttft_ms=1, itl_ms=1, streams=0, requests=0, tokens=0)
        for what in (pacing, memory):
            if what.__name__ in asked:
                (folder / what.__name__).mkdir()
                with server(folder / "sse_server", truth) as (port, _):
                    what(port, folder / what.__name__)


if __name__ == "__main__":
    main()
