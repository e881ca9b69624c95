"""What recording costs: 200,000 ticks through a recorder into a tick log, read back and summarised.

    python tests/benchmarks/recording.py

Prints microseconds per tick in the loop's thread and in all threads, the growth of resident memory, and the seconds
that reading and summarising take. The budgets: 4 us per tick in all, 60 MB, 0.5 s to read.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from lmtui.config.model import Config
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.metrics.summary import summarise
from lmtui.runner import recorded
from lmtui.runner.quiet import collector_off, resident_bytes
from lmtui.runner.recorder import Recorder
from lmtui.workload.plan import PlannedRequest

REQUESTS = 2_000
TICKS_EACH = 100
AT_ONCE = 200
PER_SECOND = 20_000


async def record(path: Path) -> tuple[float, float, int]:
    """Record at 20,000 ticks a second; return us per tick of this thread and of the process, and the bytes it grew."""
    recorder = Recorder(path, time.monotonic_ns)
    requests = [PlannedRequest(i, "prompt", TICKS_EACH, 32) for i in range(REQUESTS)]
    recorder.start()
    recorder.release(time.monotonic_ns())
    with collector_off():
        before = resident_bytes()
        most = before
        in_thread = 0.0
        process_before = time.process_time()
        for at in range(0, REQUESTS, AT_ONCE):
            begun = time.thread_time()
            sessions = [recorder.session(request, time.monotonic_ns()) for request in requests[at : at + AT_ONCE]]
            for session in sessions:
                session.sent(time.monotonic_ns())
            in_thread += time.thread_time() - begun
            for tokens in range(1, TICKS_EACH + 1):
                begun = time.thread_time()
                for session in sessions:
                    session.tick(time.monotonic_ns(), tokens)
                in_thread += time.thread_time() - begun
                await asyncio.sleep(AT_ONCE / PER_SECOND)
                most = max(most, resident_bytes())
            begun = time.thread_time()
            for session in sessions:
                session.end(Outcome.OK, time.monotonic_ns(), output_tokens=TICKS_EACH, token_source=TokenSource.ENGINE)
            in_thread += time.thread_time() - begun
        whole = time.process_time() - process_before
    recorder.close()
    ticks = REQUESTS * TICKS_EACH
    return in_thread / ticks * 1e6, whole / ticks * 1e6, most - before


def main() -> None:
    """Measure and print the table."""
    config = Config.model_validate(
        {
            "name": "recording",
            "target": {"kind": "simulated"},
            "dataset": {"kind": "random", "input_len": 32, "output_len": TICKS_EACH},
            "load": {"concurrency": AT_ONCE, "num_prompts": REQUESTS},
        }
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_thread, whole, grown = asyncio.run(record(folder / "ticks-0.bin"))
        size = (folder / "ticks-0.bin").stat().st_size
        begun = time.perf_counter()
        found = recorded.read(folder, REQUESTS)
        read_s = time.perf_counter() - begun
        begun = time.perf_counter()
        result = summarise(
            config,
            found.sessions,
            found.samples,
            found.errors,
            run_id="recording",
            phase="done",
            started_at="",
            target={},
            notes=(),
            environment={},
            simulated=True,
        )
        summary_s = time.perf_counter() - begun
    assert result.outcomes["ok"] == REQUESTS
    assert len(found.sessions.tick_ns) == REQUESTS * TICKS_EACH
    for words, value in (
        ("ticks recorded", f"{len(found.sessions.tick_ns):,}"),
        ("loop's thread, clock call included", f"{in_thread:.2f} us/tick"),
        ("all threads, the pacing of this script included", f"{whole:.2f} us/tick"),
        ("resident memory grew by at most", f"{grown / 1e6:.1f} MB"),
        ("tick log", f"{size / 1e6:.1f} MB"),
        ("read back", f"{read_s:.3f} s"),
        ("summarise", f"{summary_s:.3f} s"),
    ):
        print(f"{words:<50}{value}")


if __name__ == "__main__":
    main()
