"""Several runs on LMDeploy's real PyTorch engine over a stub executor: loaded once, and anew when it must be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lmtui.errors import TARGET
from lmtui.metrics.result import Result
from lmtui.runner import machine, spawn
from lmtui.runner.rundir import RunDirectory, Status
from tests.contract.engine_runs import config
from tests.contract.stub_run import DIE_AFTER, STEP_S

pytestmark = pytest.mark.slow

GIVE_UP_S = 120.0


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # the stand-in is not installed
    monkeypatch.setattr(spawn, "PROCESS", "tests.contract.stub_run")
    monkeypatch.setenv(STEP_S, "0")


def ended(run: RunDirectory) -> tuple[Status, Result]:
    give_up_at = time.monotonic() + GIVE_UP_S
    while (status := run.status()) is None or not status.is_final:
        assert time.monotonic() < give_up_at, run.log_tail()
        time.sleep(0.02)
    result = run.result()
    assert result is not None, run.log_tail()
    return status, result


def of_engine(result: Result) -> list[str]:
    return [note for note in result.notes if note.startswith("The engine was")]


def test_one_engine_serves_other_loads_lengths_and_cancel_rates(model: str) -> None:
    at_4 = {"concurrency": 4}
    with spawn.Series() as series:
        first = series.start(config("pytorch", model, target={"max_batch_size": 8}))
        status, result = ended(first)
        second = series.start(
            config(
                "pytorch",
                model,
                target={"max_batch_size": 8},
                cancel={"rate": 0.5},
                load=at_4,
                dataset={"output_len": 30},
            )
        )
        again, cut = ended(second)
        third = series.start(
            config("pytorch", model, target={"max_batch_size": 8}, request={"stream": False}), is_last=True
        )
        last, whole = ended(third)
    assert [one.phase for one in (status, again, last)] == ["done"] * 3, third.log_tail()
    assert status.pid == again.pid == last.pid
    assert machine.process_started(status.pid) is None
    assert (result.outcomes["ok"], result.metrics.total_output_tokens) == (100, 2000)
    assert cut.metrics.cancel is not None
    assert cut.metrics.cancel.let_go_ms.n == cut.outcomes["cancelled"] > 10
    assert cut.metrics.total_output_tokens == 30 * cut.outcomes["ok"] > 0
    assert (whole.outcomes["ok"], whole.metrics.tokens_per_tick.min) == (100, 20)
    reused = f"The engine was loaded for the run {first.run_id} and has answered its requests before."
    assert [of_engine(one) for one in (result, cut, whole)] == [[], [reused], [reused]]
    assert "Traceback" not in first.log_tail(200_000) + second.log_tail(200_000) + third.log_tail(200_000)


def test_another_batch_needs_another_engine(model: str) -> None:
    with spawn.Series() as series:
        status, _ = ended(series.start(config("pytorch", model)))
        again, result = ended(series.start(config("pytorch", model, load={"concurrency": 4}), is_last=True))
    assert (again.phase, result.target["limits"]["max_batch_size"]) == ("done", 4)
    assert again.pid != status.pid
    assert of_engine(result) == [
        "The engine was loaded anew for this run: load.concurrency differs, and with target.max_batch_size unset it is "
        "the engine's batch."
    ]


def test_an_engine_that_dies_in_the_second_run_costs_that_run_alone(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One at a time, 20 steps each: 11 requests with the warm-up of the first run, and 6 of the second.
    monkeypatch.setenv(DIE_AFTER, str(20 * (11 + 6) + 5))
    alone = config("pytorch", model, load={"concurrency": 1, "num_prompts": 10})
    with spawn.Series() as series:
        status, result = ended(series.start(alone))
        died, half = ended(series.start(alone))
        fresh, other = ended(series.start(alone, is_last=True))
    assert (status.exit_code, result.outcomes["ok"]) == (0, 10)
    assert (died.pid, died.phase, died.exit_code) == (status.pid, "failed", TARGET)
    assert died.message.startswith("The PyTorch engine died (")
    assert 3 <= half.outcomes["ok"] <= 6
    assert sum(half.outcomes.values()) == 10
    assert fresh.pid != status.pid
    assert (fresh.exit_code, other.outcomes["ok"]) == (0, 10)
    assert of_engine(other) == ["The engine was loaded anew for this run: the run before did not go well."]
