"""A plan that cannot fit into memory is refused before it is drawn, with the numbers and the keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.errors import ConfigError
from lmtui.workload import memory
from lmtui.workload.draw import draw

MakeConfig = Callable[[dict[str, Any]], Config]
SMALL = {"dataset.input_len": 1000, "dataset.output_len": 8, "load.num_prompts": 1000}


def silent(line: str, share: float | None) -> None: ...


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 100 * 2**20)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"load.num_prompts": 10_000_000},
            "load.num_prompts = 10000000 of dataset.input_len = 1000: the plan would take about 67.1 GiB of memory, "
            "and 100 MiB are free: lower load.num_prompts, dataset.input_len.",
        ),
        ({"dataset.input_len": 10_000_000}, "lower load.num_prompts, dataset.input_len."),
        ({"dataset.prefix_len": 100_000}, "dataset.prefix_len = 100000"),
        ({"dataset.prefix_len": 1000, "dataset.prefix_groups": 1_000_000}, "dataset.prefix_len = 1000"),
        (
            {"load.mode": "open", "load.rate": 1e6, "load.duration_s": 3600.0},
            "lower load.num_prompts, dataset.input_len, load.rate or load.duration_s.",
        ),
        ({"dataset.kind": "jsonl", "dataset.path": "none", "load.num_prompts": 10_000_000}, "lower load.num_prompts."),
    ],
)
def test_a_plan_beyond_the_memory_is_refused(keys: dict[str, Any], says: str, make_config: MakeConfig) -> None:
    with pytest.raises(ConfigError) as caught:
        draw(make_config({**SMALL, **keys}), silent)
    assert says in str(caught.value)


def test_what_fits_is_drawn(make_config: MakeConfig) -> None:
    assert len(draw(make_config(SMALL), silent).requests) == 1000


def test_where_the_system_does_not_tell_nothing_is_refused(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.check(make_config({**SMALL, "load.num_prompts": 10_000_000}), "words")


def test_a_container_may_allow_less_than_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.available_bytes() is None
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:   4096 kB\n")
    assert memory.available_bytes() == 4096 * 1024
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() == 4096 * 1024
    (tmp_path / "memory.max").write_text("1500\n")
    assert memory.available_bytes() == 500
