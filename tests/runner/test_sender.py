"""The sender: what it tells about the client is of the load alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lmtui.runner import recorded
from lmtui.runner.load import Control
from lmtui.runner.recorded import Recorded
from lmtui.runner.sender import LocalSender
from lmtui.targets.base import Session
from lmtui.wire.stats import WireStats
from lmtui.workload.plan import PlannedRequest
from tests.runner.harness import Script, on_virtual_loop, requests, share


class Counted(Script):
    """A target whose wire notices something at every request, and at the first five all that can go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.stats = WireStats()
        self._put_lag = self.stats.read_lag_ns.append
        self._performed = 0

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        await super().perform(request, session)
        self._performed += 1
        is_cold = self._performed <= 5
        self._put_lag(9_000_000 if is_cold else 1_000)
        self.stats.events += request.output_len
        self.stats.opened += 1
        if is_cold:
            self.stats.coalesced += 1
            self.stats.user_stamps += 1
            self.stats.clock_steps += 1
            self.stats.replaced += 1


def send(folder: Path, warmup: int) -> tuple[Recorded, WireStats]:
    async def main() -> tuple[Recorded, WireStats]:
        target = Counted()
        part = share(requests(8), warmup=requests(warmup))
        sender = LocalSender(target, part, folder / "ticks-0.bin", Control(), target.stats)
        await sender.warm_up()
        released: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1, released.set_result, 0)  # flushes come before the release, too
        await sender.run(released)
        return recorded.read(folder, 8), target.stats

    return on_virtual_loop(main())


def test_what_the_warm_up_did_to_the_client_is_not_reported(tmp_path: Path) -> None:
    samples, stats = (found := send(tmp_path, warmup=5))[0].samples, found[1]
    assert samples.read_lag_ns.tolist() == [1_000] * 8
    assert (samples.events, samples.coalesced, samples.replaced, samples.clock_steps) == (24, 0, 0, 0)
    assert (samples.clock, stats.opened) == ("kernel", 8)


def test_without_a_warm_up_all_is_reported(tmp_path: Path) -> None:
    samples = send(tmp_path, warmup=0)[0].samples
    assert sorted(samples.read_lag_ns.tolist()) == [1_000] * 3 + [9_000_000] * 5
    assert (samples.coalesced, samples.replaced, samples.clock_steps, samples.clock) == (5, 5, 5, "user")
