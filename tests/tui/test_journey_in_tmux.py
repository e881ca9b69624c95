"""One person's way through the application, in a real terminal; and a terminal that is suspended, shrunk, or gone."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.config import store
from lmtui.runner import runs
from tests.tui.test_in_tmux import GIVE_UP_S, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")]


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    opened = Terminal(home, (120, 40), {"TERM": "xterm-256color"})
    yield opened
    opened.close()


def test_from_a_preset_to_a_comparison_and_back_to_a_run_left_alone(terminal: Terminal, home: Path) -> None:
    terminal.run()
    terminal.wait_for("Welcome", "^q quit")
    terminal.press("n")
    terminal.wait_for("Start from which preset?")
    terminal.press("-l", "simul")
    terminal.press("Enter")
    terminal.wait_for("Name of the new config")
    terminal.press("C-u")
    terminal.press("-l", "mine")
    terminal.press("Enter")
    terminal.wait_for("mine › Target", "saved")

    # Three values, typed ahead, one of them wrong
    terminal.press("/")
    terminal.press("-l", "num_prompts")
    terminal.press("Enter")
    terminal.wait_for("load.num_prompts")
    terminal.press("-l", "4000")
    terminal.press("Enter")
    terminal.wait_for("* Load: Requests", "4000")
    terminal.press("Escape")
    terminal.wait_for("mine › Target")
    terminal.press("/")
    terminal.press("-l", "concurrency")
    terminal.press("Enter")
    terminal.wait_for("load.concurrency")
    terminal.press("-l", "--", "-5")
    terminal.press("Enter")
    terminal.wait_for("-5", "1 error")
    terminal.press("Escape")
    terminal.wait_for("mine › Target")
    terminal.press("/")
    terminal.press("-l", "output_len")
    terminal.press("Enter")
    terminal.wait_for("dataset.output_len")
    terminal.press("-l", "32")
    terminal.press("Enter")
    terminal.wait_for("* Dataset: Output length 32")
    terminal.press("F5")
    terminal.wait_for("Not started", "mine › Load", "-5")
    terminal.press("-l", "16")
    terminal.press("Enter")
    terminal.wait_for("Concurrency", "16 ")
    terminal.press("F5")

    # Watch, maximise, stop and keep
    terminal.wait_for("SIMULATED", "running", "percentiles")
    terminal.press("3", "m")
    terminal.wait_for("3 percentiles (m: back)")
    terminal.press("m")
    terminal.wait_for("1 output tok/s")
    terminal.press("s")
    terminal.wait_for("stopped", "grade", "enter details")
    terminal.press("r")
    terminal.wait_for("running", "s stop")
    terminal.press("s")
    terminal.wait_for("stopped", "grade", "enter details")

    # Results: mark two, compare, run again
    terminal.press("d")
    terminal.wait_for("mine ›")
    terminal.press("q")
    terminal.wait_for("lmtui   configs")
    terminal.press("h")
    terminal.wait_for("2 runs", "mine")
    terminal.press("Space", "Space")
    terminal.wait_for("2 marked")
    terminal.press("c")
    terminal.wait_for("lmtui   compare", "TTFT", "% at most")
    terminal.press("q")
    terminal.wait_for("2 marked")
    terminal.press("r")
    terminal.wait_for("running", "s stop")

    # Quit while it runs, attach, done
    terminal.press("C-q")
    terminal.wait_for("What becomes of it?")
    terminal.press("l")
    terminal.wait_for("lmtui attach")
    terminal.run("attach")
    terminal.wait_for("SIMULATED", "running", "s stop")
    terminal.press("s")
    terminal.wait_for("stopped", "grade")
    terminal.press("C-q")
    shown = terminal.wait_for("kept as")
    assert "Traceback" not in shown
    assert (home / "history.csv").read_text().count("\n") == 4
    assert store.load("mine").get("load.concurrency") == 16
    assert all(run.phase() == "stopped" for run in runs.all_runs())


def test_ctrl_z_and_fg_and_a_terminal_that_shrinks(terminal: Terminal) -> None:
    terminal.run()
    terminal.wait_for("Welcome", "^q quit")
    terminal.press("C-z")
    terminal.wait_for("$ ", "-m lmtui")
    terminal.press("-l", "fg")
    terminal.press("Enter")
    terminal.wait_for("lmtui   configs", "^q quit", "Welcome")
    terminal.resize(20, 5)
    terminal.press("h")
    terminal.wait_for("results")
    terminal.press("q")
    terminal.resize(120, 40)
    terminal.wait_for("lmtui   configs", "^q quit", "Welcome")
    terminal.press("C-q")
    terminal.wait_for("$ ")


def test_a_terminal_that_dies_leaves_the_run_and_no_viewer(terminal: Terminal) -> None:
    terminal.run("run", "simulated", "--detach")
    terminal.wait_for("-simulated-")
    (run,) = runs.all_runs()
    terminal.run("attach", "last")
    terminal.wait_for("SIMULATED", "running")
    shell = int(terminal.pane("pane_pid"))
    viewers = children(shell)
    assert viewers
    terminal.close_window()
    deadline = time.monotonic() + GIVE_UP_S
    while any(is_alive(pid) for pid in viewers):
        assert time.monotonic() < deadline, "the viewer outlived its terminal"
        time.sleep(0.05)
    status = run.status()
    assert status is not None
    assert is_alive(status.pid), "the run goes on"
    runs.stop(run, abort=True)
    while is_alive(status.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Return the processes that this one started and that live."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    """Tell whether a process lives; one that only waits to be reaped does not."""
    try:
        os.kill(pid, signal.SIG_DFL)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
