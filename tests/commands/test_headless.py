"""What a followed run comes to: its exit code, with and without a result."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lmtui import headless
from lmtui.config import guiding, store
from lmtui.config.model import Config
from lmtui.errors import BUG, INTERRUPTED, NO_RESULT, TARGET, USAGE, VERDICT, LmtuiError
from lmtui.results.verdicts import Verdicts
from lmtui.runner import runs
from lmtui.runner.rundir import RunDirectory
from tests.runner.harness import config, status

STRICT = Verdicts((), strict=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("phase", "exit_code", "expected"),
    [
        ("failed", USAGE, USAGE),
        ("failed", BUG, BUG),
        ("failed", TARGET, TARGET),
        ("stopped", INTERRUPTED, INTERRUPTED),
        ("lost", None, TARGET),
    ],
)
def test_a_run_without_a_result_ends_with_its_own_exit_code(phase: str, exit_code: int | None, expected: int) -> None:
    run = RunDirectory.create(config())
    ended = status(run, phase=phase, exit_code=exit_code, message="there was a cause.")
    with pytest.raises(LmtuiError, match=f"{run.run_id}: there was a cause. Its log: ") as caught:
        headless.report(run, ended, as_json=False, quiet=True, verdicts=STRICT)
    assert caught.value.exit_code == expected


@pytest.mark.slow
def test_a_lost_run_with_a_result_died_and_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    run, done = headless.perform(config(), (), quiet=True)
    assert headless.report(run, done, as_json=True, quiet=True) == 0
    lost = msgspec.structs.replace(done, phase="lost", exit_code=None, message="the run process is gone")
    assert headless.report(run, lost, as_json=True, quiet=True, verdicts=STRICT) == TARGET
    assert capsys.readouterr().err == "lmtui: lost: the run process is gone\n"


FEW, MANY, BROKEN = (
    config(load={"num_prompts": 5}),  # fewer than 30 ok requests: suspect
    config(load={"num_prompts": 40}),
    config(target={"kv_tokens": 2}),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("both", "strict", "expected", "done"),
    [
        ((FEW, MANY), True, VERDICT, 2),
        ((MANY, FEW), True, VERDICT, 2),
        ((FEW, MANY), False, 0, 2),
        ((MANY, MANY), True, 0, 2),
        ((BROKEN, MANY), True, NO_RESULT, 1),
        ((FEW, BROKEN), True, NO_RESULT, 2),
    ],
)
def test_a_grade_that_is_not_good_leaves_the_pair_whole(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    both: tuple[Config, Config],
    strict: bool,
    expected: int,
    done: int,
) -> None:
    """The pair is of simulated runs: `guiding.pair`, which makes it of runs of a server, is stood in for."""
    monkeypatch.setattr(store, "resolve", lambda what, sets: (both[0], ()))
    asked_for = iter([both])
    monkeypatch.setattr(guiding, "pair", lambda config: next(asked_for, None))
    assert headless.run("pair", (), as_json=False, quiet=True, detach=False, strict=strict) == expected
    assert len(runs.all_runs()) == done
    is_compared = "What guided decoding costs" in capsys.readouterr().out
    assert is_compared == (expected in (0, VERDICT))
