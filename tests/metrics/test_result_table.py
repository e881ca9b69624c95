from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.metrics.result import Result
from lmtui.metrics.sessions import Outcome
from lmtui.metrics.table import number, result_table
from tests.metrics.made_sessions import Made, config, made, samples, summary


def mixed() -> Result:
    rows = [Made(5.0 * at, [(5 * at + 50, 1), (5 * at + 70, 3), (5 * at + 130, 4)]) for at in range(50)]
    rows += [
        Made(20, [(40, 1)], outcome=Outcome.CANCELLED, cancel_planned=True, let_go=3),
        Made(30, end=33, outcome=Outcome.HTTP_ERROR),
    ]
    return summary(
        made(rows),
        config(load={"mode": "open", "rate": 200.0}, slo={"ttft_ms": 60.0}),
        errors={51: "HTTP 503: \x1b[31mService [Unavailable]\n" + "x" * 200},
    )


def width_of(line: str) -> int:
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in line
    )


def test_the_table_says_what_matters() -> None:
    text = result_table(mixed())
    lines = text.splitlines()
    assert lines[0] == "t · simulated  SIMULATED"
    assert "grade         suspect" in lines
    assert any("1 of 52 requests failed: 1.9%, over 1%" in line for line in lines)
    assert "requests      52 planned: 50 ok, 1 cancelled, 1 http_error" in lines
    assert any(line.split()[:3] == ["TTFT", "ms", "50.00"] for line in lines)
    assert any(line.startswith("goodput") and "98.0% of the requests that were due" in line for line in lines)
    assert any(line.startswith("rate") and "200.0 asked" in line for line in lines)
    assert any(line.startswith("cancel") and "1 planned, 1 done, 0 missed" in line for line in lines)
    assert any("wasted: 1 tokens (0.5% of all)" in line for line in lines)
    assert any(line.startswith("client") and "clock user" in line for line in lines)


def test_lines_fit_and_hold_no_control_character() -> None:
    for line in result_table(mixed()).split("\n"):
        assert width_of(line) <= 80
        assert line.isprintable()
        assert line == line.rstrip()


def test_an_unresolved_percentile_is_marked_and_the_mark_explained() -> None:
    text = result_table(mixed())
    ttft = next(line for line in text.splitlines() if line.startswith("TTFT ms"))
    assert ttft.split()[2:] == ["50.00", "50.00", "50.00", "50.00", "50.00", "~50.00", "50.00"]
    assert "~ the sample is too small to resolve this percentile" in text
    many = summary(made([Made(0, [(50, 1), (70, 2)]) for _ in range(100)]))
    assert "~" not in result_table(many)


def test_without_an_ok_request_there_are_causes_and_no_figures() -> None:
    text = result_table(summary(made([Made(0, end=50, outcome=Outcome.CONNECT_ERROR)]), errors={0: "refused"}))
    assert "No request was ok: there are no latencies and no throughputs." in text
    assert "1 × connect_error: refused" in text
    assert "TTFT" not in text
    assert "output tok/s  –" in text
    assert "Nothing was sent" in result_table(summary(made([], planned=4)))


def test_requests_that_were_sent_and_failed_are_not_told_as_never_sent() -> None:
    at_once = summary(made([Made(0, end=0, outcome=Outcome.STREAM_ERROR)] * 2))
    never_sent = summary(made([Made(None, due=0, end=5, outcome=Outcome.CONNECT_ERROR)]))
    for result in (at_once, never_sent):
        assert "No request was ok: there are no figures." in result_table(result)
        assert "Nothing was sent" not in result_table(result)


def test_replaced_connections_are_told() -> None:
    sessions = made([Made(0, [(50, 1)])])
    assert "2 kept connections were closed by the server and replaced" in " ".join(
        summary(sessions, client=samples(replaced=2)).notes
    )
    assert summary(sessions).notes == ()


def test_a_real_run_is_not_marked_simulated() -> None:
    assert "SIMULATED" not in result_table(msgspec.structs.replace(mixed(), simulated=False))


def test_ascii_only() -> None:
    result = msgspec.structs.replace(mixed(), name="naïve – 漢字", notes=("a “note”",))
    text = result_table(result, ascii_only=True)
    assert text.isascii()
    assert "ITL ms" in text


@settings(max_examples=50, deadline=None)
@given(name=st.text(max_size=120), note=st.text(max_size=300), message=st.text(max_size=300), width=st.integers(0, 200))
def test_any_text_of_a_server_or_a_user_fits(name: str, note: str, message: str, width: int) -> None:
    sessions = made([Made(0, [(50, 1), (70, 2)]), Made(0, end=9, outcome=Outcome.STREAM_ERROR)])
    result = summary(sessions, errors={1: message})
    result = msgspec.structs.replace(result, name=name, notes=(note,), target={"kind": "server", "model": name})
    text = result_table(result, width)
    assert all(width_of(line) <= max(width, 80) for line in text.split("\n"))
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.00"),
        (0.004, "0.0040"),
        (-0.0483, "-0.0483"),
        (1.234, "1.23"),
        (123.45, "123.5"),
        (1234.5, "1234"),
        (56789.0, "56,789"),
        (12_345_678.0, "12.3M"),
    ],
)
def test_numbers_have_about_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text
    assert len(text) <= 8


def test_a_long_value_has_its_own_line() -> None:
    rows = [Made(0, [(50, 1)], input_len=1_000_000, prompt=1_200_000, cached=900_000)]
    lines = result_table(summary(made(rows))).splitlines()
    assert "input tokens  1,000,000 (server: 1,200,000), cached 900,000" in lines
    assert "output tokens 1" in lines
