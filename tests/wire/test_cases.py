"""Every case of `tests/data/sse`, played over a real socket, has its right values."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop

from lmtui.metrics.sessions import UNKNOWN
from lmtui.wire import Client, Endpoint
from tests.play_case import CaseServer
from tests.wire.record import KeptAnswer, Record, ask, perform

CASES = sorted((Path(__file__).parent.parent / "data" / "sse").glob("*.json"))


def null(value: int) -> int | None:
    return None if value == UNKNOWN else value


async def measure(case: dict[str, Any], port: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was recorded, and apart the times."""
    request = case["request"]
    endpoint = Endpoint.parse(f"http://127.0.0.1:{port}")
    client = Client(endpoint, timeout_s=request["timeout_s"])
    await client.open()
    answer = KeptAnswer(case["api"], request.get("n", 1))
    record = Record()
    started = time.monotonic()
    await perform(
        client,
        ask(
            endpoint,
            case["api"],
            answer=answer,
            max_tokens=request["max_tokens"],
            ignores_eos=request["ignore_eos"],
            prompt=request["prompt"],
        ),
        record,
    )
    took_ms = (time.monotonic() - started) * 1e3
    await client.close()
    stamps = [record.sent_ns[-1], *(at for at, _ in record.ticks)]
    ms = [(b - a) / 1e6 for a, b in pairwise(stamps)]
    told = record.told
    values = {
        "outcome": record.outcome.label,
        "output_tokens": null(told["output_tokens"]),
        "token_source": told["token_source"].label,
        "prompt_tokens": null(told["prompt_tokens"]),
        "cached_tokens": null(told["cached_tokens"]),
        "content_events": len(record.ticks),
        "text": answer.text,
        "reasoning_text": answer.reasoning,
        "finish_reason": answer.made[-1].finish.get(0),
        "error": told["error"],
    }
    times = {
        "ttft_ms": ms[0] if ms else None,
        "e2e_ms": sum(ms) if ms else None,
        "gaps_ms": ms[1:] if ms else None,
        "took_ms": took_ms,
    }
    return values, times


def wrong(values: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not as expected."""
    keys = values.keys() & expect.keys() - {"error"}
    bad: dict[str, Any] = {key: (values[key], expect[key]) for key in keys if values[key] != expect[key]}
    if (expect["error_contains"] or "") not in values["error"]:
        bad["error"] = (values["error"], expect["error_contains"])
    if len(values["error"]) > expect.get("error_max_chars", 2000):
        bad["error_max_chars"] = len(values["error"])
    return bad


def late(times: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    """Return the times that are outside their windows; none may be missing, and none too many."""
    bad: dict[str, Any] = {}
    for key in ("ttft_ms", "e2e_ms"):
        window, value = expect[key], times[key]
        if (window is None) != (value is None) or (window is not None and not window[0] <= value <= window[1]):
            bad[key] = (value, window)
    windows, gaps = expect["gaps_ms"], times["gaps_ms"]
    fits = (windows is None) == (gaps is None) and len(windows or ()) == len(gaps or ())
    if not fits or any(not low <= gap <= high for gap, (low, high) in zip(gaps or (), windows or (), strict=True)):
        bad["gaps_ms"] = (gaps, windows)
    if times["took_ms"] > expect.get("returns_within_ms", 10_000):
        bad["took_ms"] = times["took_ms"]
    return bad


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_has_its_right_values(path: Path) -> None:
    case = json.loads(path.read_text())
    expectations = [case["expect"]]
    if "or" in case["expect"]:
        expectations.append({**case["expect"], **case["expect"]["or"]})
    for attempt in range(5):
        with CaseServer(case) as server:
            runner = uvloop.run if attempt % 2 == 0 else asyncio.run
            values, times = runner(measure(case, server.port))
        assert any(not wrong(values, expect) for expect in expectations), wrong(values, expectations[0])
        if any(not late(times, expect) for expect in expectations):
            return
    pytest.fail(f"only the times differ, five times: {late(times, expectations[0])}")
