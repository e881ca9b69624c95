"""The command line before anything is loaded: help, usage errors, and what `--help` imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lmtui.cli import main

HEAVY = ("numpy", "httpx", "textual", "torch", "transformers", "lmdeploy", "pydantic", "ray", "uvloop")


def loaded_by(*arguments: str) -> set[str]:
    """Return the top-level modules that a command has loaded when it ends."""
    code = (
        "import sys\n"
        "from lmtui.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('|'.join(sorted({name.split('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.strip().splitlines()[-1].split("|"))


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("run", "--help"), ("selftest", "--help")])
def test_help_loads_no_heavy_module(arguments: tuple[str, ...]) -> None:
    assert loaded_by(*arguments).isdisjoint(HEAVY)


def test_plan_loads_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path_factory.mktemp("home")))
    loaded = loaded_by("plan", "simulated", "--json")
    assert "lmtui" in loaded
    assert loaded.isdisjoint({"torch", "lmdeploy", "textual", "transformers"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dance"], "invalid choice: 'dance'"),
        (["run"], "WHAT"),
        (["run", "simulated", "--frob"], "--frob"),
        (["selftest", "--streams", "0"], "whole numbers from 1"),
        (["selftest", "--streams", "1,,2"], "whole numbers from 1"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert words in error
    assert "--help" in error
    assert error.count("\n") == 1
