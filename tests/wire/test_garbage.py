"""The garbage collector is off while a load runs: no request may leave anything that only it would free."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from lmtui.metrics.sessions import Outcome
from lmtui.wire import Client, Endpoint
from lmtui.wire.tls import context
from tests.wire.certificates import self_signed
from tests.wire.raw_server import HEAD, RawServer, always, answer, chunk, raw_server, read_request, token
from tests.wire.record import Record, ask, perform

REFUSAL = b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy"


def stays_open(connection: socket.socket, number: int, server: RawServer) -> None:
    read_request(connection)
    connection.sendall(HEAD + chunk(token(), token()))
    server.wait_until_left(connection)


def closes(connection: socket.socket, number: int, server: RawServer) -> None:
    read_request(connection)
    connection.sendall(HEAD + chunk(token()))


async def garbage(base_url: str, how: str, requests: int, tls: ssl.SSLContext | None) -> int:
    """Return how many objects only the collector frees after so many requests."""
    endpoint = Endpoint.parse(base_url)
    client = Client(endpoint, idle_timeout_s=0.01 if how == "times out" else 10, tls=tls)
    await client.open()
    gc.collect()
    gc.disable()
    try:
        for _ in range(requests):
            record = Record(cut_after=1 if how == "cuts" else None)
            request = ask(endpoint, count_text=len if how == "counts" else None)
            ticked = asyncio.Event()
            record.on_tick = ticked.set
            running = asyncio.ensure_future(perform(client, request, record))
            if how == "is cut":
                await ticked.wait()
                record.cut(Outcome.ABORTED)
            await running
        await client.close()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("how", "serve"),
    [
        ("ends", always(answer())),
        ("counts", always(answer())),
        ("encrypts", always(answer())),
        ("is refused", always(REFUSAL)),
        ("breaks", always(b"what?\r\n")),
        ("is closed", closes),
        ("cuts", stays_open),
        ("is cut", stays_open),
        ("times out", stays_open),
    ],
)
async def test_a_request_leaves_no_garbage(how: str, serve: Any, tmp_path: Path) -> None:
    certificate, tls = None, None
    if how == "encrypts":
        certificate, tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context(None, True)
        certificate.load_cert_chain(self_signed(tmp_path))
    with raw_server(serve, certificate=certificate) as server:
        base_url = server.base_url.replace("http:", "https:") if tls else server.base_url
        await garbage(base_url, how, 1, tls)
        few, many = [await garbage(base_url, how, requests, tls) for requests in (2, 22)]
    assert many - few < 20, "each request left something"
