"""Kernel stamps on the monotonic clock."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from lmtui.metrics.sessions import UNKNOWN
from lmtui.wire import Endpoint, WireStats
from lmtui.wire.clock import KernelClock
from lmtui.wire.connection import Connection
from lmtui.wire.exchange import Exchange
from tests.wire.raw_server import HEAD, answer, chunk, token
from tests.wire.record import Record, ask


class Clocks:
    """Two clocks whose reading costs time: mostly 1 us, sometimes, on a busy core, much more."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.wall_ahead_ns = 5_000_000_000
        self.costs_ns: list[int] = []

    def _cost(self) -> None:
        self.now_ns += self.costs_ns.pop(0) if self.costs_ns else 1_000

    def monotonic(self) -> int:
        self._cost()
        return self.now_ns

    def wall(self) -> int:
        self._cost()
        return self.now_ns + self.wall_ahead_ns


def test_the_tightest_bracket_gives_the_offset() -> None:
    clocks = Clocks()
    clocks.costs_ns = [4_000_000, 3_000_000, 1, 2_000_000, 1, 700_000]
    clock = KernelClock(clocks.monotonic, clocks.wall)
    assert abs(clock.offset_ns + clocks.wall_ahead_ns) <= 1_000


def test_a_step_of_the_wall_clock_is_followed_and_counted() -> None:
    clocks = Clocks()
    clock = KernelClock(clocks.monotonic, clocks.wall)
    clock.refresh()
    assert clock.steps == 0
    clocks.wall_ahead_ns += 300_000
    clock.refresh()
    assert clock.steps == 0
    assert abs(clock.offset_ns + clocks.wall_ahead_ns) <= 1_000
    clocks.wall_ahead_ns -= 2_000_000_000
    clock.refresh()
    assert clock.steps == 1
    assert abs(clock.offset_ns + clocks.wall_ahead_ns) <= 1_000


def test_wide_brackets_are_no_step() -> None:
    clocks = Clocks()
    clock = KernelClock(clocks.monotonic, clocks.wall)
    before_ns = clock.offset_ns
    clocks.costs_ns = [1_000, 9_000_000, 1_000] * 7
    clock.refresh()
    assert (clock.steps, clock.offset_ns) == (0, before_ns)


def test_events_of_one_late_read_share_a_stamp_through_the_clients_fault() -> None:
    for lag_ns, coalesced in ((500_000, 0), (2_000_000, 3)):
        stats = WireStats()
        exchange = Exchange(ask(Endpoint.parse("http://x")), record := Record(), stats)
        record.sent(0)
        exchange.feed(HEAD + chunk(token()), 10, 10)
        exchange.feed(chunk(token(), token(), token()), 20, 20 + lag_ns)
        exchange.feed(chunk(token(finish="stop")) + b"0\r\n\r\n", 30_000_000, 30_000_000 + lag_ns)
        assert stats.coalesced == coalesced
        assert stats.events == 5
        assert [at for at, _ in record.ticks] == [10, 20, 20, 20, 30_000_000]


@pytest.fixture
def pair() -> Any:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


class StampedSocket:
    """A socket whose reads carry the stamps that a test gives."""

    def __init__(self, sock: socket.socket, stamp_ns: Callable[[], int]) -> None:
        self._sock, self._stamp_ns = sock, stamp_ns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def recvmsg(self, size: int, ancillary: int) -> Any:
        data = self._sock.recv(size)
        stamp = self._stamp_ns()
        packed = (stamp // 10**9).to_bytes(8, "little") + (stamp % 10**9).to_bytes(8, "little")
        return data, [(socket.SOL_SOCKET, 35, packed)], 0, None


@pytest.mark.parametrize("off_ns", [10**10, -(10**10), 0])
async def test_a_stamp_is_never_before_the_request_or_after_the_read(pair: Any, off_ns: int) -> None:
    ours, theirs = pair
    loop = asyncio.get_running_loop()
    clock, stats = KernelClock(), WireStats()
    stamped: Any = StampedSocket(ours, lambda: time.time_ns() + off_ns)
    connection = Connection(loop, stamped, None, clock, stats, UNKNOWN, lambda _: None, None, 10**12)
    record = Record()
    reply = connection.start(ask(Endpoint.parse("http://x")), record, False)
    theirs.sendall(answer(2))
    await reply
    connection.close()
    end_ns = record.ends[0][1]
    assert record.sent_ns[0] <= record.ticks[0][0] <= end_ns
    assert all(lag >= 0 for lag in stats.drain_read_lags())
    assert stats.read_lag_ns == []


async def test_nothing_is_left_for_a_collector_that_is_off(pair: Any) -> None:
    ours, theirs = pair
    connection = Connection(
        asyncio.get_running_loop(), ours, None, KernelClock(), WireStats(), UNKNOWN, lambda _: None, None, 10**12
    )
    request = ask(Endpoint.parse("http://x"))

    async def exchange() -> None:
        reply = connection.start(request, Record(), False)
        theirs.recv(10_000)
        theirs.sendall(answer(3))
        await reply

    await exchange()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            await exchange()
        assert gc.collect() <= 5
    finally:
        gc.enable()
        connection.close()
