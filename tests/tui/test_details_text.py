"""All numbers of one run, as text."""

from __future__ import annotations

import msgspec

from lmtui.results.compare import subject
from lmtui.tui.details_text import result_text
from tests.metrics.made_sessions import Made, config, made, summary
from tests.tui.driving import distribution, result

LEGEND = "~ the sample is too small to resolve this percentile"


def test_the_sign_is_explained_where_it_is_used() -> None:
    of = result()
    assert LEGEND not in result_text(of), "only the 99.9th, which is not shown, is not resolved"
    small = msgspec.structs.replace(distribution(), unresolved=("p99", "p99_9"))
    text = result_text(msgspec.structs.replace(of, metrics=msgspec.structs.replace(of.metrics, e2e_ms=small)))
    assert LEGEND in text
    assert "~30" in text


def test_survivors_stand_beside_the_run_without_cancels() -> None:
    of = summary(
        made([Made(0, [(50, 1), (70, 2)]), Made(0, [(90, 1), (120, 2)], cancel_planned=True)]),
        config(cancel={"rate": 0.5}),
    )
    alone = result_text(of)
    assert "no run of this config with cancel.rate = 0" in alone
    before = summary(made([Made(0, [(41, 1), (70, 2)])]), config())
    beside = result_text(of, subject(msgspec.structs.replace(before, run_id="before")).row)
    lines = beside.split("\n")
    place = lines.index("  the same with cancel.rate = 0: before")
    assert "50.0" in lines[place - 4]
    assert "41.0" in lines[place + 1]
