"""What a followed run comes to: its exit code, with and without a result."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lmtui import headless
from lmtui.errors import BUG, INTERRUPTED, TARGET, USAGE, LmtuiError
from lmtui.runner.rundir import RunDirectory
from tests.runner.harness import config, status


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
        headless.report(run, ended, as_json=False, quiet=True, strict=True)
    assert caught.value.exit_code == expected


@pytest.mark.slow
def test_a_lost_run_with_a_result_died_and_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    run, done = headless.perform(config(), (), quiet=True)
    assert headless.report(run, done, as_json=True, quiet=True, strict=False) == 0
    lost = msgspec.structs.replace(done, phase="lost", exit_code=None, message="the run process is gone")
    assert headless.report(run, lost, as_json=True, quiet=True, strict=True) == TARGET
    assert capsys.readouterr().err == "lmtui: lost: the run process is gone\n"
