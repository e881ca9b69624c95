"""A run process whose PyTorch engine is LMDeploy's own over the stub executor.

python -m tests.contract.stub_run RUN_DIRECTORY [STEP_SECONDS [DIE_AFTER_STEPS]]
"""

from __future__ import annotations

import sys
from pathlib import Path

from lmtui.runner.process import RunProcess
from lmtui.runner.rundir import RunDirectory


def main() -> int:
    from lmtui.targets import lmdeploy_preflight
    from tests.contract import stub_executor

    stub_executor.install()
    lmdeploy_preflight.refuse = lambda config: None  # it would find that there is no GPU
    if len(sys.argv) > 2:
        stub_executor.StubExecutor.step_s = float(sys.argv[2])
    if len(sys.argv) > 3:
        stub_executor.StubExecutor.die_after = int(sys.argv[3])
    return RunProcess(RunDirectory(Path(sys.argv[1])), []).main()


if __name__ == "__main__":
    sys.exit(main())
