"""A run process whose PyTorch engine is LMDeploy's own over the stub executor; its arguments are the run process's.

The environment says how the stub behaves: STEP_S (seconds a step takes) and DIE_AFTER (steps until the engine dies).
"""

from __future__ import annotations

import os
import sys

STEP_S, DIE_AFTER = "STUB_STEP_S", "STUB_DIE_AFTER"


def main() -> int:
    from lmtui.runner import process
    from lmtui.targets import lmdeploy_preflight
    from tests.contract import stub_executor

    stub_executor.install()
    lmdeploy_preflight.refuse = lambda config: None  # it would find that there is no GPU
    stub_executor.StubExecutor.step_s = float(os.environ.get(STEP_S, "0"))
    if DIE_AFTER in os.environ:
        stub_executor.StubExecutor.die_after = int(os.environ[DIE_AFTER])
    return process.main()


if __name__ == "__main__":
    sys.exit(main())
