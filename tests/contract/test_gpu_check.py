"""The check of a machine with a GPU, tried on the real PyTorch engine over a stub executor: it passes, and can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.runner import spawn
from tests.contract.stub_run import DIE_AFTER, STEP_S
from tests.gpu import check

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # the stand-in is not installed
    monkeypatch.setattr(spawn, "PROCESS", "tests.contract.stub_run")
    monkeypatch.setenv(STEP_S, "0.001")


@pytest.mark.parametrize("target", ["pytorch", "pytorch-kept"])
def test_an_engine_that_keeps_its_word_passes(target: str, model: str) -> None:
    lines = list(check.check(target, model, 1))
    assert [(line.rate, line.problems) for line in lines] == [(rate, ()) for rate in check.RATES]
    assert [line.result is not None and line.result.outcomes["cancelled"] > 0 for line in lines] == [False, True]


def test_an_engine_that_dies_does_not(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DIE_AFTER, "100")
    for line in check.check("pytorch", model, 1):
        (problem,) = line.problems
        assert problem.startswith("failed: The PyTorch engine died (")
    assert capsys.readouterr().out.count("FAILED") == len(check.RATES)


def test_an_engine_that_was_not_kept_is_told(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "why_anew", lambda loaded, wanted: "it is not wanted")
    first, second = check.check("pytorch-kept", model, 1)
    assert first.problems == ()
    assert second.problems[0].startswith("the engine was not kept")
