"""Small results for tests of the history."""

from __future__ import annotations

from typing import Any

import msgspec

from lmtui.metrics.result import Result
from lmtui.metrics.sessions import Outcome
from tests.metrics.made_sessions import Made, config, made, summary


def result(run_id: str = "20260101T000000Z-t-abcdef", **changes: Any) -> Result:
    rows = [Made(0, [(50, 1), (70, 2), (90, 4)]), Made(10, [(60, 2), (80, 4)]), Made(5, end=9, outcome=Outcome.TIMEOUT)]
    whole = summary(made(rows), config(), errors={2: 'no answer, "really"'})
    return msgspec.structs.replace(whole, run_id=run_id, **changes)
