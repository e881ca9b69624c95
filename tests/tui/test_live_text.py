"""The cancel panel's text."""

from __future__ import annotations

from lmtui.tui import live_text
from lmtui.tui.live_view import CancelView
from tests.tui.driving import distribution, view

NARROW = 36
SURVIVORS = {"ttft_ms": distribution(40.0), "itl_ms": distribution(17.5)}
OF = view(cancel=CancelView(planned=80, done=31, missed=2, wasted_tokens=1234, let_go_p50_ms=1.25, survivors=SURVIVORS))


def test_survivors_stand_beside_the_run_without_cancels() -> None:
    at_rate_0 = {"ttft_ms": distribution(38.0), "itl_ms": distribution(16.0), "e2e_ms": distribution(900.0)}
    text = live_text.cancel(OF, NARROW, at_rate_0)
    assert text.split("\n") == [
        "planned 80  done    31  missed   2",
        "let go 1.25 ms  wasted 1.23k tokens",
        "survivors   P50 rate 0   P99 rate 0",
        "TTFT ms    40.0   38.0   120    114",
        "ITL ms     17.5   16.0  52.5   48.0",
    ]
    assert max(map(len, text.split("\n"))) < NARROW


def test_without_such_a_run_survivors_stand_alone() -> None:
    assert live_text.cancel(OF, NARROW).split("\n")[-3:] == [
        "survivors   P50   P99",
        "TTFT ms    40.0   120",
        "ITL ms     17.5  52.5",
    ]
