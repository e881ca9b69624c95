from __future__ import annotations

import subprocess
import sys

import pytest

from lmtui.errors import TargetError
from lmtui.targets.build import build
from tests.targets.making import config


@pytest.mark.parametrize("kind", ["turbomind", "pytorch", "pipeline"])
def test_kinds_to_come_are_refused_in_a_sentence(kind: str) -> None:
    with pytest.raises(TargetError, match=f'target.kind "{kind}" is not built yet: set target.kind to'):
        build(config(kind))


def test_the_simulated_target_needs_no_engine() -> None:
    script = (
        "import sys; from lmtui.targets.build import build; from tests.targets.making import config; "
        "build(config('simulated')); print([m for m in ('torch', 'transformers', 'lmdeploy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
