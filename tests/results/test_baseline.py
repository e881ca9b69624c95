"""The run without cancels that a cancel experiment stands beside, found in the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lmtui.metrics.result import Result
from lmtui.metrics.summary import flat
from lmtui.results import history, remarks
from lmtui.results.baseline import find, latency
from tests.metrics.made_sessions import Made, config, made, summary

TARGET = {"kind": "simulated", "step_ms": 20.0}


def run(run_id: str, phase: str = "done", **sections: Any) -> Result:
    whole = summary(made([Made(0, [(50, 1), (70, 2)])]), config(**{"target": TARGET, **sections}))
    return msgspec.structs.replace(whole, run_id=run_id, phase=phase)


EXPERIMENT = flat(run("x", cancel={"rate": 0.5, "when": "after_tokens", "value": 3}, slo={"ttft_ms": 100}).config)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path / "history.csv"


def found(kept: Path, *results: Result) -> str | None:
    for one in results:
        history.append(kept, one)
    row = find(EXPERIMENT)
    return None if row is None else row.text("run_id")


def test_an_empty_history_has_none(kept: Path) -> None:
    assert found(kept) is None


def test_it_is_the_newest_that_was_asked_the_same(kept: Path) -> None:
    others = (
        run("more", load={"concurrency": 9}),
        run("slower", target={**TARGET, "step_ms": 30.0}),
        run("cancels", cancel={"rate": 0.1}),
        run("cut", phase="aborted"),
    )
    assert found(kept, *others) is None
    assert found(kept, run("older"), run("newer", name="other", notes="n", tags=["t"]), run("last", seed=7)) == "newer"


def test_one_in_the_trash_is_none(kept: Path) -> None:
    assert found(kept, run("a"), run("b")) == "b"
    remarks.change(kept, {"b": remarks.Remark(trashed_at="2026-01-01T00:00:00Z")})
    assert found(kept) == "a"


def test_a_model_that_the_target_found_itself_is_no_difference(kept: Path) -> None:
    answered = msgspec.structs.replace(run("a"), target={"kind": "simulated", "model": "found"})
    assert found(kept, answered) == "a"


def test_a_row_of_before_a_key_was_there_had_its_default(kept: Path) -> None:
    assert found(kept, run("a")) == "a"
    text = kept.read_text()
    assert "load.concurrency" in text
    kept.write_text(text.replace("load.concurrency", "load.of_another_version"))
    assert found(kept) == "a"
    assert find({**EXPERIMENT, "load.concurrency": 9}) is None


def test_a_history_that_cannot_be_read_gives_none(kept: Path) -> None:
    kept.write_text("something else\n")
    assert find(EXPERIMENT) is None


def test_its_latencies_are_those_of_the_result(kept: Path) -> None:
    made_one = run("a")
    history.append(kept, made_one)
    row = find(EXPERIMENT)
    assert row is not None
    for key in ("ttft_ms", "itl_ms", "e2e_ms"):
        assert latency(row, key) == getattr(made_one.metrics, key)
