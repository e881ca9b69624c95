"""A home for each test of the contract, and one tiny model for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.targets import tiny_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The embedded tiny model, made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMTUI_HOME", str(tmp_path_factory.mktemp("model-home")))
        yield str(tiny_model.path())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "home"
