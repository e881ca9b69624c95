"""Real servers for tests, started on a free loopback port and stopped by their own handles."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

READY_WITHIN_S = 120.0
STOP_WITHIN_S = 30.0
_LISTENING = "Uvicorn running on "


@dataclass(frozen=True)
class RunningServer:
    """A server that answers.

    Attributes:
        base_url: Its URL without a trailing slash.
        model: The name that it knows its model by (for `transformers serve`: the model's folder).
        log: Its stdout and stderr.
    """

    base_url: str
    model: str
    log: Path


@contextlib.contextmanager
def transformers_serve(model: Path, *flags: str) -> Iterator[RunningServer]:
    """Run `transformers serve MODEL` on the CPU; `flags` come after its own. Raises when it is not ready in time.

    It chooses its own free port (`--port 0`), so that no other process can take the port first.
    """
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(model)]
    command += ["--host", "127.0.0.1", "--port", "0", "--device", "cpu", *flags]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory(prefix="lmtui-serve-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=folder
            )
        try:
            yield RunningServer(_wait_until_ready(process, log), str(model), log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the base URL once the server answers there."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode}:\n{text[-2000:]}")
        if _LISTENING in text:
            base_url = text.split(_LISTENING, 1)[1].split()[0].rstrip("/")
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{base_url}/health", timeout=5, trust_env=False).is_success:
                    return base_url
        time.sleep(0.05)
    raise RuntimeError(
        f"the server was not ready within {READY_WITHIN_S:.0f} s:\n{log.read_text(errors='replace')[-2000:]}"
    )
