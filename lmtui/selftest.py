"""`lmtui selftest`: what this client adds on this machine, measured against a server of known truth."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import httpx
import msgspec

from lmtui.config.document import Document
from lmtui.errors import VERDICT, LmtuiError
from lmtui.metrics.result import Result
from lmtui.output import print_json
from lmtui.targets.truth import Truth

STREAMS = (10, 50, 100, 200, 500, 1000)
TTFT_MS, ITL_MS, TOKENS, ROUNDS = 50, 20, 100, 2
"""The server's answer, and how many requests each stream makes in a step."""

TTFT_MEAN_LIMIT_MS, TTFT_P99_LIMIT_MS, ITL_LIMIT_MS = 3.0, 8.0, 0.3
"""A step is trusted while measured minus true stays within these: TTFT mean, TTFT P99, and ITL P50 and P99."""

TRIES = 3
"""A step beyond the limits is measured again, up to this often: what else runs on the machine spoils one, not all."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: load, truth and what was measured (ms), cost, and whether the figures can be trusted."""

    streams: int
    chunks_per_s: float
    ttft_mean_truth_ms: float
    ttft_mean_ms: float
    ttft_p99_truth_ms: float
    ttft_p99_ms: float
    itl_p50_truth_ms: float
    itl_p50_ms: float
    itl_p99_truth_ms: float
    itl_p99_ms: float
    cpu_us_per_chunk: float
    lost_chunks: int
    grade: str
    trusted: bool
    tries: int


def selftest(streams: Sequence[int], *, as_json: bool, quiet: bool) -> int:
    """Climb the load and print each step; exit with 5 when not even the first step can be trusted."""
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="lmtui-selftest-") as home, _home(home), truth_server() as port:
        for i, count in enumerate(streams):
            if not quiet:
                print(f"step {i + 1} of {len(streams)}: {count} streams", file=sys.stderr, flush=True)
            steps.append(_step(port, count))
    if as_json:
        print_json([asdict(step) for step in steps])
    else:
        print(table(steps))
    return 0 if steps[0].trusted else VERDICT


def _step(port: int, streams: int) -> Step:
    """Measure one step until it can be trusted, at most TRIES times; return the last."""
    for tries in range(1, TRIES):
        step = measure(port, streams)
        if step.trusted:
            return replace(step, tries=tries)
    return replace(measure(port, streams), tries=TRIES)


@contextmanager
def _home(folder: str) -> Iterator[None]:
    """Keep the runs of the selftest out of the user's runs and history."""
    before = os.environ.get("LMTUI_HOME")
    os.environ["LMTUI_HOME"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["LMTUI_HOME"]
        else:
            os.environ["LMTUI_HOME"] = before


@contextmanager
def truth_server(ttft_ms: float = TTFT_MS, itl_ms: float = ITL_MS) -> Iterator[int]:
    """Run the server of known truth and give its port; closing its standard input ends it."""
    command = [sys.executable, "-m", "lmtui.targets.truth", str(ttft_ms), str(itl_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.strip().isdigit():
            raise LmtuiError(f"the server of known truth did not start (exit code {process.wait()})")
        try:
            yield int(line)
        finally:
            process.stdin.close()


def step_config(port: int, streams: int) -> Document:
    """Return the config of one step: a closed load of `streams` on the server at `port`."""
    text = f"""
name = "selftest-{streams}"
[target]
kind = "server"
model = "truth"
base_url = "http://127.0.0.1:{port}"
preflight = false
[dataset]
kind = "random"
input_len = 32
output_len = {TOKENS}
[load]
concurrency = {streams}
num_prompts = {streams * ROUNDS}
warmup_requests = {min(streams, 10)}
workers = 1
"""
    return Document.parse(text, "the selftest's own config")


def measure(port: int, streams: int) -> Step:
    """Run one step through the whole product, and set it beside what the server says."""
    from lmtui.headless import perform

    config = step_config(port, streams).check().config
    assert config is not None
    directory, status = perform(config, (), quiet=True)
    result = directory.result()
    if result is None or not result.metrics.completed:
        raise LmtuiError(f"the step with {streams} streams gave no result: {status.message}")
    with httpx.Client(trust_env=False, timeout=10) as client:
        truth = msgspec.json.decode(client.get(f"http://127.0.0.1:{port}/truth").content, type=Truth)
    return compare(streams, truth, result)


def compare(streams: int, truth: Truth, result: Result) -> Step:
    """Set a result beside the truth. The server also counts the warm-up, whose true figures are the same."""
    metrics = result.metrics
    chunks = int(_known(metrics.all_output_tokens, "count of tokens"))
    figures = {
        "ttft_mean": (truth.ttft_ms.mean, metrics.ttft_ms.mean, TTFT_MEAN_LIMIT_MS),
        "ttft_p99": (truth.ttft_ms.p99, metrics.ttft_ms.p99, TTFT_P99_LIMIT_MS),
        "itl_p50": (truth.itl_ms.p50, metrics.itl_ms.p50, ITL_LIMIT_MS),
        "itl_p99": (truth.itl_ms.p99, metrics.itl_ms.p99, ITL_LIMIT_MS),
    }
    known = {
        name: (_known(true, f"true {name}"), _known(measured, name)) for name, (true, measured, _) in figures.items()
    }
    lost = streams * ROUNDS * TOKENS - chunks
    within = all(abs(known[name][1] - known[name][0]) <= limit for name, (_, _, limit) in figures.items())
    return Step(
        streams=streams,
        chunks_per_s=_known(metrics.all_output_throughput, "throughput"),
        ttft_mean_truth_ms=known["ttft_mean"][0],
        ttft_mean_ms=known["ttft_mean"][1],
        ttft_p99_truth_ms=known["ttft_p99"][0],
        ttft_p99_ms=known["ttft_p99"][1],
        itl_p50_truth_ms=known["itl_p50"][0],
        itl_p50_ms=known["itl_p50"][1],
        itl_p99_truth_ms=known["itl_p99"][0],
        itl_p99_ms=known["itl_p99"][1],
        cpu_us_per_chunk=1e6 * _known(result.client.cpu_s, "CPU time") / max(chunks, 1),
        lost_chunks=lost,
        grade=result.client.grade,
        trusted=within and lost == 0,
        tries=1,
    )


def _known(value: float | None, words: str) -> float:
    """Return a figure that every step must have."""
    if value is None:
        raise LmtuiError(f"the selftest's step has no {words}: run `lmtui selftest` again")
    return float(value)


def table(steps: Sequence[Step]) -> str:
    """Return the steps as text: measured figures with their error against the truth in brackets."""
    lines = [
        f"A server of known truth on loopback: TTFT {TTFT_MS} ms, then a token every {ITL_MS} ms, {TOKENS} tokens.",
        "Each figure: measured (measured - true), ms.",
        "",
        f"{'streams':>7} {'chunks/s':>9} {'TTFT mean':>16} {'TTFT P99':>17} {'ITL P50':>15} {'ITL P99':>15} "
        f"{'us/chunk':>8}  trusted",
    ]
    for step in steps:
        pairs = (
            (step.ttft_mean_ms, step.ttft_mean_truth_ms, 16),
            (step.ttft_p99_ms, step.ttft_p99_truth_ms, 17),
            (step.itl_p50_ms, step.itl_p50_truth_ms, 15),
            (step.itl_p99_ms, step.itl_p99_truth_ms, 15),
        )
        cells = " ".join(f"{f'{value:.2f} ({value - true:+.2f})':>{width}}" for value, true, width in pairs)
        lost = f", {step.lost_chunks} chunks lost" if step.lost_chunks else ""
        lines.append(
            f"{step.streams:>7} {step.chunks_per_s:>9,.0f} {cells} {step.cpu_us_per_chunk:>8.1f}  "
            f"{'yes' if step.trusted else 'NO'}{lost}" + (f", try {step.tries}" if step.tries > 1 else "")
        )
    failed = next((step for step in steps if not step.trusted), None)
    lines.append("")
    if failed is None:
        lines.append(
            f"Every step can be trusted on this machine, up to {steps[-1].streams} streams on one load worker."
        )
    else:
        lines.append(
            f"Not to be trusted from {failed.streams} streams ({failed.chunks_per_s:,.0f} chunks/s) on: use more "
            "load.workers, or a machine with more cores. Client and server share this machine's cores here."
        )
    return "\n".join(lines)
