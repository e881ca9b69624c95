"""LMDeploy's logger as a run hears it, and the variables an engine finds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmtui.targets import engine_environment
from lmtui.targets.lmdeploy_import import LmdeployLog
from tests.targets.making import config


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("lmdeploy")
    handlers, level, levels = list(found.handlers), found.level, [handler.level for handler in found.handlers]
    yield found
    found.handlers, found.level = handlers, level
    for handler, before in zip(handlers, levels, strict=True):
        handler.setLevel(before)


def test_phases_of_loading_become_progress_until_it_is_loaded(logger: logging.Logger) -> None:
    shown = list[str]()
    log = LmdeployLog("ERROR", shown.append)
    logger.info("Building Model.")
    logger.info("of no interest")
    logger.info("Warming up model.")
    log.loaded()
    logger.info("Building Model.")
    assert shown == ["building the model", "warming the engine up"]
    assert not logger.isEnabledFor(logging.INFO), "each request would be formatted"


def test_only_what_the_config_asks_for_is_printed_while_it_loads(logger: logging.Logger) -> None:
    printed = list[str]()

    class Printer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            printed.append(record.getMessage())

    logger.addHandler(Printer())
    LmdeployLog("WARNING", lambda line: None)
    logger.info("Building Model.")
    logger.warning("careful")
    assert printed == ["careful"]


def test_an_exception_explains_more_than_the_errors_that_follow(logger: logging.Logger) -> None:
    log = LmdeployLog("ERROR", lambda line: None)
    assert log.last_error == ""
    logger.error("first\nsecond line")
    assert log.last_error == "first"
    try:
        raise RuntimeError("CUDA error\nmore")
    except RuntimeError:
        logger.exception("Engine main loop failed.")
    logger.error("session 9 finished")
    assert log.last_error == "RuntimeError: CUDA error"


@pytest.mark.parametrize("level", ["DEBUG", "CRITICAL"])
def test_errors_are_heard_at_every_level(logger: logging.Logger, level: str) -> None:
    log = LmdeployLog(level, lambda line: None)
    log.loaded()
    logger.error("heard")
    assert log.last_error == "heard"
    assert logger.isEnabledFor(logging.DEBUG) == (level == "DEBUG")


def test_an_engine_finds_its_log_settings_and_no_hub_when_all_is_here(tmp_path: Path) -> None:
    here = engine_environment.variables(config("turbomind", model=str(tmp_path), log_level="CRITICAL"))
    assert (here["TM_LOG_LEVEL"], here["HF_HUB_OFFLINE"]) == ("FATAL", "1")
    drafting: dict[str, Any] = {"speculative_draft_model": "a/draft", "speculative_algorithm": "eagle"}
    assert "HF_HUB_OFFLINE" not in engine_environment.variables(config("pytorch", model=str(tmp_path), **drafting))
    assert "HF_HUB_OFFLINE" not in engine_environment.variables(config("pytorch", model="a/b"))
    assert engine_environment.variables(config("server")) == {}
