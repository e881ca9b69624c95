"""The selftest: its verdict on given figures, and a short real one against its own server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from lmtui.metrics.result import Distribution, Result
from lmtui.selftest import ROUNDS, TOKENS, Step, compare, table, truth_server
from lmtui.targets.truth import Truth
from tests.tui.driving import result as any_result

TRUTH = Truth(
    ttft_ms=Distribution(mean=50.2, p99=50.9, n=20),
    itl_ms=Distribution(p50=20.0, p99=20.4, n=1980),
    requests=20,
    chunks=2000,
)


def measured(ttft_mean: float = 50.5, ttft_p99: float = 51.5, itl_p99: float = 20.5, tokens: int = 2000) -> Result:
    """Return a result with these figures of 10 streams."""
    made = any_result()
    metrics = msgspec.structs.replace(
        made.metrics,
        ttft_ms=Distribution(mean=ttft_mean, p99=ttft_p99, n=20),
        itl_ms=Distribution(p50=20.0, p99=itl_p99, n=1980),
        all_output_tokens=tokens,
        all_output_throughput=500.0,
    )
    return msgspec.structs.replace(made, metrics=metrics)


@pytest.mark.parametrize(
    ("figures", "trusted"),
    [
        ({}, True),
        ({"ttft_mean": 53.3}, False),
        ({"ttft_p99": 59.0}, False),
        ({"itl_p99": 20.8}, False),
        ({"itl_p99": 20.0}, False),
        ({"tokens": 1999}, False),
    ],
)
def test_a_step_is_trusted_within_every_limit(figures: dict[str, float], trusted: bool) -> None:
    assert ROUNDS * TOKENS * 10 == 2000
    assert compare(10, TRUTH, measured(**figures)).trusted is trusted  # type: ignore[arg-type]


def test_the_table_names_the_step_from_which_on_the_client_cannot_be_trusted() -> None:
    good = compare(10, TRUTH, measured())
    bad = replace(compare(10, TRUTH, measured(ttft_mean=90)), streams=500)
    assert "up to 10 streams" in table([good])
    text = table([good, bad])
    assert "from 500 streams" in text
    assert "NO" in text


@pytest.mark.slow
def test_the_server_of_known_truth_keeps_its_schedule_and_says_so() -> None:
    with truth_server(ttft_ms=20, itl_ms=5) as port:
        body = b'{"max_tokens": 4}'
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            received = b""
            while b"0\r\n\r\n" not in received:
                received += client.recv(65536)
        truth = msgspec.json.decode(httpx.get(f"http://127.0.0.1:{port}/truth", trust_env=False).content, type=Truth)
    assert received.count(b'"text":" word"') == 4
    assert b'"completion_tokens":4' in received
    assert (truth.requests, truth.chunks, truth.itl_ms.n) == (1, 4, 3)
    assert truth.ttft_ms.min is not None
    assert truth.ttft_ms.min >= 20
    assert truth.itl_ms.mean is not None
    assert truth.itl_ms.mean >= 4  # the schedule is absolute: a late chunk shortens the next gap, never the sum


@pytest.mark.slow
def test_a_short_selftest_finds_every_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "lmtui", "selftest", "--streams", "3", "--json", "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    (line,) = done.stdout.splitlines()
    (step,) = msgspec.json.decode(line, type=list[Step])
    assert done.returncode == (0 if step.trusted else 5), done.stderr
    assert (step.streams, step.lost_chunks) == (3, 0)
    assert json.loads(line)[0]["cpu_us_per_chunk"] > 0
    assert not list(tmp_path.iterdir()), "the selftest's runs are not the user's"
