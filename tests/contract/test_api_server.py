"""LMDeploy's real `api_server` under the server target: streams, usage, errors in the stream, cuts, metrics."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lmtui.cli import main
from lmtui.config.model import Config
from lmtui.errors import NO_RESULT, ConfigError
from lmtui.metrics.result import Result
from lmtui.runner import runs, spawn
from lmtui.runner.rundir import Status
from tests.contract.api_server import FAILS, TOO_LARGE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a running server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.api_server", model, str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up_at = time.monotonic() + 90
    while True:
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up_at, log.read_text()
        time.sleep(0.05)


def config(url: str, output_len: int = 12, **sections: dict[str, Any]) -> Config:
    values: dict[str, dict[str, Any]] = {
        "target": {"kind": "server", "preset": "lmdeploy", "base_url": url, "api_key_env": ""},
        "dataset": {"kind": "random", "input_len": 8, "output_len": output_len},
        "load": {"concurrency": 8, "num_prompts": 60, "workers": 1},
    }
    for name, keys in sections.items():
        values[name] = {**values.get(name, {}), **keys}
    return Config.model_validate({"schema": 1, "name": "api server", **values})


def performed(made: Config) -> tuple[Status, Result]:
    run = spawn.start(made)
    give_up_at = time.monotonic() + 120
    while (status := run.status()) is None or not status.is_final:
        assert time.monotonic() < give_up_at, run.log_tail()
        time.sleep(0.05)
    result = run.result()
    assert result is not None, (status, run.log_tail())
    return status, result


@pytest.mark.parametrize("api", ["completions", "chat", "sglang"])
def test_streams_are_measured_with_the_servers_counts(server: str, api: str) -> None:
    status, result = performed(config(server, target={"api": api}))
    assert (status.exit_code, result.outcomes["ok"]) == (0, 60), (status.message, result.errors)
    assert result.tokens_from == "usage"
    assert result.metrics.total_output_tokens == 60 * 12
    assert result.metrics.itl_ms.n >= 60 * 8
    assert result.metrics.server_input_tokens is not None
    assert result.target["model"] is not None


def test_a_request_without_stream_is_one_answer(server: str) -> None:
    status, result = performed(config(server, request={"stream": False}))
    assert (status.exit_code, result.outcomes["ok"]) == (0, 60), (status.message, result.errors)
    assert result.metrics.itl_ms.n == 0
    assert result.metrics.total_output_tokens == 60 * 12


@pytest.mark.parametrize("output_len", [FAILS, TOO_LARGE])
def test_an_engine_s_failure_inside_a_stream_of_status_200_is_an_error(server: str, output_len: int) -> None:
    status, result = performed(config(server, output_len, target={"preflight": False}))
    assert status.exit_code == NO_RESULT
    assert result.outcomes["stream_error"] == 60
    assert "internal server error" in result.errors[0].message.lower()


@pytest.mark.parametrize("wanted", ["json_schema", "json_object", "regex_schema"])
def test_the_server_takes_each_response_format(server: str, wanted: str) -> None:
    status, result = performed(
        config(
            server,
            target={"api": "chat"},
            guided={"response_format": wanted, "baseline": False},
            load={"num_prompts": 8},
        )
    )
    assert (status.exit_code, result.outcomes["ok"]) == (0, 8), (status.message, result.errors)


def test_a_guided_run_and_its_baseline_are_done_and_compared(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = config(server, target={"api": "chat"}, guided={"response_format": "json_object"}, load={"num_prompts": 40})
    with pytest.raises(ConfigError, match="asks for two runs of the same plan: `lmtui run` does both"):
        spawn.start(made)
    file = tmp_path / "guided.toml"
    file.write_text(made.to_toml())
    assert main(["run", str(file), "--quiet"]) == 0
    newest, oldest = (run.result() for run in runs.all_runs())
    assert newest is not None
    assert oldest is not None
    assert [found.config["guided"]["response_format"] for found in (oldest, newest)] == ["none", "json_object"]
    assert newest.outcomes["ok"] == oldest.outcomes["ok"] == 40
    out = capsys.readouterr().out
    cost = out[out.index("What guided decoding costs per token") :]
    assert re.search(r"TPOT mean +[0-9.]+ ms without, [0-9.]+ ms with \([+-][0-9.]+%\)", cost)
    assert re.search(r"ITL mean +[0-9.]+ ms without", cost)


def test_cuts_close_the_connection_and_the_server_goes_on(server: str) -> None:
    status, result = performed(config(server, 40, cancel={"rate": 0.5}))
    assert status.exit_code == 0, status.message
    cancel = result.metrics.cancel
    assert cancel is not None
    assert cancel.done + cancel.missed == 30
    assert cancel.done > 10
    assert result.outcomes["ok"] == 60 - cancel.done
    give_up_at = time.monotonic() + 30
    while "lmdeploy:num_requests_running" not in (text := httpx.get(f"{server}/metrics", trust_env=False).text):
        assert time.monotonic() < give_up_at, text
        time.sleep(0.2)


def test_a_prompt_beyond_the_context_is_a_refused_request(server: str) -> None:
    status, result = performed(
        config(server, dataset={"input_len": 6000}, load={"num_prompts": 4}, target={"preflight": False})
    )
    assert status.exit_code == NO_RESULT
    assert result.outcomes["http_error"] == 4
    assert result.errors[0].message.startswith("400") or "400" in result.errors[0].message


def test_metrics_tell_of_the_requests(server: str) -> None:
    performed(config(server))
    text = httpx.get(f"{server}/metrics", trust_env=False).text
    assert "lmdeploy:generation_tokens_total" in text
    assert "lmdeploy:e2e_request_latency_seconds" in text
