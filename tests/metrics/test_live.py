"""The live fold agrees with the summary once the run is over, and is right at every moment before."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lmtui.metrics.histogram import BUCKETS, GROWTH, Histogram, bucket_of, percentiles_ns
from lmtui.metrics.live import LiveFold
from lmtui.metrics.series import OPEN_BINS, PercentileSeries
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions, TokenSource
from tests.metrics.made_sessions import MS, Made, made, summary

Ints = NDArray[np.int64]


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def send(fold: LiveFold, sessions: Sessions, rows: Ints) -> None:
    fold.sent(
        index=rows.astype(np.uint32),
        due_ns=sessions.due_ns[rows],
        sent_ns=sessions.sent_ns[rows],
        input_len=sessions.input_len[rows],
        asked_len=sessions.asked_len[rows].astype(np.int32),
        cancel_planned=sessions.cancel_planned[rows].astype(np.int32),
    )


def end(fold: LiveFold, sessions: Sessions, rows: Ints) -> None:
    fold.ends(
        index=rows.astype(np.uint32),
        end_ns=sessions.end_ns[rows],
        outcome=sessions.outcome[rows].astype(np.int32),
        output_tokens=sessions.output_tokens[rows].astype(np.int32),
        token_source=sessions.token_source[rows].astype(np.int32),
        prompt_tokens=sessions.prompt_tokens[rows],
        cached_tokens=sessions.cached_tokens[rows],
        connect_ns=sessions.connect_ns[rows],
        let_go_ns=sessions.let_go_ns[rows],
        wasted_tokens=sessions.wasted_tokens[rows].astype(np.int32),
    )


def play(sessions: Sessions, *, cuts: int, ticks_first: bool = False) -> LiveFold:
    """Feed a run in `cuts` slices of time; with `ticks_first` a slice's ticks come before its sends."""
    fold = LiveFold(sessions.planned)
    owner = np.repeat(np.arange(len(sessions.index)), np.diff(sessions.tick_start))
    times = np.concatenate((sessions.sent_ns, sessions.tick_ns, sessions.end_ns))
    edges = np.linspace(times.min(initial=0), times.max(initial=0) + 1, cuts + 1)
    fold.start(int(sessions.sent_ns[sessions.sent_ns >= 0].min(initial=0)))
    for low, high in itertools.pairwise(edges):
        rows = np.flatnonzero((sessions.sent_ns >= low) & (sessions.sent_ns < high))
        if not ticks_first:
            send(fold, sessions, rows)
        ticks = np.flatnonzero((sessions.tick_ns >= low) & (sessions.tick_ns < high))
        ticks = ticks[np.argsort(sessions.tick_ns[ticks], kind="stable")]
        fold.ticks(
            owner[ticks].astype(np.uint32), sessions.tick_ns[ticks], sessions.tick_tokens[ticks].astype(np.int32)
        )
        if ticks_first:
            send(fold, sessions, rows)
        end(fold, sessions, np.flatnonzero((sessions.end_ns >= low) & (sessions.end_ns < high)))
    return fold


@st.composite
def runs(draw: st.DrawFn) -> Sessions:
    rows = []
    for _ in range(draw(st.integers(1, 10))):
        sent = draw(st.integers(0, 6000))
        at, count, ticks = float(sent), 0, []
        told = draw(st.booleans())
        for gap, tokens in draw(st.lists(st.tuples(st.integers(1, 2500), st.integers(1, 5)), min_size=1, max_size=8)):
            at, count = at + gap * 0.7, count + tokens
            ticks.append((at, count if told else None))
        source = TokenSource.ENGINE if told else draw(st.sampled_from([TokenSource.USAGE, TokenSource.CHUNKS]))
        total = {TokenSource.ENGINE: count, TokenSource.USAGE: count}.get(source)
        picked = draw(st.booleans())
        outcome = Outcome.CANCELLED if picked and draw(st.booleans()) else Outcome.OK
        rows.append(Made(sent, ticks, outcome=outcome, source=source, tokens=total, cancel_planned=picked, let_go=3))
    return made(rows)


def near(value: float | None, exact: float | None) -> bool:
    return value == exact or (value is not None and exact is not None and math.isclose(value, exact, rel_tol=0.01))


@settings(max_examples=100, deadline=None)
@given(runs(), st.integers(1, 6), st.booleans())
def test_at_the_end_live_figures_are_the_summarys(sessions: Sessions, cuts: int, ticks_first: bool) -> None:
    live = play(sessions, cuts=cuts, ticks_first=ticks_first).snapshot()
    everything = dataclasses.replace(sessions, outcome=np.zeros_like(sessions.outcome))
    metrics, of_all = summary(sessions).metrics, summary(everything).metrics
    assert (live.sent, live.done, live.in_flight) == (len(sessions.index), len(sessions.index), 0)
    assert live.outcomes == summary(sessions).outcomes
    assert live.tokens == metrics.all_output_tokens
    ticks = np.diff(sessions.tick_start)
    told = sessions.tick_tokens[sessions.tick_start[1:] - 1]  # every request of these runs has a tick
    assert live.output_tokens.sum() == np.where(told == UNKNOWN, ticks, told).sum()
    for ours, exact in (
        (live.ttft_ms, of_all.ttft_ms),
        (live.itl_ms, of_all.itl_ms),
        (live.e2e_ms, metrics.e2e_ms),
        (live.tpot_ms, metrics.tpot_ms),
    ):
        assert ours.n == exact.n
        assert ours.unresolved == exact.unresolved
        for field in ("mean", "min", "p50", "p75", "p90", "p95", "p99", "p99_9", "max"):
            assert near(getattr(ours, field), getattr(exact, field)), field
        if exact.std is not None:
            assert ours.std == pytest.approx(exact.std, abs=1e-3 * (exact.max or 0) + 1e-9)
    if metrics.cancel is None:
        assert live.cancel is None
    else:
        assert live.cancel is not None
        assert (live.cancel.planned, live.cancel.done) == (metrics.cancel.planned, metrics.cancel.done)
        assert (live.cancel.missed, live.cancel.wasted_tokens) == (metrics.cancel.missed, metrics.cancel.wasted_tokens)
        assert live.cancel.let_go_ms.mean == metrics.cancel.let_go_ms.mean
        if not ticks_first:  # who survives is known once a request is sent
            assert of_all.cancel is not None
            survivors = of_all.cancel.survivors
            assert (live.cancel.survivors_ttft_ms.n, live.cancel.survivors_itl_ms.n) == (
                survivors.ttft_ms.n,
                survivors.itl_ms.n,
            )
            assert near(live.cancel.survivors_ttft_ms.mean, survivors.ttft_ms.mean)
            assert near(live.cancel.survivors_itl_ms.p99, survivors.itl_ms.p99)


def test_requests_in_flight_count_before_they_end() -> None:
    sessions = made([Made(0, [(50, 1), (70, 3)]), Made(10, [(60, 1)]), Made(20)])
    fold = LiveFold(5)
    send(fold, sessions, np.arange(3))
    fold.ticks(ints(0, 1, 0), ints(50 * MS, 60 * MS, 70 * MS), ints(1, 1, 3))
    live = fold.snapshot()
    assert (live.planned, live.sent, live.in_flight, live.done, live.tokens) == (5, 3, 3, 0, 4)
    assert (live.ttft_ms.n, live.itl_ms.n, live.tpot_ms.n, live.e2e_ms.n) == (2, 1, 1, 0)
    assert live.tpot_ms.mean == pytest.approx(10)
    assert live.elapsed_s == pytest.approx(0.07)


def test_a_tick_without_a_count_counts_one_until_a_total_comes() -> None:
    sessions = made([Made(0, [(50, None), (60, None)], tokens=9, source=TokenSource.USAGE)])
    fold = LiveFold(1)
    send(fold, sessions, np.arange(1))
    fold.ticks(ints(0, 0), ints(50 * MS, 60 * MS), ints(UNKNOWN, UNKNOWN))
    assert fold.snapshot().tokens == 2
    end(fold, sessions, np.arange(1))
    assert fold.snapshot().tokens == 9
    assert fold.snapshot().tpot_ms.mean == pytest.approx(10 / 8)


@pytest.mark.parametrize("start", [0, 7_000_000])
def test_figures_of_each_second(start: int) -> None:
    fold = LiveFold(2)
    fold.start(start * MS)
    sessions = made([Made(start), Made(start + 1500)])
    send(fold, sessions, np.arange(2))
    times = ints(*((start + at) * MS for at in (100, 900, 1700, 3100)))
    fold.ticks(ints(0, 0, 1, 0), times, ints(1, 4, 2, 5))
    live = fold.snapshot()
    assert live.elapsed_s == pytest.approx(3.1)
    assert live.output_tokens.tolist() == [4, 2, 0, 1]
    assert live.requests_in_flight.tolist() == [1, 2, 2, 2]
    assert live.ttft.p50_ms.tolist() == pytest.approx([100, 200, math.nan, math.nan], rel=0.01, nan_ok=True)
    assert live.itl.p99_ms.tolist() == pytest.approx([800, math.nan, math.nan, 2200], rel=0.01, nan_ok=True)


def test_a_snapshot_does_not_change_when_the_fold_goes_on() -> None:
    sessions = made([Made(0, [(50, 1)])])
    fold = LiveFold(1)
    send(fold, sessions, np.arange(1))
    before = fold.snapshot()
    kept = before.output_tokens.copy()
    fold.ticks(ints(0), ints(50 * MS), ints(1))
    assert before.output_tokens.tolist() == kept.tolist()
    assert (before.tokens, before.ttft_ms.n) == (0, 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.tokens = 3  # type: ignore[misc]


def test_before_anything_happened() -> None:
    live = LiveFold(7).snapshot()
    assert (live.planned, live.sent, live.start_ns, live.elapsed_s, live.cancel) == (7, 0, None, None, None)
    assert len(live.output_tokens) == 0
    assert live.ttft_ms.mean is None


def test_requests_beyond_the_plan_are_taken() -> None:
    fold = LiveFold(1)
    sessions = made([Made(float(place), [(place + 50.0, 1)]) for place in range(300)])
    send(fold, sessions, np.arange(300))
    end(fold, sessions, np.arange(300))
    assert (fold.snapshot().sent, fold.snapshot().done, fold.snapshot().in_flight) == (300, 300, 0)


def test_requests_dropped_before_they_were_sent_are_done_and_not_in_flight() -> None:
    fold = LiveFold(3)
    sessions = made([Made(0, [(50, 1)]), Made(None, due=10, outcome=Outcome.DROPPED)])
    send(fold, sessions, np.arange(1))
    end(fold, sessions, ints(1))
    live = fold.snapshot()
    assert (live.sent, live.done, live.in_flight, live.outcomes["dropped"]) == (1, 1, 1, 1)


@pytest.mark.parametrize("error_first", [True, False])
def test_errors_are_grouped_whichever_frame_comes_first(error_first: bool) -> None:
    sessions = made([Made(0, end=9, outcome=Outcome.HTTP_ERROR) for _ in range(3)])
    fold = LiveFold(3)
    send(fold, sessions, np.arange(3))
    if not error_first:
        end(fold, sessions, np.arange(3))
    fold.error(0, "HTTP 503: slot 1")
    fold.error(1, "HTTP 503: slot 2")
    if error_first:
        end(fold, sessions, np.arange(3))
    assert [(group.message, group.count) for group in fold.snapshot().errors] == [
        ("HTTP 503: slot 1", 2),
        ("no message was recorded", 1),
    ]


@given(st.lists(st.integers(1_000, 10**12), min_size=1, max_size=300), st.floats(0, 100))
def test_bucket_percentiles_are_within_one_percent(values: list[int], q: float) -> None:
    counts = np.bincount(bucket_of(ints(*values)), minlength=BUCKETS)
    exact = np.percentile(values, q)
    assert abs(percentiles_ns(counts, np.array([q]))[0] - exact) <= 0.01 * exact


def test_the_buckets_grow_by_one_percent_at_most_and_hold_any_time() -> None:
    assert GROWTH <= 1.01
    histogram = Histogram()
    histogram.add(ints(0, 999, 10**15))
    figures = histogram.figures_ms()
    assert (figures.min, figures.p50, figures.max, figures.n) == (0, 0, 1e9, 3)


def test_old_seconds_keep_their_figures_when_their_buckets_are_given_to_new_ones() -> None:
    series = PercentileSeries()
    series.add(ints(0), ints(10 * MS))
    series.add(ints(OPEN_BINS - 1), ints(20 * MS))
    series.add(ints(3 * OPEN_BINS), ints(30 * MS))
    series.add(ints(0), ints(9000 * MS))  # too late for its second
    series.add(ints(3 * OPEN_BINS - 1), ints(40 * MS))
    line = series.lines(3 * OPEN_BINS + 1).p50_ms
    assert np.flatnonzero(~np.isnan(line)).tolist() == [0, OPEN_BINS - 1, 3 * OPEN_BINS - 1, 3 * OPEN_BINS]
    assert line[~np.isnan(line)] == pytest.approx([10, 20, 40, 30], rel=0.01)


def test_a_request_whose_connection_was_replaced_is_sent_once() -> None:
    fold = LiveFold(2)
    sessions = made([Made(10, [(50, 1)], cancel_planned=True), Made(20)])
    again = made([Made(30, cancel_planned=True), Made(20)])
    send(fold, sessions, ints(0, 1))
    send(fold, again, ints(0))
    live = fold.snapshot()
    assert (live.sent, live.in_flight, live.done) == (2, 2, 0)
    assert live.requests_in_flight.tolist() == [2]
    assert live.cancel is not None
    assert live.cancel.planned == 1
    fold.ticks(ints(0), ints(50 * MS), ints(1))
    assert fold.snapshot().ttft_ms.mean == pytest.approx(20)  # from the second row, which counts


def test_two_rows_of_a_request_in_one_frame_are_one_request() -> None:
    fold = LiveFold(1)
    sessions = made([Made(10)])
    send(fold, sessions, ints(0, 0))
    assert (fold.snapshot().sent, fold.snapshot().in_flight) == (1, 1)


def test_a_request_that_found_no_connection_was_not_sent() -> None:
    fold = LiveFold(1)
    sessions = made([Made(None, due=5, end=9, outcome=Outcome.CONNECT_ERROR)])
    send(fold, sessions, ints(0))
    assert (fold.snapshot().sent, fold.snapshot().in_flight, fold.snapshot().done) == (0, 0, 0)
    end(fold, sessions, ints(0))
    assert (fold.snapshot().sent, fold.snapshot().in_flight, fold.snapshot().done) == (0, 0, 1)
