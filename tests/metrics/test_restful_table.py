"""The restful script's table and row beside its rules, retold in plain loops over the same stamps."""

from __future__ import annotations

import csv
import io
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.metrics import restful_table, script_columns
from lmtui.metrics.sessions import Outcome, Sessions, TokenSource
from tests.metrics.made_sessions import Made, made

ANSWERED = (Outcome.OK, Outcome.SHORT, Outcome.BAD_FINISH, Outcome.NO_TOKEN)


@st.composite
def runs(draw: st.DrawFn) -> list[Made]:
    requests = []
    for _ in range(draw(st.integers(1, 7))):
        sent = draw(st.integers(0, 4000)) / 8
        at, ticks = sent, []
        for gap in draw(st.lists(st.integers(0, 800), max_size=6)):
            at += gap / 8
            ticks.append((at, None))
        outcome = draw(st.sampled_from([*ANSWERED, Outcome.HTTP_ERROR, Outcome.TRUNCATED, Outcome.STREAM_ERROR]))
        if not ticks and outcome in (Outcome.OK, Outcome.SHORT):
            outcome = Outcome.NO_TOKEN
        usage = draw(st.one_of(st.none(), st.integers(1, 30)))
        requests.append(
            Made(
                sent,
                ticks,
                end=at + draw(st.integers(0, 80)) / 8,
                outcome=outcome,
                source=TokenSource.CHUNKS if usage is None else TokenSource.USAGE,
                tokens=usage,
                asked=draw(st.integers(1, 20)),
                input_len=draw(st.integers(1, 200)),
            )
        )
    return requests


def told(requests: list[Made], api: str) -> dict[str, Any]:
    """The script's rules, request by request; only what has no text has no TTFT here."""
    inputs = outputs = completed = 0
    e2e, ttft, tpot, itl = [], [], [], []
    for one in requests:
        if one.outcome not in ANSWERED:
            continue
        assert one.sent is not None
        assert one.end is not None
        completed += 1
        inputs += one.input_len or 0
        length = one.tokens if api == "chat" and one.tokens is not None else one.asked
        outputs += length
        sent = round(one.sent * 1e6) / 1e9
        stamps = [round(at * 1e6) / 1e9 for at, _ in one.ticks]
        last = round(one.end * 1e6) / 1e9
        if api == "trt":
            if not stamps:
                continue
            last = stamps[-1]
        e2e.append(last - sent)
        if not stamps:
            continue
        first = stamps[0] - sent
        ttft.append(first)
        if length > 1:
            tpot.append((last - sent - first) / (length - 1))
        itl += [later - earlier for earlier, later in itertools.pairwise(stamps)]
    start = min(one.sent for one in requests if one.sent is not None)
    end = max(one.end for one in requests if one.end is not None)
    return {
        "completed": completed, "inputs": inputs, "outputs": outputs, "duration": (end - start) / 1e3,
        "e2e": e2e, "ttft": ttft, "tpot": tpot, "itl": itl,
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(runs(), st.sampled_from(["completions", "chat", "sglang", "trt"]))
def test_every_figure_is_the_scripts(requests: list[Made], api: str) -> None:
    ours, expected = restful_table.figures(made(requests), api=api), told(requests, api)
    assert ours.completed == expected["completed"]
    assert (ours.total_input, ours.total_output) == (expected["inputs"], expected["outputs"])
    assert ours.duration_s == pytest.approx(expected["duration"], abs=1e-9)
    if expected["duration"]:
        assert ours.request_throughput == pytest.approx(expected["completed"] / expected["duration"])
        assert ours.output_throughput == pytest.approx(expected["outputs"] / expected["duration"])
    else:
        assert ours.request_throughput is None
    for name in ("e2e", "ttft", "tpot", "itl"):
        spread, values = getattr(ours, name), expected[name]
        if not values:
            assert (spread.mean, spread.median, spread.p99) == (None, None, None)
            continue
        assert spread.mean == pytest.approx(np.mean(values) * 1000, rel=1e-9, abs=1e-9)
        assert spread.median == pytest.approx(np.median(values) * 1000, rel=1e-9, abs=1e-9)
        assert spread.p99 == pytest.approx(np.percentile(values, 99) * 1000, rel=1e-9, abs=1e-9)


def two_answers() -> Sessions:
    return made(
        [
            Made(0, [(100, None), (150, None), (300, None)], end=310, asked=5, input_len=20),
            Made(10, [(60, None)], end=70, asked=1, input_len=7, outcome=Outcome.SHORT),
            Made(20, [(60, None)], end=110, asked=9, outcome=Outcome.STREAM_ERROR),
        ]
    )


TABLE = """
============ Serving Benchmark Result ============
Backend:                                 lmdeploy  
Traffic request rate:                    inf       
Successful requests:                     2         
Benchmark duration (s):                  0.31      
Total input tokens:                      27        
Total input text tokens:                 27        
Total input vision tokens:               0         
Total generated tokens:                  6         
Total generated tokens (retokenized):    -         
Request throughput (req/s):              6.45      
Input token throughput (tok/s):          87.10     
Output token throughput (tok/s):         19.35     
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   185.00    
Median E2E Latency (ms):                 185.00    
---------------Time to First Token----------------
Mean TTFT (ms):                          75.00     
Median TTFT (ms):                        75.00     
P99 TTFT (ms):                           99.50     
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          52.50     
Median TPOT (ms):                        52.50     
P99 TPOT (ms):                           52.50     
---------------Inter-token Latency----------------
Mean ITL (ms):                           100.00    
Median ITL (ms):                         100.00    
P99 ITL (ms):                            149.00    
==================================================
"""


def test_the_table_is_the_scripts_to_the_letter() -> None:
    found = restful_table.figures(two_answers(), api="completions")
    assert restful_table.table(found, backend="lmdeploy", rate=math.inf) == TABLE
    assert f"{'Traffic request rate:':<40} {'2':<10}\n" in restful_table.table(found, backend="vllm", rate=2)


def test_the_row_holds_numbers_as_python_prints_them() -> None:
    found = restful_table.figures(two_answers(), api="completions")
    row = restful_table.csv_row(found, ["lmdeploy", "sharegpt", None, None, None, 0.0, math.inf])
    header = script_columns.line(script_columns.RESTFUL)
    assert row.endswith(b"\r\n")
    assert header.endswith(b",mean_tpot_ms,mean_itl_ms\r\n")
    (values,) = csv.DictReader(io.StringIO((header + row).decode(), newline=""))
    assert values["request_rate"] == "inf"
    assert values["sharegpt_output_len"] == ""
    assert values["completed"] == "2"
    assert values["duration"] == repr(found.duration_s)
    assert values["mean_ttft_ms"] == repr(found.ttft.mean)
    assert float(values["request_throughput"]) == pytest.approx(2 / 0.31)


def test_where_nothing_was_answered_cells_are_dashes_and_a_sentence_says_so() -> None:
    found = restful_table.figures(made([Made(0, end=5, outcome=Outcome.HTTP_ERROR)]), api="chat")
    shown = restful_table.table(found, backend="vllm-chat", rate=math.inf)
    assert shown.count(f" {'-':<10}\n") == 12
    assert "nan" not in shown
    assert found.messages[0] == "no request was answered: the latencies have no data (-)"
    assert restful_table.csv_row(found, []).decode().strip() == "0,0,0,0.005,0.0,0.0,0.0,-,-,-,-"


def test_an_answer_without_text_counts_but_has_no_ttft() -> None:
    silent = Made(0, end=50, outcome=Outcome.NO_TOKEN, asked=4, tokens=None, source=TokenSource.NONE)
    found = restful_table.figures(made([silent]), api="completions")
    assert (found.completed, found.total_output) == (1, 4)
    assert found.ttft.mean is None
    assert found.e2e.mean == pytest.approx(50)
    assert any("no text" in message for message in found.messages)


def test_texts_that_were_encoded_again_have_their_count() -> None:
    answers = made(
        [
            Made(0, [(100, None), (150, None)], asked=5, tokens=5),
            Made(0, [(100, None)], asked=9, tokens=9),
            Made(0, end=7, outcome=Outcome.HTTP_ERROR),
            Made(0, end=9, outcome=Outcome.NO_TOKEN, asked=1, tokens=None, source=TokenSource.NONE),
        ]
    )
    found = restful_table.figures(answers, api="completions", text_tokens={0: 6, 1: 8, 2: 1000})
    assert (found.total_output, found.retokenized) == (15, 14)
    shown = restful_table.table(found, backend="vllm", rate=8.0)
    assert f"{'Total generated tokens (retokenized):':<40} {14:<10}\n" in shown
    assert not any("encoded again" in message for message in found.messages)
    part = restful_table.figures(answers, api="completions", text_tokens={0: 6})
    assert part.retokenized is None
    assert any("encoded again" in message for message in part.messages)


def test_an_unknown_prompt_length_is_a_dash() -> None:
    found = restful_table.figures(made([Made(0, [(5, 4)], input_len=None)]), api="chat")
    assert found.total_input is None
    assert found.input_throughput is None


def test_the_wait_after_the_last_request_counts_where_it_outlasts_the_answers() -> None:
    answers = two_answers()
    assert restful_table.figures(answers, api="completions", sending_s=0.2).duration_s == pytest.approx(0.31)
    found = restful_table.figures(answers, api="completions", sending_s=0.5)
    assert (found.duration_s, found.request_throughput) == (0.5, 4.0)


def test_every_dash_has_its_sentence() -> None:
    found = restful_table.figures(made([Made(0, [(100, 1)], asked=1)]), api="completions", text_tokens={0: 1})
    shown = restful_table.table(found, backend="vllm", rate=1.0)
    assert {line.split()[1] for line in shown.splitlines() if line.endswith(" -         ")} == {"TPOT", "ITL"}
    assert found.messages == (
        "no answer came in two pieces: the inter-token latency has no data (-)",
        "no answer had two tokens, piece by piece: the time per output token has no data (-)",
    )


def test_whole_answers_have_no_time_per_token() -> None:
    whole = made([Made(0, [(100, 5)], asked=5, end=100.01)])
    found = restful_table.figures(whole, api="completions", streams=False, text_tokens={0: 5})
    assert (found.ttft.mean, found.tpot.mean, found.itl.mean) == (100, None, None)
    assert len(found.messages) == 2
