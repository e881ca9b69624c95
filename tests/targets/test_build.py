from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("kind", ["turbomind", "pytorch", "pipeline"])
def test_a_target_is_made_without_its_engine(kind: str) -> None:
    script = (
        "import sys; from lmtui.targets.build import build; from tests.targets.making import config; "
        f"build(config('{kind}', model='m')); print([m for m in ('torch', 'lmdeploy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_simulated_target_needs_no_engine() -> None:
    script = (
        "import sys; from lmtui.targets.build import build; from tests.targets.making import config; "
        "build(config('simulated')); print([m for m in ('torch', 'transformers', 'lmdeploy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
