"""Another interpreter for the run process: lent lmtui and nothing else; what it lacks is named."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.errors import ConfigError
from lmtui.runner import interpreter, spawn

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


def engine_environment(folder: Path, without: str = "") -> Path:
    """Make an environment that has this one's packages but lmtui, and but `without`."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for place in (path for path in sys.path if path.endswith("site-packages")):
        for package in Path(place).iterdir():
            name = package.name.lower()
            if (
                not name.startswith(("lmtui", "__editable__", "_virtualenv", "distutils-precedence"))
                and name != without
            ):
                link = site / package.name
                if not link.exists():
                    link.symlink_to(package)
    (site / "sitecustomize.py").write_text("import sys; print('running in', sys.prefix, file=sys.stderr)\n")
    return folder


def config(python: Path | str, **request: Any) -> Config:
    return Config.model_validate(
        {
            "name": "elsewhere",
            "target": {"kind": "transformers", "python": str(python), "device": "cpu"},
            "dataset": {"input_len": 8, "output_len": 4},
            "load": {"concurrency": 2, "num_prompts": 4},
            "request": request,
        }
    )


def test_a_run_under_another_interpreter_measures_with_this_lmtui(tmp_path: Path) -> None:
    there = engine_environment(tmp_path / "engine")
    lacks = subprocess.run([there / "bin" / "python", "-c", "import lmtui"], capture_output=True, cwd="/")
    assert lacks.returncode != 0
    run = spawn.start(config(there / "bin" / "python"))
    give_up_at = time.monotonic() + 120
    while (status := run.status()) is None or not status.is_final:
        assert time.monotonic() < give_up_at, run.log_tail()
        time.sleep(0.05)
    result = run.result()
    assert status.exit_code == 0, (status.message, run.log_tail())
    assert result is not None
    assert result.outcomes["ok"] == 4
    assert f"running in {there}" in run.log_tail(100_000)


def test_what_it_lacks_is_named_with_the_command_that_brings_it(bare: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        spawn.start(config(bare))  # the environment's folder is enough
    words = f"-m pip install {' '.join(interpreter.PACKAGES.values())} uvloop"
    assert f"target.python = '{bare}' lacks packages that a run needs: {bare}/bin/python {words}" in str(refused.value)


def test_one_missing_package_is_named_alone(tmp_path: Path) -> None:
    there = engine_environment(tmp_path / "engine", without="msgspec")
    with pytest.raises(ConfigError, match=r"lacks packages that a run needs: \S+/bin/python -m pip install msgspec$"):
        interpreter.command(config(there, uvloop=False))


def test_only_lmtui_is_lent_last_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/first")
    _, path = interpreter.command(config(sys.executable))
    first, lent = path["PYTHONPATH"].split(os.pathsep)
    assert first == "/first"
    assert os.listdir(lent) == ["lmtui"]
    assert interpreter.command(config(sys.executable))[1] == path  # made once


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no interpreter: give the path of an environment's bin/python"):
        interpreter.command(config("/nowhere/python"))
    liar = tmp_path / "liar"
    liar.write_text("#!/bin/sh\necho hello\n")
    liar.chmod(liar.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ConfigError, match="does not answer as a Python interpreter"):
        interpreter.command(config(liar))


def test_an_interpreter_too_old_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho '[[3, 8], []]'\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ConfigError, match=r"is Python 3\.8: lmtui needs 3\.10 or newer"):
        interpreter.command(config(old))


def test_the_preflight_looks_at_the_other_environment(tmp_path: Path) -> None:
    there = engine_environment(tmp_path / "engine")
    site = next(there.glob("lib/python*/site-packages"))
    for link in site.glob("lmdeploy*"):
        link.unlink()
    made = config(there)
    engine = made.target.model_copy(update={"kind": "pytorch", "model": "a/b", "device": "auto"})
    made = made.model_copy(update={"target": engine})
    (finding,) = interpreter.findings(made)
    assert (finding.name, finding.state) == ("lmdeploy", "fail")
    assert finding.found == "LMDeploy is not installed here"
