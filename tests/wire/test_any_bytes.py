"""Whatever the bytes, and however they are cut: the same record, one end, no traceback."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.metrics.sessions import UNKNOWN, Outcome
from tests.wire.replay import case_bytes, cases, reads_of, recording, replay
from tests.wire.test_recordings import MEANT, asked

CASES = cases()
SMALL = {name: case for name, case in CASES.items() if len(case_bytes(case)) < 50_000}


def wanted(case: dict[str, Any]) -> dict[str, Any]:
    request = case["request"]
    return {
        "api": case["api"],
        "max_tokens": request["max_tokens"],
        "ignores_eos": request["ignore_eos"],
        "n": request.get("n", 1),
    }


def source(name: str) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a case or of a recording, and how they were asked for."""
    if name in CASES:
        return case_bytes(CASES[name]), wanted(CASES[name])
    recorded = recording(name)
    return b"".join(reads_of(recorded)), asked(recorded)


def split(data: bytes, cuts: list[float]) -> list[bytes]:
    places = sorted({int(cut * len(data)) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


NAMES = st.sampled_from([*SMALL, *MEANT])
CUTS = st.lists(st.floats(0, 1, exclude_max=True), max_size=12)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["response"]["end"] != "hang"])
def test_a_case_in_one_read_has_its_right_values(name: str) -> None:
    case = CASES[name]
    got = replay([case_bytes(case)], **wanted(case))
    expect = case["expect"]
    assert got.outcome.label == expect["outcome"]
    assert len(got.ticks) == expect["content_events"]
    assert got.text == expect["text"]
    assert got.of("output_tokens") == (UNKNOWN if expect["output_tokens"] is None else expect["output_tokens"])
    assert got.of("token_source").label == expect["token_source"]
    assert (expect["error_contains"] or "") in got.of("error")


@settings(max_examples=200, deadline=None)
@given(NAMES, CUTS)
def test_any_split_gives_the_same_record(name: str, cuts: list[float]) -> None:
    data, how = source(name)
    assert replay(split(data, cuts), **how) == replay([data], **how)


@pytest.mark.parametrize("name", [*SMALL, *MEANT])
def test_byte_by_byte_gives_the_same_record(name: str) -> None:
    data, how = source(name)
    assert replay([data[i : i + 1] for i in range(len(data))], **how) == replay([data], **how)


@settings(max_examples=300, deadline=None)
@given(
    NAMES, st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6)), min_size=1, max_size=6), CUTS
)
def test_mutated_bytes_end_once_and_without_a_traceback(
    name: str, edits: list[tuple[float, bytes]], cuts: list[float]
) -> None:
    data, how = source(name)
    mutated = bytearray(data)
    for place, put in edits:
        at = int(place * len(mutated))
        mutated[at : at + max(len(put), 1)] = put
    whole = replay([bytes(mutated)], **how)
    parts = replay(split(bytes(mutated), cuts), **how)
    assert isinstance(whole.outcome, Outcome)
    assert len(whole.of("error")) <= 1500
    assert (parts.outcome, parts.ticks, parts.text) == (whole.outcome, whole.ticks, whole.text)


@settings(max_examples=100, deadline=None)
@given(NAMES, st.floats(0, 1))
def test_a_stream_that_is_cut_anywhere_keeps_what_came(name: str, share: float) -> None:
    data, how = source(name)
    whole, part = replay([data], **how), replay([data[: int(share * len(data))]], **how)
    assert part.ticks == whole.ticks[: len(part.ticks)]
    assert whole.text.startswith(part.text)


@settings(max_examples=100, deadline=None)
@given(NAMES, st.integers(1, 6), CUTS)
def test_a_cut_at_any_tick_counts_the_rest_as_wasted(name: str, cut_after: int, cuts: list[float]) -> None:
    data, how = source(name)
    whole = replay([data], **how)
    got = replay(split(data, cuts), cut_after=cut_after, **how)
    if got.outcome is Outcome.CANCELLED:
        assert len(got.ticks) == cut_after
        assert got.of("wasted_tokens") >= 0
    else:
        assert got.outcome is whole.outcome


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from(["completions", "chat", "sglang", "trt"]))
def test_noise_is_no_answer(reads: list[bytes], api: str) -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    assert replay(reads, api).outcome.is_failure
    replay([head, *reads], api)
