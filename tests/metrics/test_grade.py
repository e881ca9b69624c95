from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lmtui.metrics.grade import Evidence, grade
from lmtui.metrics.sessions import Outcome, TokenSource
from tests.metrics.made_sessions import MS, Made, config, made, samples, summary

CLEAN: dict[str, Any] = {
    "ok": 1000,
    "failed": 0,
    "ended": 1000,
    "ttft_p50_ms": 100.0,
    "send_lag_p99_ms": 0.1,
    "coalesced_share": 0.0,
    "core_share": 0.3,
    "clock_steps": 0,
    "cached_share": None,
    "possible_rate": 100.0,
    "achieved_rate": 99.0,
    "mixed_sources": (),
    "violations": (),
}


def test_a_clean_run_is_good_and_needs_no_reason() -> None:
    assert grade(Evidence(**CLEAN)) == ("good", ())


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({"send_lag_p99_ms": 5.1}, "suspect", "send lag P99 5.1 ms, over 5 ms"),
        ({"send_lag_p99_ms": 4.0, "ttft_p50_ms": 60.0}, "suspect", "4 ms, over 5% of the TTFT P50 of 60 ms"),
        ({"coalesced_share": 0.02}, "suspect", "2.0% of events shared a stamp, over 1%"),
        ({"core_share": 0.81}, "suspect", "81% of a core, over 80%"),
        ({"failed": 11}, "suspect", "11 of 1000 requests failed: 1.1%, over 1%"),
        ({"ok": 29}, "suspect", "29 ok requests, fewer than 30"),
        ({"cached_share": 0.5}, "suspect", "50% of the prompts' tokens were cached, over 5%"),
        ({"clock_steps": 2}, "suspect", "stepped 2 times"),
        ({"failed": 501}, "invalid", "501 of 1000 requests failed: 50.1%, over 50%"),
        ({"ok": 0}, "invalid", "no request was ok"),
        ({"achieved_rate": 89.0}, "invalid", "sent 89 of 100 req/s that were due: 89%, under 90%"),
        ({"mixed_sources": ("usage", "chunks")}, "invalid", "counted in different ways: usage, chunks"),
        ({"violations": ("a is not b",)}, "invalid", "contradict each other: a is not b"),
    ],
)
def test_every_limit_has_its_sentence(change: dict[str, Any], level: str, words: str) -> None:
    got, reasons = grade(Evidence(**{**CLEAN, **change}))
    assert got == level
    assert [reason for reason in reasons if words in reason], reasons


@pytest.mark.parametrize(
    "change",
    [
        {"send_lag_p99_ms": 5.0},
        {"coalesced_share": 0.01},
        {"core_share": 0.8},
        {"failed": 10},
        {"ok": 30},
        {"cached_share": 0.05},
        {"achieved_rate": 90.0},
    ],
)
def test_a_limit_itself_is_allowed(change: dict[str, Any]) -> None:
    assert grade(Evidence(**{**CLEAN, **change}))[0] == "good"


@pytest.mark.parametrize(
    "unknown",
    [
        "ttft_p50_ms",
        "send_lag_p99_ms",
        "coalesced_share",
        "core_share",
        "cached_share",
        "possible_rate",
        "achieved_rate",
    ],
)
def test_what_is_not_known_is_no_reason(unknown: str) -> None:
    assert grade(Evidence(**{**CLEAN, unknown: None}))[0] == "good"


def rows(count: int, **changes: Any) -> list[Made]:
    return [Made(10.0 * place, [(10 * place + 50, 1), (10 * place + 70, 4)], **changes) for place in range(count)]


def test_the_grade_of_a_run_comes_from_its_sessions_and_samples() -> None:
    assert summary(made(rows(40))).client.grade == "good"
    busy = samples(busiest_core_share=0.95, coalesced=5, events=100, clock_steps=1, loop_lag_ns=np.array([MS]))
    result = summary(made(rows(40)), client=busy)
    assert result.client.grade == "suspect"
    assert len(result.client.reasons) == 3
    assert (result.client.coalesced_share, result.client.loop_lag_ms.max) == (0.05, 1)


def test_an_engine_in_the_workers_process_may_use_its_core() -> None:
    busy = samples(busiest_core_share=0.99, engine_inside=True)
    assert summary(made(rows(40)), client=busy).client.grade == "good"


def test_mixed_token_sources_of_ok_requests_are_invalid_and_named() -> None:
    mixed = [*rows(40), *rows(1, source=TokenSource.USAGE, tokens=4)]
    result = summary(made(mixed))
    assert (result.tokens_from, result.client.grade) == ("mixed", "invalid")
    assert "engine, usage" in result.client.reasons[0]
    failed = [*rows(40), *rows(1, source=TokenSource.USAGE, tokens=4, outcome=Outcome.TRUNCATED)]
    assert summary(made(failed)).tokens_from == "engine"


def test_a_client_that_cannot_keep_the_rate_is_invalid_and_a_slow_plan_is_not() -> None:
    asked = config(load={"mode": "open", "rate": 200.0})
    late = [Made(10.0 * at, [(10 * at + 50, 4)], due=5.0 * at) for at in range(40)]
    result = summary(made(late), asked)
    assert result.client.grade == "invalid"
    assert "sent 100 of 200 req/s" in result.client.reasons[0]
    by_plan = [Made(10.0 * at, [(10 * at + 50, 4)], due=10.0 * at) for at in range(40)]
    assert summary(made(by_plan), asked).client.grade == "good"


def test_cached_prompts_are_suspect_unless_the_load_shares_prefixes() -> None:
    warm = made(rows(40, prompt=10, cached=5))
    assert "warm cache" in summary(warm).client.reasons[0]
    shared = config(dataset={"input_len": 8, "output_len": 4, "prefix_len": 4})
    assert summary(warm, shared).client.grade == "good"
    trace = config(dataset={"kind": "trace", "path": "t.jsonl"}, load={"mode": "trace"})
    assert summary(warm, trace).client.grade == "good"
