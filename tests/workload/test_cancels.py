from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lmtui.config.model import Cancel
from lmtui.errors import ConfigError
from lmtui.workload import cancels
from lmtui.workload.cancels import NOT_CUT, Cut

LENGTHS = [0, 5, 100] * 400


def draw(seed: int = 4, **keys: Any) -> list[Cut]:
    return cancels.draw(Cancel(**keys), LENGTHS, Random(seed))


def test_no_rate_draws_nothing() -> None:
    generator = Random(1)
    assert cancels.draw(Cancel(when="after_seconds"), LENGTHS, generator) == [NOT_CUT] * len(LENGTHS)
    assert generator.random() == Random(1).random()


def test_the_scripts_rule_draws_from_0_to_one_beyond_the_length() -> None:
    cuts = [cut.cancel_after for cut in draw(rate=1.0)]
    assert {cut for cut, length in zip(cuts, LENGTHS, strict=True) if length == 0} == {0, 1}
    assert {cut for cut, length in zip(cuts, LENGTHS, strict=True) if length == 5} == {0, 1, 2, 3, 4, 5, 6}
    assert max(cut for cut in cuts if cut is not None) == 101


def test_about_the_asked_share_is_picked() -> None:
    picked = [cut is not NOT_CUT for cut in draw(rate=0.3)]
    assert 300 < sum(picked) < 420


def test_a_value_alone_is_the_point_and_a_range_is_drawn() -> None:
    assert set(draw(rate=1.0, when="after_tokens", value=16.0)) == {Cut(cancel_after=16)}
    ranged = {cut.cancel_after for cut in draw(rate=1.0, when="after_tokens", value=2.0, value_max=5.0)}
    assert ranged == {2, 3, 4, 5}
    assert set(draw(rate=1.0, when="after_seconds", value=0.5)) == {Cut(cancel_after_s=0.5)}
    times = [cut.cancel_after_s or 0.0 for cut in draw(rate=1.0, when="after_seconds", value=1.0, value_max=3.0)]
    assert 1.0 <= min(times) < 1.1
    assert 2.9 < max(times) <= 3.0
    assert sum(times) / len(times) == pytest.approx(2.0, abs=0.1)


def test_before_the_first_token_needs_no_value() -> None:
    assert set(draw(rate=1.0, when="before_first_token")) == {Cut(cancel_after_s=0.0, cancel_before_token=True)}
    waiting = Cut(cancel_after_s=0.2, cancel_before_token=True)
    assert set(draw(rate=1.0, when="before_first_token", value=0.2)) == {waiting}


def test_equal_seeds_pick_equal_requests_whatever_the_rule() -> None:
    def picked(seed: int, **keys: Any) -> list[bool]:
        return [cut is not NOT_CUT for cut in draw(seed, rate=0.2, **keys)]

    assert picked(1, when="after_tokens", value=3.0) == picked(1, when="after_seconds", value=1.0)
    assert picked(1, when="after_tokens", value=3.0) != picked(2, when="after_tokens", value=3.0)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"when": "after_tokens"}, "needs cancel.value: the number of tokens"),
        ({"when": "after_seconds"}, "needs cancel.value: the number of seconds"),
        ({"when": "after_seconds", "value": 3.0, "value_max": 1.0}, "cancel.value_max = 1 is below cancel.value = 3"),
    ],
)
def test_a_missing_or_wrong_value_is_told(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        draw(rate=0.5, **keys)
