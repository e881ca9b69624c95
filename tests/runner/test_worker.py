"""What a load worker does between the words of the run process."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from lmtui.runner.channel import Channel, Done, Ended, Job, Ready, Release, WarmUp
from lmtui.runner.load import EndedBy
from lmtui.runner.worker import Worker
from lmtui.targets.base import TargetInfo
from lmtui.targets.server import ServerPlan
from tests.runner.harness import requests, share
from tests.targets.making import config
from tests.wire.raw_server import RawServer, answer, raw_server, read_request


def closes_each(connection: socket.socket, number: int, server: RawServer) -> None:
    if read_request(connection):
        connection.sendall(answer().replace(b"\r\n", b"\r\nconnection: close\r\n", 1))


async def accepted(server: RawServer, count: int) -> None:
    """Wait until the server has taken so many connections; the client's side of them is open before."""
    deadline = asyncio.get_running_loop().time() + 10
    while server.connections < count:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.001)


async def test_connections_that_the_warm_up_used_up_are_opened_again_before_the_release(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with raw_server(closes_each) as server:
        worker = Worker(await Channel.over(theirs), tmp_path / "ticks-0.bin", lambda failed: failed)
        channel = await Channel.over(ours)
        working = asyncio.ensure_future(worker.work())
        plan = ServerPlan(TargetInfo("m"), (), uses_max_tokens=False, counts_text=False)
        part = share(requests(2), warmup=requests(2), connections=2)
        channel.send(Job(config("server", base_url=server.base_url), plan, part))
        assert await channel.receive() == Done()
        await accepted(server, 2)
        channel.send(WarmUp())
        assert await channel.receive() == Done()
        await accepted(server, 4)
        channel.send(Ready())
        assert await channel.receive() == Done()
        channel.send(Release(0))
        while not isinstance(ended := await channel.receive(), Ended):
            assert ended is not None
        await working
        await channel.close()
    assert (ended.by, ended.error, ended.progress.counts.ok) == (EndedBy.PLAN, None, 2)
    assert server.connections == 4
