"""Check LMDeploy's targets on a machine with a GPU: one script, one table.

    python tests/gpu/check.py                         everything, on the first GPU
    python tests/gpu/check.py --tp 2                  over two GPUs
    python tests/gpu/check.py --model /models/Qwen2.5-7B-Instruct
    python tests/gpu/check.py --targets turbomind pytorch
    python tests/gpu/check.py --targets transformers  tries the script itself where there is no GPU

It needs lmtui and LMDeploy in this environment (`pip install -e '.[lmdeploy]'`) and nothing from the network: without
--model it makes a tiny model with random weights. For each target - turbomind, pytorch, the pipeline over both engines,
and `lmdeploy serve api_server` over both - it does one run without cancels and one that cancels half of the requests,
through lmtui as a user would, and checks that

- the run is done, every request that was not cancelled is ok, and no request got lost;
- the identities of METRICS hold (TTFT + gaps = E2E, tokens per tick add up, peak >= mean, planned = sum of outcomes);
- at cancel rate 0.5 requests were cut, and the target told when it let go of each;
- no process of the run is left, and the GPU memory is back to what it was (within 256 MiB, after at most 60 s).

Each engine then does both runs once more as a series (`turbomind-kept`), and it is checked that the second found the
engine loaded.

Runs are kept under a temporary LMTUI_HOME, which is printed and left for a look when something failed. The exit code is
0 when every line of the table says ok, else 1. Allow five minutes for a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from lmtui.config.model import Config
from lmtui.metrics import identities
from lmtui.metrics.result import Result
from lmtui.runner import reaper, recorded, spawn
from lmtui.runner.rundir import RunDirectory
from lmtui.targets.gpus import visible_gpus
from lmtui.workload import tiny_tokenizer

TARGETS = (
    "turbomind",
    "turbomind-kept",
    "pytorch",
    "pytorch-kept",
    "pipeline-turbomind",
    "pipeline-pytorch",
    "api-server-turbomind",
    "api-server-pytorch",
)
KEPT = "-kept"
RATES = (0.0, 0.5)
REQUESTS, CONCURRENCY, INPUT_LEN, OUTPUT_LEN = 100, 16, 64, 64
RUN_S, SERVER_S, MEMORY_S = 900.0, 600.0, 60.0
MEMORY_SLACK = 256 * 2**20
COLUMNS = (
    ("target", 22),
    ("cancel", 7),
    ("ok", 5),
    ("cut", 5),
    ("TTFT p50", 10),
    ("ITL p50", 9),
    ("tok/s", 9),
    ("let go", 9),
    ("GPU MiB", 9),
    ("verdict", 0),
)


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    target: str
    rate: float
    result: Result | None
    memory_mib: float
    problems: tuple[str, ...]


def main() -> int:
    """Do what the command line asks; print the table."""
    options = _options()
    home = Path(tempfile.mkdtemp(prefix="lmtui-gpu-check-"))
    os.environ["LMTUI_HOME"] = str(home)
    os.environ["HF_HUB_OFFLINE"] = "1"
    model = options.model or str(tiny_model(home / "tiny-model"))
    for number, gpu in enumerate(visible_gpus({}).visible):
        print(f"GPU {number}: {gpu.name}, {gpu.used_bytes / 2**20:.0f} of {gpu.total_bytes / 2**20:.0f} MiB used")
    print(f"model: {model}\n\n{_row([name for name, _ in COLUMNS])}")
    lines = [line for target in options.targets for line in check(target, model, options.tp)]
    failed = [line for line in lines if line.problems]
    print(f"\n{len(lines) - len(failed)} of {len(lines)} ok")
    for line in failed:
        print(f"{line.target} at {line.rate:g}: {'; '.join(line.problems)}")
    if failed:
        print(f"runs are kept in {home}/runs")
    else:
        shutil.rmtree(home)
    return int(bool(failed))


def check(target: str, model: str, tp: int) -> Iterator[Line]:
    """Do both runs of a target, print a line for each, and yield them."""
    before = used_bytes()
    with contextlib.ExitStack() as stack:
        url = None
        if target.startswith("api-server-"):
            try:
                url = stack.enter_context(api_server(target.removeprefix("api-server-"), model, tp))
            except RuntimeError as error:
                yield _shown(Line(target, 0.0, None, 0.0, (str(error),)))
                return
        series = stack.enter_context(spawn.Series()) if target.endswith(KEPT) else None
        for rate in RATES:
            is_kept = series is not None and rate != RATES[-1]
            begin = spawn.start if series is None else partial(series.start, is_last=not is_kept)
            made = config(target.removesuffix(KEPT), model, tp, rate, url)
            result, problems = perform(made, begin, is_kept=is_kept)
            if series is not None and rate != RATES[0] and result is not None:
                problems = (*problems, *was_anew(result))
            held = used_bytes() - before if is_kept or url is not None else 0
            kept = wait_for_memory(before + held)
            if kept > MEMORY_SLACK:
                problems = (*problems, f"{kept / 2**20:.0f} MiB of GPU memory are not back")
            yield _shown(Line(target, rate, result, kept / 2**20, problems))
    kept = wait_for_memory(before)
    if url is not None and kept > MEMORY_SLACK:
        words = f"{kept / 2**20:.0f} MiB of GPU memory are not back after the server"
        yield _shown(Line(target, 0.0, None, kept / 2**20, (words,)))


def was_anew(result: Result) -> Iterator[str]:
    """Yield what is wrong with a run that should have found the engine loaded."""
    if not any("has answered its requests before" in note for note in result.notes):
        yield f"the engine was not kept: {'; '.join(result.notes)}"


def perform(
    made: Config, begin: Callable[[Config], RunDirectory], *, is_kept: bool
) -> tuple[Result | None, tuple[str, ...]]:
    """Do a run to its end; return its result and what is wrong with it. `is_kept`: its engine stays loaded."""
    try:
        run = begin(made)
    except Exception as error:
        return None, (f"{type(error).__name__}: {error}",)
    give_up_at = time.monotonic() + RUN_S
    while (status := run.status()) is None or not (status.is_final or status.is_lost):
        if time.monotonic() > give_up_at:
            if status is not None:
                os.kill(status.pid, signal.SIGKILL)
            return run.result(), (f"not over after {RUN_S:.0f} s: {status and status.message}",)
        time.sleep(0.2)
    result = run.result()
    if result is None or status.exit_code != 0:
        return result, (f"{status.phase}: {status.message or 'no word'}",)
    return result, tuple(faults(run, result, made.cancel.rate, status.pid, is_kept=is_kept))


def faults(run: RunDirectory, result: Result, rate: float, pid: int, *, is_kept: bool) -> Iterator[str]:
    """Yield what is wrong with a run that ended by itself."""
    try:
        identities.check(recorded.read(run.path, REQUESTS).sessions, result)
    except identities.IdentityError as error:
        yield str(error)
    cut, ok = result.outcomes["cancelled"], result.outcomes["ok"]
    if ok + cut != REQUESTS:
        others = {name: count for name, count in result.outcomes.items() if count}
        yield f"outcomes {others}"
    cancel = result.metrics.cancel
    if rate == 0 and cut:
        yield f"{cut} requests were cut"
    if rate > 0 and (cancel is None or not cancel.done):
        yield "no request was cut"
    elif rate > 0 and cancel is not None and result.config["target"]["kind"] != "server" and not cancel.let_go_ms.n:
        yield "nobody told when a cut request was let go of"
    if not is_kept and (left := reaper.stragglers(pid)):
        yield f"processes are left: {left}"


def config(target: str, model: str, tp: int, rate: float, url: str | None) -> Config:
    """Return the config of one run."""
    kind, _, backend = target.partition("-")
    section: dict[str, Any] = {"kind": kind, "model": model, "tp": tp, "session_len": 1024}
    section["cache_max_entry_count"] = 0.2
    if url is not None:
        section = {"kind": "server", "preset": "lmdeploy", "base_url": url, "tokenizer": model, "api_key_env": ""}
    elif kind == "pipeline":
        section["backend"] = backend
    elif kind == "transformers":
        section = {"kind": kind, "model": model}
    return Config.model_validate(
        {
            "name": f"{target} at {rate:g}",
            "target": section,
            "dataset": {"kind": "random", "input_len": INPUT_LEN, "output_len": OUTPUT_LEN},
            "load": {"concurrency": CONCURRENCY, "num_prompts": REQUESTS},
            "cancel": {"rate": rate},
        }
    )


@contextlib.contextmanager
def api_server(backend: str, model: str, tp: int) -> Iterator[str]:
    """Run `lmdeploy serve api_server`, and yield its URL. Raises RuntimeError when it does not come up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "lmdeploy", "serve", "api_server", model, "--backend", backend, "--tp", str(tp)]
    command += ["--server-name", "127.0.0.1", "--server-port", str(port), "--cache-max-entry-count", "0.2"]
    with tempfile.NamedTemporaryFile(prefix="lmtui-api-server-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait_until_up(process, f"http://127.0.0.1:{port}", Path(log.name))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()
            reaper.end(process.pid)


def _wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up_at = time.monotonic() + SERVER_S
    while time.monotonic() < give_up_at and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                return
        time.sleep(0.5)
    raise RuntimeError(f"the api_server did not come up: {log.read_text(errors='replace')[-500:]}")


def used_bytes() -> int:
    """Return the memory in use on all visible GPUs."""
    return sum(gpu.used_bytes for gpu in visible_gpus({}).visible)


def wait_for_memory(before: int) -> int:
    """Return how many bytes more than `before` are in use once that is little, or the time is over."""
    give_up_at = time.monotonic() + MEMORY_S
    while (kept := used_bytes() - before) > MEMORY_SLACK and time.monotonic() < give_up_at:
        time.sleep(0.5)
    return max(kept, 0)


def tiny_model(folder: Path) -> Path:
    """Make a Llama of two layers with random weights; its heads have the size that the engines' kernels know."""
    import tokenizers
    import torch
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    tokenizer = tiny_tokenizer.path()
    vocabulary = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    made = LlamaConfig(
        vocab_size=vocabulary.get_vocab_size(),
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        bos_token_id=vocabulary.token_to_id(tiny_tokenizer.BOS),
        eos_token_id=vocabulary.token_to_id(tiny_tokenizer.EOS),
    )
    torch.manual_seed(0)
    LlamaForCausalLM(made).to(torch.bfloat16).save_pretrained(folder)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
    return folder


def _shown(line: Line) -> Line:
    """Print a line, and return it."""
    cells = [line.target, f"{line.rate:g}", *["-"] * 6, f"{line.memory_mib:.0f}"]
    if line.result is not None:
        metrics, outcomes = line.result.metrics, line.result.outcomes
        cancel = metrics.cancel
        numbers = (
            metrics.ttft_ms.p50,
            metrics.itl_ms.p50,
            metrics.output_throughput,
            None if cancel is None else cancel.let_go_ms.p50,
        )
        cells[2:8] = [str(outcomes["ok"]), str(outcomes["cancelled"])]
        cells[4:4] = ["-" if number is None else f"{number:.2f}" for number in numbers]
    print(_row([*cells, "ok" if not line.problems else "FAILED"]), flush=True)
    return line


def _row(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True)).rstrip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="a model's folder (without it: a tiny one with random weights)")
    parser.add_argument("--tp", type=int, default=1, help="GPUs that share each layer")
    parser.add_argument("--targets", nargs="+", choices=(*TARGETS, "transformers"), default=TARGETS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
