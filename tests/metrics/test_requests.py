"""The definitions of METRICS per request, on sessions written out by hand."""

from __future__ import annotations

import math

import pytest

from lmtui.metrics.requests import per_request
from lmtui.metrics.sessions import Outcome, TokenSource
from tests.metrics.made_sessions import Made, config, made, summary

TEXT, USAGE, CHUNKS = TokenSource.TEXT, TokenSource.USAGE, TokenSource.CHUNKS


def test_ttft_gaps_and_e2e_are_from_sent_to_ticks() -> None:
    metrics = summary(made([Made(10, [(60, 1), (80, 3), (130, 4)], end=140)])).metrics
    assert metrics.ttft_ms.mean == 50
    assert (metrics.itl_ms.min, metrics.itl_ms.max, metrics.itl_ms.n) == (20, 50, 2)
    assert metrics.e2e_ms.mean == 120  # the last tick, not the end


def test_tpot_leaves_out_the_tokens_of_the_first_tick() -> None:
    assert summary(made([Made(0, [(50, 3), (90, 5), (110, 9)])])).metrics.tpot_ms.mean == pytest.approx(60 / 6)


@pytest.mark.parametrize(
    "request_",
    [
        Made(0, [(50, 4)]),  # one tick
        Made(0, [(50, 4), (70, 4)]),  # no token after the first
        Made(0, [(50, None)], tokens=40, source=USAGE),  # all of the total came with the only tick
        Made(0, [(50, None), (60, None)], tokens=1, source=USAGE),
    ],
)
def test_tpot_is_missing_when_no_token_came_after_the_first_tick(request_: Made) -> None:
    metrics = summary(made([request_])).metrics
    assert (metrics.tpot_ms.mean, metrics.tpot_ms.n) == (None, 0)
    assert metrics.completed == 1


def test_where_only_a_total_is_known_the_first_tick_counts_one_token_and_ticks_have_none() -> None:
    metrics = summary(made([Made(0, [(50, None), (70, None), (130, None)], tokens=9, source=USAGE)])).metrics
    assert metrics.tpot_ms.mean == pytest.approx(80 / 8)
    assert metrics.total_output_tokens == 9
    assert metrics.tokens_per_tick.n == metrics.token_gap_ms.n == 0
    assert metrics.itl_ms.n == 2


@pytest.mark.parametrize("tokens", [None, 3])
def test_chunks_are_counted_by_their_place_and_give_no_tokens_per_tick(tokens: int | None) -> None:
    ticks = [(50.0, 1), (70.0, 2), (130.0, 3)]
    result = summary(made([Made(0, ticks, tokens=tokens, source=CHUNKS)]))
    assert result.metrics.tpot_ms.mean == pytest.approx(80 / 2)
    assert result.metrics.total_output_tokens == 3
    assert result.metrics.tokens_per_tick.n == result.metrics.token_gap_ms.n == 0
    assert result.tokens_from == "chunks"


def test_a_token_gap_is_shared_by_the_tokens_of_its_later_tick() -> None:
    metrics = summary(made([Made(0, [(50, 1), (90, 5), (100, 5), (130, 6)])])).metrics
    assert metrics.token_gap_ms.n == 2  # a tick without a new token has no gap per token
    assert (metrics.token_gap_ms.min, metrics.token_gap_ms.max) == (10, 30)
    assert metrics.tokens_per_tick.mean == pytest.approx(6 / 4)


def test_a_servers_end_mark_without_text_belongs_to_the_last_tick_and_breaks_nothing() -> None:
    sessions = made([Made(0, [(50, 1), (70, 3)], tokens=4, source=USAGE)])
    result = summary(sessions)
    assert result.metrics.total_output_tokens == 4
    assert per_request(sessions).weight.tolist() == [1, 3]
    assert result.client.grade == "suspect"  # few samples only


def test_tokens_of_a_killed_run_are_counted_from_its_ticks() -> None:
    sessions = made(
        [
            Made(0, [(50, 2), (70, 5)], outcome=Outcome.ABORTED, source=TokenSource.NONE),
            Made(0, [(50, None), (70, None)], outcome=Outcome.ABORTED, source=TokenSource.NONE),
            Made(0, [(50, 7), (70, None)], outcome=Outcome.ABORTED, source=TokenSource.NONE),
        ]
    )
    assert per_request(sessions).total.tolist() == [5, 2, 7]
    assert summary(sessions).metrics.all_output_tokens == 14


def test_only_ok_requests_enter_latencies_and_throughputs_while_every_token_is_counted() -> None:
    sessions = made(
        [
            Made(0, [(100, 2), (1000, 4)]),
            Made(0, [(1, 1), (2, 3)], end=500, outcome=Outcome.TRUNCATED),
            Made(0, [(3, 1)], end=500, outcome=Outcome.CANCELLED, cancel_planned=True),
            Made(0, end=500, outcome=Outcome.HTTP_ERROR),
        ]
    )
    metrics = summary(sessions, errors={3: "HTTP 500"}).metrics
    assert (metrics.ttft_ms.n, metrics.ttft_ms.mean, metrics.itl_ms.n, metrics.e2e_ms.n) == (1, 100, 1, 1)
    assert (metrics.completed, metrics.total_output_tokens, metrics.all_output_tokens) == (1, 4, 8)
    assert (metrics.request_throughput, metrics.output_throughput, metrics.all_output_throughput) == (1, 4, 8)
    assert (metrics.input_throughput, metrics.total_input_tokens) == (10, 10)


def test_missing_counts_are_unknown_not_a_number() -> None:
    requests = per_request(made([Made(0, [(50, 1)]), Made(0, end=9, outcome=Outcome.CONNECT_ERROR)]))
    assert math.isnan(requests.tpot_ns[1])
    assert requests.first_ns[1] == -1


def test_a_run_of_nothing_is_empty() -> None:
    result = summary(made([], planned=3))
    assert (result.metrics.duration_s, result.metrics.mean_in_flight, result.metrics.peak_in_flight) == (
        None,
        None,
        None,
    )
    assert result.outcomes["dropped"] == 3
    assert result.client.grade == "invalid"


def test_open_load_also_gives_figures_from_due() -> None:
    sessions = made([Made(10, [(60, 1)], due=4), Made(30, [(60, 1)], due=30)])
    metrics = summary(sessions, config(load={"mode": "open", "rate": 4.0})).metrics
    assert (metrics.queue_ms.min, metrics.queue_ms.max) == (0, 6)
    assert (metrics.ttft_from_due_ms.max, metrics.e2e_from_due_ms.max, metrics.ttft_ms.max) == (56, 56, 50)
    closed = summary(sessions).metrics
    assert closed.queue_ms.n == closed.ttft_from_due_ms.n == closed.e2e_from_due_ms.n == 0
