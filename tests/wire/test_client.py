"""The client's connections: kept, replaced, cut, timed out, encrypted, and never left hanging."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.wire import Client, ConnectError, Endpoint
from lmtui.wire.tls import context
from tests.wire.certificates import self_signed
from tests.wire.raw_server import (
    DONE,
    END,
    HEAD,
    RawServer,
    always,
    answer,
    chunk,
    raw_server,
    read_request,
    token,
)
from tests.wire.record import Record, ask, perform


@asynccontextmanager
async def opened(base_url: str, **limits: Any) -> AsyncIterator[tuple[Client, Endpoint]]:
    """Open a client; closed after the block."""
    endpoint = Endpoint.parse(base_url)
    client = Client(endpoint, **limits)
    await client.open()
    try:
        yield client, endpoint
    finally:
        await client.close()


def has_ipv6() -> bool:
    """Whether this machine has the address ::1."""
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


async def until(condition: Any) -> None:
    """Give the loop to others until the condition holds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_a_connection_is_kept_when_the_body_ends_after_the_end_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.wire.connection.BODY_END_S", 10.0)
    with raw_server(always(HEAD + chunk(token(), DONE), END)) as server:
        async with opened(server.base_url) as (client, endpoint):
            for _ in range(3):
                record = await perform(client, ask(endpoint))
                assert record.outcome is Outcome.OK
        assert server.connections == 1
        assert client.stats.clock == "kernel"
        assert client.stats.events == 3


async def test_only_the_first_request_reports_how_long_connecting_took() -> None:
    with raw_server(always(answer())) as server:
        async with opened(server.base_url) as (client, endpoint):
            told = [(await perform(client, ask(endpoint))).told["connect_ns"] for _ in range(2)]
    assert told[0] > 0
    assert told[1] == UNKNOWN


async def test_a_body_that_does_not_end_after_the_end_marker_costs_the_connection_not_the_request() -> None:
    with raw_server(always(HEAD + chunk(token(), DONE))) as server:
        async with opened(server.base_url) as (client, endpoint):
            for _ in range(2):
                assert (await perform(client, ask(endpoint))).outcome is Outcome.OK
        assert server.connections == 2


async def test_a_connection_with_more_than_the_answer_is_not_kept() -> None:
    with raw_server(always(answer() + b"HTTP/1.1 200 OK\r\n")) as server:
        async with opened(server.base_url) as (client, endpoint):
            for _ in range(2):
                assert (await perform(client, ask(endpoint))).outcome is Outcome.OK
        assert server.connections == 2


async def test_a_kept_connection_that_the_server_closed_is_replaced_once_and_sent_is_taken_anew() -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        if read_request(connection):
            connection.sendall(answer())
        if number == 0:
            read_request(connection)  # The second request on the first connection is answered by closing it.

    with raw_server(serve) as server:
        async with opened(server.base_url) as (client, endpoint):
            await perform(client, ask(endpoint))
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.OK
    assert len(record.sent_ns) == 2
    assert record.sent_ns[0] < record.sent_ns[1]
    assert client.stats.replaced == 1


async def test_a_new_connection_that_is_closed_without_an_answer_is_not_tried_again() -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)

    with raw_server(serve) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint))
            await client.prepare(1)
            again = await perform(client, ask(endpoint))
        assert server.connections == 3
    assert record.outcome is again.outcome is Outcome.TRUNCATED
    assert "closed the connection" in record.told["error"]
    assert client.stats.replaced == 1


async def test_connections_are_opened_before_they_are_needed_and_lost_ones_forgotten() -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        if number == 0:
            return
        while read_request(connection):
            connection.sendall(answer())

    with raw_server(serve) as server:
        async with opened(server.base_url) as (client, endpoint):
            await client.prepare(1)
            await until(lambda: not client._idle)
            await client.prepare(2)
            assert len(client._idle) == 2
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.OK
    assert client.stats.opened == 3


async def test_a_large_request_is_written_in_parts() -> None:
    with raw_server(always(answer())) as server:
        async with opened(server.base_url) as (client, endpoint):
            request = ask(endpoint, prompt="long " * 2_000_000)
            record = await perform(client, request)
    assert record.outcome is Outcome.OK
    assert server.requests == [request.payload]


async def test_an_answer_that_comes_before_the_request_is_written_is_taken() -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\n\r\ntoo large")
        server.wait_until_left(connection)

    with raw_server(serve) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint, prompt="long " * 4_000_000))
        assert server.left.wait(10)
    assert record.outcome is Outcome.HTTP_ERROR
    assert record.told["error"] == "HTTP 413: too large"


async def test_a_planned_cut_closes_the_stream_and_counts_what_was_on_the_way() -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        connection.sendall(HEAD + chunk(*(token() for _ in range(10))))
        server.wait_until_left(connection)

    with raw_server(serve) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint, ignores_eos=True, max_tokens=100), Record(cut_after=3))
        assert server.left.wait(10)
    assert record.outcome is Outcome.CANCELLED
    assert len(record.ticks) == 3
    assert record.told["output_tokens"] == 3
    assert record.told["token_source"] is TokenSource.CHUNKS
    assert record.told["wasted_tokens"] == 7


async def test_a_planned_cut_at_the_finished_answer_changes_nothing() -> None:
    with raw_server(always(answer(3))) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint), Record(cut_after=3))
    assert record.outcome is Outcome.OK


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.ABORTED, Outcome.TIMEOUT])
async def test_a_cut_while_waiting(outcome: Outcome) -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        connection.sendall(HEAD + chunk(token()))
        server.wait_until_left(connection)

    with raw_server(serve) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = Record()
            running = asyncio.create_task(perform(client, ask(endpoint), record))
            await until(lambda: record.ticks)
            record.cut(outcome)
            await running
        assert server.left.wait(10)
    assert record.outcome is outcome
    assert record.told["output_tokens"] == 1


async def test_a_cut_before_it_was_sent_is_dropped() -> None:
    with raw_server(always(answer())) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint), Record(cut_as=Outcome.ABORTED))
    assert record.outcome is Outcome.DROPPED
    assert record.sent_ns == []


@contextmanager
def deaf_port() -> Iterator[int]:
    """Give the port of a listener that takes no connection: those that try wait without an answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as filling:
        port = listener.getsockname()[1]
        for _ in range(4):
            sock = filling.enter_context(socket.socket())
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(("127.0.0.1", port))
        yield port


async def test_a_cut_while_connecting() -> None:
    with deaf_port() as port:
        async with opened(f"http://127.0.0.1:{port}") as (client, endpoint):
            record = Record()
            running = asyncio.create_task(perform(client, ask(endpoint), record))
            await until(lambda: record.on_cut is not None)
            record.cut(Outcome.ABORTED)
            await running
            assert record.outcome is Outcome.DROPPED
        async with opened(f"http://127.0.0.1:{port}", connect_timeout_s=0.1) as (client, endpoint):
            failed = await perform(client, ask(endpoint))
    assert failed.outcome is Outcome.CONNECT_ERROR
    assert "within 0.1 s" in failed.told["error"]


async def test_an_address_that_does_not_answer_leaves_time_for_the_next_which_is_the_first_from_then_on() -> None:
    with deaf_port() as deaf, raw_server(always(answer())) as server:
        async with opened(server.base_url, connect_timeout_s=0.6) as (client, endpoint):
            (good,) = client._addresses
            no_family: Any = 255
            client._addresses = [(socket.AF_INET, ("127.0.0.1", deaf)), (no_family, "nowhere"), good]
            record = await perform(client, ask(endpoint))
            assert client._addresses[0] == good
            await client.prepare(2)
    assert record.outcome is Outcome.OK


async def test_addresses_that_do_not_answer_share_the_time_to_connect() -> None:
    with deaf_port() as deaf:
        async with opened(f"http://127.0.0.1:{deaf}", connect_timeout_s=0.2) as (client, endpoint):
            client._addresses *= 2
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.CONNECT_ERROR
    assert "within 0.2 s" in record.told["error"]


async def test_no_connection_is_an_outcome_of_the_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with opened(f"http://127.0.0.1:{port}") as (client, endpoint):
        record = await perform(client, ask(endpoint))
        assert record.outcome is Outcome.CONNECT_ERROR
        assert "refused" in record.told["error"]
        assert record.sent_ns == []
        with pytest.raises(ConnectError):
            await client.prepare(2)


@pytest.mark.parametrize(
    ("drip", "limits", "words"),
    [
        (b"", {"idle_timeout_s": 0.4}, "no byte within target.idle_timeout_s = 0.4"),
        (b": still here\n\n", {"idle_timeout_s": 0.4}, "nothing but comments within target.idle_timeout_s = 0.4"),
        (token(), {"idle_timeout_s": 10, "timeout_s": 0.4}, "not finished within target.timeout_s = 0.4"),
    ],
)
async def test_a_stream_that_says_nothing_is_idle_and_one_that_says_no_end_has_its_time(
    drip: bytes, limits: dict[str, float], words: str
) -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        connection.sendall(HEAD + chunk(token()))
        while drip:
            connection.sendall(chunk(drip))
            time.sleep(0.01)
        server.wait_until_left(connection)

    with raw_server(serve) as server:
        async with opened(server.base_url, **limits) as (client, endpoint):
            record = await perform(client, ask(endpoint))
    assert (record.outcome, record.told["error"]) == (Outcome.TIMEOUT, words)
    assert record.ticks


@pytest.mark.parametrize(
    ("drip", "breaks_silence"),
    [
        (token(), True),
        (b"event: ping\n\n", True),
        (b"data: {", True),
        (b": still here\n\n", False),
        (b": still", False),
        (b"\n", False),
    ],
)
async def test_what_breaks_the_silence_of_a_stream(drip: bytes, breaks_silence: bool) -> None:
    may_drip = threading.Event()

    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        connection.sendall(HEAD + chunk(token()))
        may_drip.wait(10)
        connection.sendall(chunk(drip))
        server.wait_until_left(connection)

    idle_ns = 100_000_000_000
    with raw_server(serve) as server:
        async with opened(server.base_url, idle_timeout_s=100) as (client, endpoint):
            record = Record()
            running = asyncio.create_task(perform(client, ask(endpoint), record))
            await until(lambda: record.ticks)
            (connection,) = client._busy
            before_ns = connection._last_read_ns
            connection.check(before_ns + idle_ns - 1)
            assert not record.ends
            may_drip.set()
            await until(lambda: connection._last_read_ns > before_ns)
            connection.check(before_ns + idle_ns)
            assert bool(record.ends) != breaks_silence
            record.cut(Outcome.ABORTED)
            await running


async def test_unix_sockets_have_user_space_stamps(tmp_path: Path) -> None:
    with raw_server(always(answer()), path=tmp_path / "s") as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.OK
    assert client.stats.clock == "user"
    assert b"host: localhost\r\n" in server.requests[0]


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
async def test_ipv6() -> None:
    with raw_server(always(answer()), family=socket.AF_INET6) as server:
        async with opened(server.base_url) as (client, endpoint):
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.OK
    assert b"host: [::1]:" in server.requests[0]


async def test_interim_responses_trailers_and_odd_heads_are_read() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    trailed = HEAD + chunk(token(finish="stop"), DONE) + b"0\r\nx-checksum: 1\r\n\r\n"
    with raw_server(always(interim + trailed)) as server:
        async with opened(server.base_url) as (client, endpoint):
            for _ in range(2):
                assert (await perform(client, ask(endpoint))).outcome is Outcome.OK
        assert server.connections == 1


@pytest.mark.parametrize(
    ("writes", "words"),
    [
        ([b"SSH-2.0-OpenSSH_9.6\r\n"], "HTTP"),
        ([HEAD + b"zz\r\n"], "HTTP"),
        ([b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\nabc"], "'br'"),
        ([b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"], "gzip"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n"], "transfer-encoding"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nx"], "101"),
        ([b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 60_000], "head"),
        ([HEAD] + [b"1;" + b"x" * 65_000] * 40, "framing"),
        ([HEAD + chunk(token()) + b"0\r\n"] + [b"a: b\r\n" * 10_000] * 40, "framing"),
        ([HEAD + chunk(b"data: {oops\n\n")], "oops"),
    ],
)
async def test_what_is_not_the_protocol_is_quoted(writes: list[bytes], words: str) -> None:
    with raw_server(always(*writes)) as server:
        async with opened(server.base_url, timeout_s=20) as (client, endpoint):
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.PROTOCOL_ERROR
    assert words in record.told["error"]


async def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.wire.sse.MAX_EVENT_BYTES", 100_000)
    with raw_server(always(HEAD, *[chunk(b"data: " + b"x" * 60_000)] * 3)) as server:
        async with opened(server.base_url, timeout_s=20) as (client, endpoint):
            record = await perform(client, ask(endpoint))
    assert record.outcome is Outcome.PROTOCOL_ERROR
    assert "an event of more than" in record.told["error"]


async def test_tls_is_checked_by_default_and_stamped_by_the_kernel(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    with raw_server(always(HEAD, chunk(token()), chunk(token(), DONE) + END), certificate=serving) as server:
        base_url = server.base_url.replace("http:", "https:")
        async with opened(base_url, tls=context(None, False)) as (client, endpoint):
            record = await perform(client, ask(endpoint))
            assert record.outcome is Outcome.CONNECT_ERROR
            assert "certificate" in record.told["error"]
        for made in (context(str(certificate), False), context(None, True)):
            async with opened(base_url, tls=made) as (client, endpoint):
                for _ in range(2):
                    record = await perform(client, ask(endpoint, prompt="long " * 500_000))
                    assert record.outcome is Outcome.OK
                    assert len(record.ticks) == 2
            assert client.stats.clock == "kernel"
            assert client.stats.opened == 1
