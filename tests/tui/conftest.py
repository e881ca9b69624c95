"""Every test of the application has a home of its own, and a terminal that is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual._wait import wait_for_idle


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("LMTUI_HOME", str(folder))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TMUX", raising=False)
    return folder


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """See sooner that the application rests after a key: look every 4 ms, not every 20."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.004)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.0002)
    monkeypatch.setattr("textual.pilot.wait_for_idle", lambda least_s=0.004: wait_for_idle(least_s))


@pytest.fixture(autouse=True)
def refresh_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the live screen look at its feed sooner than a person needs."""
    monkeypatch.setattr("lmtui.tui.screens.live.REFRESH_S", 0.05)
