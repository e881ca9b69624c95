"""A run process with a target that misbehaves: `python -m tests.runner.odd_process RUN_DIRECTORY WHAT`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.runner import process
from lmtui.runner.rundir import RunDirectory
from lmtui.targets import build
from lmtui.targets.base import Target, TargetInfo
from tests.runner.harness import Script


class Odd(Script):
    def __init__(self, what: str) -> None:
        super().__init__(gap_s=0.01)
        self.what = what
        self.is_deaf = what == "deaf"

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        progress("loading weights")
        if self.what == "no-target":
            raise TargetError("no engine here: install it")
        if self.what == "bug-at-load":
            raise ZeroDivisionError("oops")
        if self.what == "exit-at-load":
            sys.exit(7)
        if self.what == "slow-load":
            await asyncio.sleep(600)
        if self.what == "blocked-load":
            time.sleep(600)  # noqa: ASYNC251
        return TargetInfo(model="odd")

    async def close(self) -> None:
        if self.what == "blocked-close":
            time.sleep(600)  # noqa: ASYNC251
        if self.what == "bug-at-close":
            raise ZeroDivisionError("oops")


def main() -> int:
    run, what = RunDirectory(Path(sys.argv[1])), sys.argv[2]

    def odd(config: Config) -> Target:
        return Odd(what)

    build.build = odd
    process.BLOCKED_S = process.CLOSE_S = 0.3
    return process.RunProcess(run, ["a note"]).main()


if __name__ == "__main__":
    sys.exit(main())
