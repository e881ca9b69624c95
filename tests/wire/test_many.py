"""Many requests at once on a server that misbehaves in every way: each ends once, and nothing is left open."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from lmtui.metrics.sessions import Outcome
from lmtui.wire import Client, Endpoint
from tests.wire.raw_server import DONE, END, HEAD, RawServer, answer, chunk, raw_server, read_request, token
from tests.wire.record import Record, ask, perform

REFUSAL = b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy"
MANNERS = ("whole", "apart", "closes", "resets", "refuses", "hangs", "garbage", "silent", "bytewise")


def misbehave(seed: int) -> Callable[[socket.socket, int, RawServer], None]:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        draw = random.Random(seed * 1000 + number)
        while read_request(connection):
            how = draw.choice(MANNERS)
            if how == "whole":
                connection.sendall(answer(5))
            elif how == "apart":
                for data in (HEAD, chunk(token()), chunk(token(finish="length")), chunk(DONE), END):
                    connection.sendall(data)
            elif how == "bytewise":
                for byte in answer(2):
                    connection.send(bytes([byte]))
            elif how == "refuses":
                connection.sendall(REFUSAL)
            elif how == "garbage":
                connection.sendall(HEAD + chunk(token(), b"data: {oops\n\n"))
            elif how == "hangs":
                connection.sendall(HEAD + chunk(token()))
                server.wait_until_left(connection)
                return
            elif how == "resets":
                connection.sendall(HEAD + chunk(token()))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            elif how == "closes":
                connection.sendall(answer(3)[:-40])
                return
            else:
                return

    return serve


async def send_many(base_url: str, seed: int) -> tuple[Counter[Outcome], Client]:
    draw = random.Random(seed)
    endpoint = Endpoint.parse(base_url)
    client = Client(endpoint, idle_timeout_s=0.3)
    await client.open()
    await client.prepare(8)
    outcomes: Counter[Outcome] = Counter()
    left = iter(range(120))

    async def work() -> None:
        for _ in left:
            record = Record(cut_after=draw.choice([None, None, 1, 3]))
            if draw.random() < 0.2:
                loop = asyncio.get_running_loop()
                loop.call_later(
                    draw.random() / 100, lambda made: None if made.ends else made.cut(Outcome.ABORTED), record
                )
            await perform(client, ask(endpoint), record)
            outcomes[record.outcome] += 1

    await asyncio.gather(*(work() for _ in range(16)))
    await client.close()
    return outcomes, client


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("runner", [uvloop.run, asyncio.run])
def test_every_request_ends_once(runner: Callable[[Any], Any], seed: int) -> None:
    serve = misbehave(seed)
    uvloop.run(asyncio.sleep(0))  # The first loop of a process opens a pipe for good.
    with raw_server(serve) as server:
        before = len(os.listdir("/proc/self/fd"))
        outcomes, client = runner(send_many(server.base_url, seed))
        ours = {connection for connection in [*client._idle, *client._busy] if connection.is_open}
        assert ours == set()
    assert sum(outcomes.values()) == 120
    assert outcomes[Outcome.OK] > 10
    assert len(os.listdir("/proc/self/fd")) <= before
    expected = {Outcome.HTTP_ERROR, Outcome.PROTOCOL_ERROR, Outcome.TRUNCATED, Outcome.CANCELLED, Outcome.TIMEOUT}
    assert expected <= outcomes.keys()
