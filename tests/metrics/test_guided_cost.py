"""What guided decoding costs, told by the latencies per token alone."""

from __future__ import annotations

import msgspec

from lmtui.metrics.guided_cost import guided_cost
from lmtui.metrics.result import Distribution, Result
from tests.results.made_results import result as made_result


def result(tpot_ms: float | None, itl_ms: float | None) -> Result:
    made = made_result()
    tpot, itl = Distribution(mean=tpot_ms), Distribution(mean=itl_ms)
    return msgspec.structs.replace(made, metrics=msgspec.structs.replace(made.metrics, tpot_ms=tpot, itl_ms=itl))


def test_the_overhead_is_a_share_of_the_baseline() -> None:
    lines = guided_cost(result(10.0, 8.0), result(12.5, 8.0)).splitlines()
    assert lines[1:] == [
        "  TPOT mean  10.000 ms without, 12.500 ms with (+25.0%)",
        "  ITL mean   8.000 ms without, 8.000 ms with (+0.0%)",
    ]


def test_what_is_missing_is_no_zero() -> None:
    lines = guided_cost(result(None, 0.0), result(1.0, 1.0)).splitlines()
    assert lines[1:] == ["  TPOT mean  no figure", "  ITL mean   0.000 ms without, 1.000 ms with"]
