"""What several rooms' tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lmtui.targets import tiny_model
from tests.servers import RunningServer, transformers_serve


@pytest.fixture(scope="session")
def transformers_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One `transformers serve` of the tiny model for all tests: it takes ten seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMTUI_HOME", str(tmp_path_factory.mktemp("serving")))
        model = tiny_model.path()
    with transformers_serve(model) as server:
        yield server
