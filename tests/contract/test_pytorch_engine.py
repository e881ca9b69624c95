"""LMDeploy's real PyTorch engine and scheduler over a stub executor, through a run process from config to result."""

from __future__ import annotations

import os
import signal
import time

import pytest

from lmtui.errors import INTERRUPTED, TARGET
from lmtui.runner import machine
from lmtui.runner.reaper import stragglers
from tests.contract.engine_runs import config, ended, performed, start

pytestmark = pytest.mark.slow

CAUSE = "RuntimeError: CUDA error: an illegal memory access was encountered"


def test_all_requests_stream_to_their_asked_length(model: str) -> None:
    run, code, status, result = performed(config("pytorch", model), "0.001")
    assert (code, status.phase) == (0, "done"), run.log_tail()
    assert result.outcomes["ok"] == 100
    assert result.tokens_from == "engine"
    assert result.metrics.total_output_tokens == 2000
    assert result.metrics.tokens_per_tick.mean is not None
    assert result.metrics.itl_ms.n > 100
    assert result.target["versions"]["lmdeploy"].startswith("0.18")
    assert result.target["limits"]["max_batch_size"] == 8
    assert not result.simulated
    assert stragglers(status.pid) == []


def test_without_streaming_one_tick_brings_all_tokens_though_the_engine_streams(model: str) -> None:
    run, code, _, result = performed(config("pytorch", model, request={"stream": False, "uvloop": False}), "0")
    assert code == 0, run.log_tail()
    assert (result.outcomes["ok"], result.metrics.itl_ms.n) == (100, 0)
    assert result.metrics.tokens_per_tick.min == result.metrics.tokens_per_tick.max == 20


def test_half_of_the_requests_are_cut_and_let_go_of(model: str) -> None:
    run, code, _, result = performed(
        config("pytorch", model, cancel={"rate": 0.5}, request={"skip_tokenize": True, "skip_detokenize": True}),
        "0.001",
    )
    assert code == 0, run.log_tail()
    cancel = result.metrics.cancel
    assert cancel is not None
    assert cancel.planned == 50
    assert cancel.done == result.outcomes["cancelled"] == 50 - cancel.missed
    assert cancel.done > 20
    assert cancel.let_go_ms.n == cancel.done
    assert cancel.tokens_after_cut is None  # the engine does not say what it made after the cut
    assert result.outcomes["ok"] == 100 - cancel.done
    assert cancel.survivors.n == 50


def test_a_dead_engine_costs_nothing_that_was_measured(model: str) -> None:
    # One at a time, 20 steps each: the warm-up request is the first of them.
    alone = config("pytorch", model, load={"concurrency": 1})
    run, code, status, result = performed(alone, "0", str(20 * 40 + 5))
    assert (code, status.phase) == (TARGET, "failed"), run.log_tail()
    assert status.message == f"The PyTorch engine died ({CAUSE}): see the run's engine.log."
    assert 36 <= result.outcomes["ok"] <= 39
    assert result.outcomes["bad_finish"] == 1
    assert sum(result.outcomes.values()) == 100
    assert result.errors[0].message == status.message
    assert CAUSE in run.log_tail(200_000)


def test_a_stop_drains_and_the_engine_is_closed(model: str) -> None:
    run, process = start(config("pytorch", model, load={"num_prompts": 5000}), "0.01")
    give_up_at = time.monotonic() + 60
    while (status := run.status()) is None or status.counts.ok < 3:
        assert time.monotonic() < give_up_at, run.log_tail()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    code, status, result = ended(run, process)
    assert (code, status.phase) == (INTERRUPTED, "stopped"), run.log_tail()
    assert result.outcomes["ok"] >= 3 + 1
    assert result.outcomes["aborted"] == 0
    assert result.outcomes["dropped"] == 5000 - result.outcomes["ok"]
    assert machine.process_started(status.pid) is None
    assert "Traceback" not in run.log_tail(200_000)


def test_an_abort_cuts_what_waits_for_its_next_token(model: str) -> None:
    slow = config("pytorch", model, load={"num_prompts": 50, "warmup_requests": 0})
    run, process = start(slow, "3600")
    give_up_at = time.monotonic() + 60
    while (status := run.status()) is None or status.counts.in_flight < 8:
        assert time.monotonic() < give_up_at, run.log_tail()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGINT)
    code, status, result = ended(run, process)
    assert (code, status.message) == (INTERRUPTED, "aborted")
    assert result.outcomes["aborted"] == 8
    assert result.metrics.cancel is None


def test_a_prompt_beyond_the_session_is_refused_before_anything_is_loaded(model: str) -> None:
    _, code, status, _ = performed(config("pytorch", model, target={"session_len": 30}), "0")
    assert code == TARGET
    assert status.message.startswith("The longest request has 36 tokens with its output, and target.session_len is 30")
    assert "versions" not in status.target
