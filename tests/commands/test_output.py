"""What commands print where the terminal, the disk or the folder is not as it should be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from lmtui import output
from lmtui.runner.rundir import RunDirectory
from tests.runner.harness import config, status

ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / "home"


def lmtui(
    *arguments: str, environment: Mapping[str, str] | None = None, stdout: IO[Any] | int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "lmtui", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        timeout=60,
        check=False,
    )


def a_failed_run(name: str) -> RunDirectory:
    made = config(target={"model": name})
    run = RunDirectory.create(made)
    run.write_status(status(run, phase="failed", pid=1, pid_started=0, target_model=name, message=f"{name}: no…"))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("environment", ASCII)
def test_a_terminal_without_unicode_gets_similar_signs(environment: dict[str, str]) -> None:
    a_failed_run("Größe-日本-😀")
    for arguments in (["runs"], ["plan", "simulated"], ["configs"], ["selftest", "--help"], ["show", "last"]):
        done = lmtui(*arguments, environment=environment)
        assert b"a bug" not in done.stderr, done.stderr
        assert (done.stdout + done.stderr).isascii()
    done = lmtui("runs", "--json", environment=environment)
    assert done.stdout.isascii()
    (row,) = json.loads(done.stdout)
    assert row["model"] == "Größe-日本-😀"


@pytest.mark.parametrize("text", ["plain", "Größe", "日本 😀", 'a "quoted" \\ line\n'])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_loses_nothing_in_any_encoding(text: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    output.print_json({text: [text]})
    stdout.flush()
    assert isinstance(stdout.buffer, io.BytesIO)
    assert json.loads(stdout.buffer.getvalue().decode(encoding)) == {text: [text]}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["runs"], ["plan", "simulated"], ["--help"], ["results", "--csv"]])
def test_a_closed_stdout_is_a_sentence(arguments: list[str]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m lmtui "$@" >&-', sys.executable, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("lmtui: stdout is closed")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["runs"], ["plan", "simulated", "--json"], ["configs", "--json"]])
def test_a_full_stdout_is_a_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = lmtui(*arguments, stdout=full)
    assert (done.returncode, done.stderr) == (2, b"lmtui: stdout: No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["runs"], ["results"], ["show", "last"], ["configs"], ["run", "simulated"], ["stop", "last"], ["doctor"]],
)
def test_a_home_that_is_a_file_is_a_sentence(home: Path, arguments: list[str]) -> None:
    home.write_text("not a folder")
    done = lmtui(*arguments)
    assert b"LMTUI_HOME" in done.stderr + done.stdout
    assert b"Traceback" not in done.stderr
    assert b"a bug" not in done.stderr
    assert done.returncode == (3 if arguments == ["doctor"] else 2)


def test_a_bug_is_told_where_its_log_cannot_be_written(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lmtui import cli, listings

    def broken(*, as_json: bool) -> int:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(listings, "runs", broken)
    home.mkdir()
    (home / "error.log").mkdir()
    assert cli.main(["runs"]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.splitlines()[-1].startswith("lmtui: a bug: ZeroDivisionError: oops. The traceback is above")
