from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.workload import prose, tiny_tokenizer

MakeConfig = Callable[..., Config]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tiny tokenizer, built once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMTUI_HOME", str(tmp_path_factory.mktemp("tiny")))
        return str(tiny_tokenizer.path())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def make_config() -> MakeConfig:
    """Build a config from key paths: `make_config({"target.kind": "server", "dataset.input_len": 8})`."""

    def make(keys: dict[str, Any]) -> Config:
        tree: dict[str, Any] = {"name": "test", "target": {"kind": "simulated"}}
        for key, value in keys.items():
            *section, name = key.split(".")
            (tree.setdefault(section[0], {}) if section else tree)[name] = value
        return Config.model_validate(tree)

    return make


def conversation(turns: list[str]) -> dict[str, object]:
    speakers = ("human", "gpt")
    return {"conversations": [{"from": speakers[k % 2], "value": text} for k, text in enumerate(turns)]}


@pytest.fixture(scope="session")
def sharegpt_items() -> list[dict[str, object]]:
    """400 conversations of which every filter drops some."""
    generator = random.Random(20)
    words = prose.words()

    def text(count: int) -> str:
        return " ".join(generator.choices(words, k=count)) + generator.choice(["", "!", " ünï", " 文字", " 😀"])

    items = []
    for _ in range(400):
        turns = [text(generator.randrange(1, 60)) for _ in range(generator.choice([1, 2, 2, 3, 6]))]
        fault = generator.randrange(12)
        if fault == 0:
            turns[0] = generator.choice(["", "a", "hm"])
        elif fault == 1:
            turns[-1] = ""
        elif fault == 2:
            turns[0] = text(900)
        elif fault == 3 and len(turns) > 1:
            turns[0], turns[1] = text(400), text(1100)
        items.append(conversation(turns))
    items.append({"conversations": []})
    return items


@pytest.fixture(scope="session")
def sharegpt_file(sharegpt_items: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sharegpt") / "sharegpt.json"
    path.write_text(json.dumps(sharegpt_items, ensure_ascii=False), encoding="utf-8")
    return path
