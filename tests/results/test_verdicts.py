"""What a run must not come to for its command to succeed."""

from __future__ import annotations

import pytest

from lmtui.errors import USAGE, ConfigError
from lmtui.results import columns
from lmtui.results.verdicts import Verdicts
from tests.results.made_results import result

OF = result()  # two ok requests with TTFT 50 ms, and one that timed out: suspect


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("ttft.p50>49", "ttft_ms.p50 is 50.0"),
        ("ttft>49", "ttft_ms.p50 is 50.0"),
        ("ttft_ms.p50>=50 outcomes.timeout>0", "ttft_ms.p50 is 50.0, outcomes.timeout is 1"),
        ("grade!=good", "grade is suspect"),
        ("name=t", "name is t"),
        ("goodput<3", "goodput is missing"),
        ("ttft>49 goodput<3", "goodput is missing"),
    ],
)
def test_a_condition_that_is_met_or_cannot_be_judged_fails(condition: str, says: str) -> None:
    assert list(Verdicts([condition]).failed(OF)) == [f"--fail-if {condition}: {says}"]


@pytest.mark.parametrize("condition", ["ttft.p50>50", "ttft.p50>49 outcomes.timeout>1", "grade=good", "name:x"])
def test_one_that_is_not_met_does_not(condition: str) -> None:
    assert list(Verdicts([condition]).failed(OF)) == []


def test_each_condition_and_a_grade_that_is_not_good_are_told() -> None:
    found = list(Verdicts(["ttft>1", "ttft>1000", "itl>1"], strict=True).failed(OF))
    assert [sentence.split(":")[0] for sentence in found] == ["--strict", "--fail-if ttft>1", "--fail-if itl>1"]
    assert list(Verdicts(()).failed(OF)) == []


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("", "it is empty"),
        ("ttft", "ttft is no term"),
        ("ttft > 200", "ttft is no term"),
        ("tfft>200", "there is no figure or key tfft"),
        ("ttft.p98>200", "there is no figure or key ttft.p98"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_runs(condition: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Verdicts([condition])
    assert caught.value.exit_code == USAGE


def test_every_name_is_a_column_of_a_result() -> None:
    assert set(columns.names()) <= set(columns.cells(OF))
