"""Loading made visible: the log's progress becomes the message."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lmtui.runner import loading
from lmtui.runner.loading import LoadingLog


def test_only_new_lines_that_tell_of_progress_are_shown_and_each_once(tmp_path: Path) -> None:
    log, shown = tmp_path / "engine.log", list[str]()
    log.write_text("Loading weights:  10%|#| 1/10\n")
    follower = LoadingLog(log, shown.append)
    follower.look()
    with log.open("a") as out:
        for text in ("Loading weights:  20%|##| 2/10\r", "Loading weights:  20%|##| 2/10\r", "no news\n"):
            out.write(text)
            out.flush()
            follower.look()
        out.write("Loading weights:  90%|##| 9/10\r")
        out.flush()
        follower.look()
    assert shown == ["loading weights 20% (2/10)", "loading weights 90% (9/10)"]


def test_it_follows_by_itself_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "EVERY_S", 0.001)
    log, seen = tmp_path / "engine.log", threading.Event()
    before = threading.active_count()
    with LoadingLog(log, lambda line: seen.set()):  # there is no log yet
        log.write_text("Warming up model.\n")
        assert seen.wait(30)
    assert threading.active_count() == before


def test_a_log_that_cannot_be_read_is_no_progress(tmp_path: Path) -> None:
    shown = list[str]()
    LoadingLog(tmp_path / "none" / "engine.log", shown.append).look()
    assert shown == []
