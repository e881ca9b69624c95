"""LMDeploy's real `pipeline`, its real engine and scheduler over the stub executor, through a run process."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.errors import INTERRUPTED, TARGET
from lmtui.runner import recorded
from tests.contract.engine_runs import config, ended, performed, start

pytestmark = pytest.mark.slow


def pipeline(model: str, **sections: dict[str, Any]) -> Config:
    target = {"backend": "pytorch", "disable_metrics": True, **sections.pop("target", {})}
    return config("pipeline", model, target=target, **sections)


def test_all_prompts_begin_at_once_and_are_admitted_as_the_batch_holds(model: str) -> None:
    run, code, _, result = performed(pipeline(model), "0.001")
    assert code == 0, run.log_tail()
    assert result.outcomes["ok"] == 100
    assert (result.tokens_from, result.metrics.total_output_tokens) == ("engine", 2000)
    assert result.metrics.tokens_per_tick.min >= 1  # type: ignore[operator]  # the empty last chunk is no tick
    assert result.target["limits"] | {"max_batch_size": 8, "backend": "pytorch"} == result.target["limits"]
    sessions = recorded.read(run.path, 100).sessions
    assert len(set(sessions.sent_ns.tolist())) == 1
    # Twelve batches one after the other: the last requests waited for the first.
    assert result.metrics.ttft_ms.max > 4 * result.metrics.ttft_ms.min  # type: ignore[operator]


def test_without_streaming_each_request_has_one_tick(model: str) -> None:
    run, code, _, result = performed(pipeline(model, request={"stream": False}), "0")
    assert code == 0, run.log_tail()
    assert (result.outcomes["ok"], result.metrics.itl_ms.n) == (100, 0)


def test_planned_cuts_are_let_go_of(model: str) -> None:
    run, code, _, result = performed(pipeline(model, cancel={"rate": 0.5}), "0.001")
    assert code == 0, run.log_tail()
    cancel = result.metrics.cancel
    assert cancel is not None
    assert cancel.done == result.outcomes["cancelled"] == cancel.let_go_ms.n == 50 - cancel.missed
    assert cancel.done > 20


def test_a_dead_engine_ends_every_request_with_its_cause(model: str) -> None:
    run, code, status, result = performed(pipeline(model), "0.001", "100")
    assert (code, status.phase) == (TARGET, "failed"), run.log_tail()
    assert status.message.startswith("The pipeline's engine died (RuntimeError: CUDA error: an illegal memory access")
    assert result.outcomes["ok"] > 0
    assert result.outcomes["ok"] + result.outcomes["bad_finish"] == 100
    assert [(group.message, group.count) for group in result.errors] == [
        (status.message, result.outcomes["bad_finish"])
    ]


def test_a_stop_gives_up_also_what_waits_for_a_place(model: str) -> None:
    run, process = start(pipeline(model, limits={"grace_s": 0.3}, load={"warmup_requests": 0}), "0.05")
    give_up_at = time.monotonic() + 60
    while (status := run.status()) is None or status.counts.ok < 1:
        assert time.monotonic() < give_up_at, run.log_tail()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    code, status, result = ended(run, process)
    assert (code, status.phase) == (INTERRUPTED, "stopped")
    assert result.outcomes["ok"] + result.outcomes["aborted"] == 100
    assert result.outcomes["aborted"] > 50
    assert not any("not let go" in note for note in result.notes), result.notes


def test_another_engine_than_asked_for_is_refused(model: str) -> None:
    asked = pipeline(model, target={"backend": "turbomind"})
    run, code, status, _ = performed(asked, "0")
    assert code == TARGET, run.log_tail()
    assert 'took the engine pytorch though target.backend = "turbomind"' in status.message
