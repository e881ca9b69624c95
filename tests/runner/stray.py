"""A run process whose target leaves a child behind, in a process group of its own and deaf to TERM.

    python -m tests.runner.stray RUN_DIRECTORY END

END: "close" ends as a run does, "die" kills the process in the middle of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lmtui.config.model import Config
from lmtui.runner import process, reaper
from lmtui.runner.rundir import RunDirectory
from lmtui.targets import build
from lmtui.targets.base import Session, Target, TargetInfo
from lmtui.workload.plan import PlannedRequest
from tests.runner.harness import Script

DEAF = "import os, signal, time; os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN); "
DEAF += "print(os.getpid(), flush=True); time.sleep(600)"


class Leaving(Script):
    def __init__(self, end: str) -> None:
        super().__init__()
        self._end = end

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        leave_a_child()
        return TargetInfo(model="leaving")

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        if self._end == "die" and request.index == 5:
            print("[TM][FATAL][memory.cu:12] CUDA error: out of memory", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGABRT)
        await super().perform(request, session)


def leave_a_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    Path(sys.argv[1], "stray").write_text(child.stdout.readline())


def main() -> int:
    def leaving(config: Config) -> Target:
        return Leaving(sys.argv[2])

    build.build = leaving
    reaper.end.__defaults__ = reaper.end_own.__defaults__ = (0.2,)
    return process.RunProcess(RunDirectory(Path(sys.argv[1])), []).main()


if __name__ == "__main__":
    sys.exit(main())
