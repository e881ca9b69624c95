"""All numbers of one run, as text."""

from __future__ import annotations

import msgspec

from lmtui.tui.details_text import result_text
from tests.tui.driving import distribution, result

LEGEND = "~ the sample is too small to resolve this percentile"


def test_the_sign_is_explained_where_it_is_used() -> None:
    of = result()
    assert LEGEND not in result_text(of), "only the 99.9th, which is not shown, is not resolved"
    small = msgspec.structs.replace(distribution(), unresolved=("p99", "p99_9"))
    text = result_text(msgspec.structs.replace(of, metrics=msgspec.structs.replace(of.metrics, e2e_ms=small)))
    assert LEGEND in text
    assert "~30" in text
