"""A run process whose engine is a stand-in that can serve several runs; the name of each run says what befalls it.

`python -m tests.runner.kept_process` takes what `lmtui.runner.process` takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome
from lmtui.runner import process
from lmtui.targets import build, lmdeploy_preflight
from lmtui.targets.base import Target, TargetInfo
from tests.runner.harness import Script

DIES, REFUSED, UNSOUND, SLOW, HANGS = "dies", "refused", "unsound", "slow", "hangs at close"


class Engine(Script):
    """Tells in `versions` how often it was opened and in which loop; prints when it is closed."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.opened = 0
        self._serve(config)

    def _serve(self, config: Config) -> None:
        self.name = config.name
        self.gap_s = 3600.0 if self.name == SLOW else 0.001
        self.fail = self._dies if self.name == DIES else lambda index: None

    def _dies(self, index: int) -> Outcome | Exception | None:
        return TargetError("the engine died") if index == 3 else None

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        self.opened += 1
        print("stdin is", os.readlink("/proc/self/fd/0"), flush=True)
        return self._info()

    @property
    def is_sound(self) -> bool:
        return self.name != UNSOUND

    def reuse(self, config: Config) -> TargetInfo:
        self._serve(config)
        if self.name == REFUSED:
            raise TargetError("it cannot be served")
        return self._info()

    def _info(self) -> TargetInfo:
        loop = id(asyncio.get_running_loop())
        return TargetInfo(model="a stand-in", versions={"opened": str(self.opened), "loop": str(loop)})

    async def close(self) -> None:
        if self.name == HANGS:
            time.sleep(600)  # noqa: ASYNC251
        print("closed", flush=True)


def main() -> int:
    def made(config: Config) -> Target:
        return Engine(config)

    build.build = made
    lmdeploy_preflight.refuse = lambda config: None
    process.CLOSE_S = 0.3
    return process.main()


if __name__ == "__main__":
    sys.exit(main())
