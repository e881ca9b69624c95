"""Figures of a whole run: duration, in flight, peak, rates, steady window, goodput, cancels, causes."""

from __future__ import annotations

import numpy as np
import pytest

from lmtui.metrics import identities
from lmtui.metrics.rate import rate_of, ready_ns, send_lag_ns
from lmtui.metrics.requests import per_request
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from tests.metrics.made_sessions import MS, Made, config, made, ns, summary

OPEN = {"load": {"mode": "open", "rate": 10.0}}


def tokens(sent: float, *at: float) -> Made:
    return Made(sent, [(time, place + 1) for place, time in enumerate(at)])


def test_a_closed_load_begins_with_its_release_and_an_open_one_with_its_first_send() -> None:
    sessions = made([tokens(100, 500, 1100)], start=50)
    assert summary(sessions).metrics.duration_s == pytest.approx(1.05)
    assert summary(sessions, config(**OPEN)).metrics.duration_s == pytest.approx(1.0)


def test_duration_ends_with_the_last_end_also_of_a_failed_request() -> None:
    sessions = made([tokens(0, 10), Made(0, end=2000, outcome=Outcome.TIMEOUT)])
    assert summary(sessions).metrics.duration_s == 2


def test_a_request_without_an_end_counts_until_its_last_tick() -> None:
    request = Made(0, [(10, 1), (70, 2)], outcome=Outcome.ABORTED)
    sessions = made([request])
    sessions.end_ns[0] = UNKNOWN
    assert summary(sessions).metrics.duration_s == pytest.approx(0.07)


def test_in_flight_frees_a_place_before_the_next_request_takes_it() -> None:
    metrics = summary(made([tokens(0, 100), tokens(100, 200), tokens(150, 200)])).metrics
    assert metrics.peak_in_flight == 2
    assert metrics.mean_in_flight == pytest.approx(250 / 200)


def test_the_peak_is_the_largest_second_wherever_it_begins() -> None:
    sessions = made([tokens(0, 900, 1000, 1100, 1200, 1899, 1900, 4000)])
    assert summary(sessions).metrics.peak_output_throughput == 5  # [900, 1900)


def test_the_peak_weighs_ticks_by_their_tokens_and_spreads_a_total() -> None:
    burst = Made(0, [(100, 1), (200, 9), (3000, 10)])
    assert summary(made([burst])).metrics.peak_output_throughput == 9
    total = Made(0, [(100, None), (200, None), (3000, None)], tokens=30, source=TokenSource.USAGE)
    assert summary(made([total])).metrics.peak_output_throughput == 20


def test_the_peak_of_a_run_shorter_than_a_second_is_its_mean() -> None:
    sessions = made([Made(0, [(100, 10), (200, 20)])])
    assert summary(sessions).metrics.peak_output_throughput == summary(sessions).metrics.all_output_throughput == 100


def test_rates_of_an_open_load() -> None:
    sessions = made([tokens(at, at + 50) for at in (0, 100, 200, 400)])
    metrics = summary(sessions, config(**OPEN)).metrics
    assert metrics.asked_rate == 10
    assert metrics.achieved_rate == pytest.approx(7.5)
    assert summary(sessions, config(load={"mode": "open"})).metrics.asked_rate == "inf"
    closed = summary(sessions).metrics
    assert (closed.asked_rate, closed.achieved_rate) == (None, None)


def test_a_trace_asks_for_its_own_rate() -> None:
    sessions = made([Made(0, [(90, 1)], due=0), Made(60, [(90, 1)], due=50), Made(100, [(120, 1)], due=100)])
    metrics = summary(sessions, config(load={"mode": "trace"})).metrics
    assert (metrics.asked_rate, metrics.achieved_rate) == (20, 20)


def test_waiting_for_a_place_under_the_cap_is_not_the_clients_lag() -> None:
    sessions = made(
        [
            Made(0, [(100, 1)], due=0),
            Made(1, [(200, 1)], due=0),
            Made(103, [(300, 1)], due=0),  # a place was free at 100
            Made(250, [(300, 1)], due=250),  # free since 200
        ]
    )
    requests = per_request(sessions)
    assert [value / MS for value in send_lag_ns(sessions, ready_ns(sessions, requests, 2), closed_load=False)] == [
        0,
        1,
        3,
        0,
    ]
    assert [value / MS for value in send_lag_ns(sessions, ready_ns(sessions, requests, None), closed_load=False)] == [
        0,
        1,
        103,
        0,
    ]


def test_the_burst_that_fills_a_closed_load_is_not_the_clients_lag() -> None:
    sessions = made([Made(4, [(100, 1)], due=0), Made(9, [(200, 1)], due=0), Made(101, [(300, 1)], due=100)])
    ready = ready_ns(sessions, per_request(sessions), None)
    assert [value / MS for value in send_lag_ns(sessions, ready, closed_load=True)] == [1]


def test_the_steady_window_of_a_closed_load_is_between_ramp_and_drain() -> None:
    rows = [tokens(0, 100, 1000), tokens(200, 300, 1100), tokens(1000, 1050, 2000), tokens(1100, 1150, 2600)]
    steady = summary(made(rows), config(load={"concurrency": 2})).metrics.steady
    assert steady is not None
    assert (steady.start_s, steady.end_s) == (0.2, 2.0)  # second send; first end after the last send
    assert steady.ttft_ms.n == 3
    assert steady.output_throughput == pytest.approx(6 / 1.8)
    assert steady.request_throughput == pytest.approx(3 / 1.8)


def test_an_open_load_is_steady_until_arrivals_stop() -> None:
    rows = [tokens(100 * place, 100 * place + 50, 100 * place + 450) for place in range(60)]
    steady = summary(made(rows), config(**OPEN)).metrics.steady
    assert steady is not None
    assert steady.start_s == pytest.approx(0.3)  # four in flight for half of the time, five for the other
    assert steady.end_s == pytest.approx(5.9)
    assert steady.request_throughput == pytest.approx(10, rel=0.05)


def test_an_open_load_that_the_target_cannot_keep_up_with_has_no_steady_window() -> None:
    rows = [tokens(100 * place, 100 * place + 50, 10_000 + 200 * place) for place in range(60)]
    assert summary(made(rows), config(**OPEN)).metrics.steady is None


GOOD = Made(0, [(50, 1), (70, 2), (90, 4)])


@pytest.mark.parametrize(
    ("slo", "is_good"),
    [
        ({"ttft_ms": 50.0}, True),
        ({"ttft_ms": 49.0}, False),
        ({"tpot_ms": 13.4}, True),
        ({"tpot_ms": 13.3}, False),
        ({"itl_ms": 20.0}, True),
        ({"itl_ms": 19.0}, False),
        ({"e2e_ms": 90.0}, True),
        ({"e2e_ms": 89.0}, False),
        ({"ttft_ms": 50.0, "e2e_ms": 89.0}, False),
    ],
)
def test_goodput_needs_every_objective(slo: dict[str, float], is_good: bool) -> None:
    metrics = summary(made([GOOD]), config(slo=slo)).metrics
    assert metrics.goodput == pytest.approx(is_good / 0.09)
    assert metrics.goodput_share == is_good


def test_goodput_is_missing_without_an_objective() -> None:
    metrics = summary(made([GOOD])).metrics
    assert (metrics.goodput, metrics.goodput_share) == (None, None)


def test_a_request_of_one_tick_has_no_gap_that_could_be_late() -> None:
    metrics = summary(made([Made(0, [(50, 4)])]), config(slo={"itl_ms": 1.0, "tpot_ms": 1.0})).metrics
    assert metrics.goodput_share == 1


def test_goodputs_share_is_of_all_that_were_due() -> None:
    rows = [
        GOOD,
        Made(0, [(500, 1)]),  # too late
        Made(0, end=50, outcome=Outcome.HTTP_ERROR),
        Made(0, [(20, 1)], outcome=Outcome.SHORT),
        Made(0, [(20, 1)], outcome=Outcome.CANCELLED, cancel_planned=True),  # left out
        Made(0, [(20, 1)], end=600, outcome=Outcome.ABORTED),
        Made(None, due=100, outcome=Outcome.DROPPED),  # its time had come
        Made(None, due=9000, outcome=Outcome.DROPPED),  # its time never came
    ]
    metrics = summary(made(rows, planned=20), config(slo={"ttft_ms": 100.0})).metrics
    assert metrics.goodput_share == pytest.approx(1 / 6)
    assert metrics.goodput == pytest.approx(1 / 0.6)


def test_the_cancel_experiment() -> None:
    rows = [
        Made(0, [(50, 1), (70, 2), (90, 4)]),
        Made(0, [(40, 3)], outcome=Outcome.CANCELLED, cancel_planned=True, tokens=3, let_go=4, wasted=2),
        Made(0, [(40, 5)], outcome=Outcome.CANCELLED, cancel_planned=True, tokens=5, let_go=8),
        Made(0, [(80, 1), (100, 4)], cancel_planned=True),
        Made(0, [(10, 1)], outcome=Outcome.TRUNCATED, cancel_planned=True),
    ]
    cancel = summary(made(rows)).metrics.cancel
    assert cancel is not None
    assert (cancel.planned, cancel.done, cancel.missed) == (4, 2, 1)
    assert (cancel.tokens_at_cancel.mean, cancel.let_go_ms.mean) == (4, 6)
    assert (cancel.wasted_tokens, cancel.tokens_after_cut) == (10, 2)
    assert cancel.wasted_share == pytest.approx(10 / (4 + 3 + 5 + 4 + 1 + 2))
    assert (cancel.survivors.n, cancel.survivors.ttft_ms.mean, cancel.survivors.itl_ms.mean) == (1, 50, 20)


def test_without_a_cancel_there_is_no_cancel_part() -> None:
    assert summary(made([GOOD])).metrics.cancel is None


def test_what_the_target_does_not_say_of_a_cancel_is_missing() -> None:
    cancel = summary(made([GOOD, Made(0, end=30, outcome=Outcome.CANCELLED, cancel_planned=True)])).metrics.cancel
    assert cancel is not None
    assert (cancel.let_go_ms.mean, cancel.tokens_after_cut, cancel.wasted_tokens) == (None, None, 0)


def test_failures_are_grouped_by_cause_with_one_sample() -> None:
    rows = [Made(0, end=9, outcome=Outcome.HTTP_ERROR) for _ in range(4)]
    rows += [Made(0, [(5, 1)], tokens=1, outcome=Outcome.SHORT), Made(0, end=9, outcome=Outcome.ABORTED), GOOD]
    errors = {0: "HTTP 503: slot 17 busy", 1: "HTTP 503: slot 4 busy", 2: "HTTP 500: oops", 5: "cut by the end"}
    groups = summary(made(rows), errors=errors).errors
    assert [(group.outcome, group.message, group.count) for group in groups] == [
        ("http_error", "HTTP 503: slot 17 busy", 2),
        ("http_error", "HTTP 500: oops", 1),
        ("http_error", "no message was recorded", 1),
        ("short", "ended by itself after 1 of 4 tokens although ignore_eos was asked", 1),
    ]


def test_many_different_causes_are_kept_in_number_but_not_in_words() -> None:
    words = [f"{'x' * place}y" for place in range(80)]
    rows = [Made(0, end=9, outcome=Outcome.HTTP_ERROR) for _ in words]
    groups = summary(made(rows), errors=dict(enumerate(words))).errors
    assert len(groups) == 51
    assert sum(group.count for group in groups) == 80
    assert groups[-1].message == "other messages"


def test_planned_requests_that_the_log_does_not_know_were_dropped() -> None:
    sessions = made([GOOD, Made(None, outcome=Outcome.DROPPED)], planned=10)
    result = summary(sessions)
    assert result.outcomes["dropped"] == 9
    assert sum(result.outcomes.values()) == 10
    identities.check(sessions, result)


def test_input_tokens_as_asked_as_counted_by_the_server_and_from_its_cache() -> None:
    rows = [Made(0, [(50, 1)], input_len=10, prompt=12, cached=4), Made(0, [(50, 1)], input_len=20, prompt=23)]
    metrics = summary(made(rows)).metrics
    assert (metrics.asked_input_tokens, metrics.server_input_tokens, metrics.total_input_tokens) == (30, 35, 30)
    assert metrics.cached_tokens == 4


def test_input_tokens_are_the_servers_without_a_tokenizer_and_missing_without_either() -> None:
    told = Made(0, [(50, 1)], input_len=None, prompt=12)
    metrics = summary(made([told, told])).metrics
    assert (metrics.total_input_tokens, metrics.asked_input_tokens, metrics.server_input_tokens) == (24, None, 24)
    metrics = summary(made([told, Made(0, [(50, 1)], input_len=None)])).metrics
    assert (metrics.total_input_tokens, metrics.input_throughput, metrics.server_input_tokens) == (None, None, None)


def test_where_nothing_is_ok_there_are_nulls_and_causes_and_no_zeros() -> None:
    result = summary(made([Made(0, end=50, outcome=Outcome.CONNECT_ERROR)]), errors={0: "refused"})
    metrics = result.metrics
    assert metrics.completed == 0
    for figure in (
        metrics.request_throughput,
        metrics.input_throughput,
        metrics.output_throughput,
        metrics.all_output_throughput,
        metrics.peak_output_throughput,
        metrics.total_input_tokens,
        metrics.total_output_tokens,
        metrics.ttft_ms.mean,
        metrics.steady,
    ):
        assert figure is None
    assert result.tokens_from is None
    assert [group.message for group in result.errors] == ["refused"]


def test_the_result_keeps_its_config_as_the_file_has_it() -> None:
    result = summary(made([GOOD]), config(load={"concurrency": 3}))
    assert result.config["load"]["concurrency"] == 3
    assert result.config["load"]["rate"] == "inf"
    assert result.config["name"] == "t"


def test_helper_times_are_exact() -> None:
    assert (ns(1.5), ns(None)) == (1_500_000, UNKNOWN)


def test_connection_times_are_those_of_ok_requests_that_opened_one() -> None:
    rows = [
        Made(0, [(50, 1)], connect=4.0),
        Made(0, [(50, 1)], connect=8.0),
        Made(0, [(50, 1)]),
        Made(0, end=9, outcome=Outcome.TIMEOUT, connect=500.0),
    ]
    found = summary(made(rows)).metrics.connect_ms
    assert (found.n, found.min, found.mean, found.max) == (2, 4.0, 6.0, 8.0)
    assert summary(made(rows[2:])).metrics.connect_ms.n == 0


def test_a_rate_is_of_the_time_between_the_first_and_the_last() -> None:
    assert rate_of(np.array([7000, 8000, 9000, 8500]) * MS) == pytest.approx(1.5)
    assert rate_of(np.array([7000]) * MS) is None
    assert rate_of(np.array([7000, 7000]) * MS) is None
