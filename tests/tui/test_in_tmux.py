"""The application in a real terminal: start a run, leave it running, come back to it, find its row."""

from __future__ import annotations

import itertools
import os
import pty
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.tui.terminal import HUNG_UP

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")]

ROOT = Path(__file__).parents[2]
GIVE_UP_S = 30.0
NUMBERS = itertools.count()


class Terminal:
    """One shell in a tmux server of its own."""

    def __init__(self, home: Path, size: tuple[int, int], environment: dict[str, str]) -> None:
        self._server = f"lmtui-test-{os.getpid()}-{next(NUMBERS)}"
        settings = {"LMTUI_HOME": str(home), "PYTHONPATH": str(ROOT), "PS1": "$ ", **environment}
        shell = " ".join(["env", *(shlex.quote(f"{k}={v}") for k, v in settings.items()), "sh"])
        width, height = map(str, size)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, shell)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-L", self._server, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys, as tmux names them."""
        self._tmux("send-keys", *keys)

    def run(self, *arguments: str) -> None:
        """Type an lmtui command."""
        self.press("-l", shlex.join([sys.executable, "-m", "lmtui", *arguments]))
        self.press("Enter")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def pane(self, name: str) -> str:
        """Return what tmux knows of the pane."""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    def close_window(self) -> None:
        """Close the terminal as a lost connection does; the server stays."""
        self._tmux("new-window", "-d", "sh")
        self._tmux("kill-window", "-t", "0")

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, *words: str) -> str:
        """Wait until all the words are on the screen, and return it."""
        deadline = time.monotonic() + GIVE_UP_S
        while not all(word in (shown := self.screen) for word in words):
            assert time.monotonic() < deadline, f"never saw {words} in\n{shown}"
            time.sleep(0.05)
        return shown

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture(params=["xterm-256color", "xterm"])
def terminal(request: pytest.FixtureRequest, home: Path) -> Iterator[Terminal]:
    opened = Terminal(home, (80, 24), {"TERM": request.param, "COLUMNS": "80", "LINES": "24"})
    yield opened
    opened.close()


def test_a_run_survives_quitting_and_its_row_is_found(terminal: Terminal, home: Path) -> None:
    terminal.run()
    terminal.wait_for("Welcome", "simulated", "^q quit")
    terminal.press("End")
    terminal.wait_for("simulated  preset")
    terminal.press("r")
    terminal.wait_for("SIMULATED", "running", "percentiles")
    terminal.press("C-c")
    terminal.wait_for("What becomes of it?")
    terminal.press("Enter")
    terminal.wait_for("lmtui attach", "running")

    terminal.run()
    terminal.wait_for("configs", "▶ simulated", "^q quit")
    terminal.press("a")
    terminal.wait_for("SIMULATED", "TTFT", "in flight")
    terminal.resize(120, 40)
    terminal.wait_for("max       n")
    terminal.resize(80, 24)
    terminal.wait_for("grade", "200/200")
    terminal.press("q")
    terminal.wait_for("lmtui   configs")
    terminal.press("h")
    terminal.wait_for("lmtui   results   1 runs", "simulated")
    terminal.press("Enter")
    terminal.wait_for("lmtui   details", "Latencies")
    terminal.press("q")
    terminal.wait_for("results")
    terminal.press("v")
    terminal.wait_for("200/200", "grade")
    terminal.press("C-q")
    shown = terminal.wait_for("kept as", "history.csv")
    assert "Traceback" not in shown
    assert (home / "history.csv").read_text().count("\n") == 2


def test_ascii_without_colour_in_a_locale_without_utf_8(home: Path) -> None:
    terminal = Terminal(home, (80, 24), {"TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "POSIX", "PYTHONUTF8": "0"})
    try:
        terminal.run("--ascii", "--no-mouse")
        shown = terminal.wait_for("Welcome", "^q quit")
        assert shown.isascii()
        terminal.press("?")
        assert terminal.wait_for("Make a config from a preset").isascii()
        terminal.press("q")
        terminal.wait_for("Welcome")
        terminal.press("C-q")
        terminal.wait_for("$ ")
    finally:
        terminal.close()


def test_a_bug_leaves_the_terminal_usable_and_names_the_log(home: Path) -> None:
    terminal = Terminal(home, (80, 24), {"TERM": "xterm-256color"})
    try:
        broken = (
            "import sys; from lmtui.tui import catalog; from lmtui import cli; "
            "catalog.configs = lambda _: 1 / 0; sys.exit(cli.main([]))"
        )
        terminal.press("-l", shlex.join([sys.executable, "-c", broken]) + "; echo code $?; stty -a | grep -o ' echo '")
        terminal.press("Enter")
        shown = terminal.wait_for("code 1", " echo ")
        assert "error.log" in shown
        assert "Traceback" not in shown
        assert "ZeroDivisionError" in (home / "error.log").read_text()
    finally:
        terminal.close()


def test_a_lost_terminal_ends_the_viewer_also_when_no_signal_says_so(home: Path) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "LMTUI_HOME": str(home), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "lmtui"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    seen = b""
    while b"quickstart" not in seen:
        seen += os.read(master, 65536)
    os.close(master)
    assert process.wait(GIVE_UP_S) == HUNG_UP
