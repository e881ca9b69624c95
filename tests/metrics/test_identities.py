"""The identities of METRICS hold for any sessions, and a plain loop over them gives the same figures."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.metrics import identities
from lmtui.metrics.sessions import Outcome, Sessions, TokenSource
from tests.metrics.made_sessions import Made, config, made, summary

SOURCES = st.sampled_from([TokenSource.ENGINE, TokenSource.USAGE, TokenSource.CHUNKS])


@st.composite
def requests(draw: st.DrawFn) -> Made:
    sent = draw(st.integers(0, 3000)) * 0.5
    source = draw(SOURCES)
    at, count, ticks = sent, 0, []
    for gap, tokens in draw(st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 5)), max_size=6)):
        at, count = at + gap, count + tokens
        ticks.append((at, count if source is TokenSource.ENGINE else None))
    outcome = draw(st.sampled_from(list(Outcome)))
    if not ticks and outcome is Outcome.OK:
        outcome = Outcome.NO_TOKEN
    total = {TokenSource.ENGINE: count, TokenSource.USAGE: count + draw(st.integers(0, 2))}.get(source)
    is_sent = bool(ticks) or outcome is not Outcome.DROPPED
    return Made(
        sent if is_sent else None,
        ticks,
        end=at + draw(st.integers(0, 50)) if is_sent else None,
        due=sent - draw(st.integers(0, 20)) if sent > 20 else sent,
        outcome=outcome,
        source=source if ticks else TokenSource.NONE,
        tokens=total if ticks else None,
        cancel_planned=outcome is Outcome.CANCELLED or draw(st.booleans()),
    )


@st.composite
def runs(draw: st.DrawFn) -> Sessions:
    rows = draw(st.lists(requests(), max_size=12))
    return made(rows, planned=len(rows) + draw(st.integers(0, 3)))


@settings(max_examples=200, deadline=None)
@given(runs(), st.sampled_from(["closed", "open"]))
def test_identities_hold_and_plain_loops_agree(sessions: Sessions, mode: str) -> None:
    result = summary(sessions, config(load={"mode": mode}, slo={"e2e_ms": 900.0, "itl_ms": 700.0}))
    identities.check(sessions, result)

    metrics = result.metrics
    ttft, e2e, gaps, tokens, met = [], [], [], 0, 0
    begin, over = [], []
    for row in range(len(sessions.index)):
        ticks = sessions.tick_ns[sessions.tick_start[row] : sessions.tick_start[row + 1]].tolist()
        sent, end = int(sessions.sent_ns[row]), int(sessions.end_ns[row])
        if sent >= 0:
            begin.append(sent)
            over.append(end)
        if sessions.outcome[row] != Outcome.OK:
            continue
        ttft.append((ticks[0] - sent) / 1e6)
        e2e.append((ticks[-1] - sent) / 1e6)
        own = [(b - a) / 1e6 for a, b in itertools.pairwise(ticks)]
        gaps += own
        met += e2e[-1] <= 900 and all(gap <= 700 for gap in own)
        tokens += int(sessions.output_tokens[row]) if sessions.output_tokens[row] >= 0 else len(ticks)
    assert metrics.completed == len(ttft)
    for figures, values in ((metrics.ttft_ms, ttft), (metrics.e2e_ms, e2e), (metrics.itl_ms, gaps)):
        assert figures.n == len(values)
        if values:
            assert figures.mean == pytest.approx(np.mean(values))
            assert figures.p90 == pytest.approx(np.percentile(values, 90))
            assert figures.max == max(values)
    assert metrics.total_output_tokens == (tokens if ttft else None)
    if begin and max(over) > min(begin):
        duration = (max(over) - min(begin)) / 1e9
        assert metrics.duration_s == pytest.approx(duration)
        assert metrics.goodput == pytest.approx(met / duration)
        marks = sorted({*begin, *over})
        levels = [sum(b <= mark < e for b, e in zip(begin, over, strict=True)) for mark in marks]
        assert metrics.peak_in_flight == max(levels)
        assert metrics.mean_in_flight == pytest.approx(
            sum(e - b for b, e in zip(begin, over, strict=True)) / 1e9 / duration
        )


def test_a_summary_that_contradicts_itself_is_kept_and_invalid() -> None:
    sessions = made([Made(0, [(50, 1), (90, 4)], tokens=7)])
    result = summary(sessions)
    assert result.metrics.ttft_ms.mean == 50
    assert result.client.grade == "invalid"
    words = "request 0: its ticks have 4 tokens, its total is 7"
    assert any(words in reason for reason in result.client.reasons)
    assert any(words in note for note in result.notes)
    with pytest.raises(identities.IdentityError, match=words):
        identities.check(sessions, result)


def test_more_rows_than_were_planned_is_a_contradiction() -> None:
    sessions = dataclasses.replace(made([Made(0, [(50, 4)]), Made(0, [(60, 4)])]), planned=1)
    with pytest.raises(identities.IdentityError, match="1 requests were planned, the outcomes add up to 2"):
        identities.check(sessions, summary(sessions))


def test_a_tick_before_its_request_was_sent_is_a_contradiction() -> None:
    for ticks in ([(40.0, 4)], [(60.0, 1), (55.0, 4)]):
        sessions = made([Made(50, ticks, end=99)])
        with pytest.raises(identities.IdentityError, match="a tick is stamped before"):
            identities.check(sessions, summary(sessions))


def test_a_peak_under_the_mean_is_a_contradiction() -> None:
    assert identities.of_peak(9.0, 10.0) == ("the peak of 9 tok/s is under the mean of 10 tok/s",)
    assert identities.of_peak(10.0, 10.0) == identities.of_peak(None, None) == ()
