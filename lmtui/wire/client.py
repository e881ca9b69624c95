"""The client: connections kept open to one server, their time limits, and the clock that they share."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns
from typing import Any

from lmtui.metrics.sessions import UNKNOWN, Outcome
from lmtui.wire.clock import KernelClock
from lmtui.wire.connection import SO_TIMESTAMPNS, Connection, cut_before_sent
from lmtui.wire.exchange import Ask, Exchange, Sink
from lmtui.wire.limits import READ_BYTES, SWEEP_S
from lmtui.wire.request import Endpoint
from lmtui.wire.stats import WireStats
from lmtui.wire.tls import TlsLayer

OPENED_AT_ONCE = 64
"""Connections opened at the same time by `prepare`: more could overflow a server's accept queue."""
CHECK_SHARE = 0.01
"""How often time limits are looked at, in parts of the shorter one: a look at 5,000 streams takes 2 ms."""
STAMP_TRIES, STAMP_WAIT_S = 20, 0.005
"""How often, and how long apart, bytes are sent on loopback until the kernel stamps them."""

_Address = tuple[socket.AddressFamily, Any]


class ConnectError(Exception):
    """No connection; the text says to where and why.

    Attributes:
        certificate: The server's was refused.
        is_full: This process may not open another file.
    """

    def __init__(self, message: str, certificate: bool = False, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.certificate = certificate
        self.is_full = is_full


class Client:
    """Sends requests to one server and records what comes back. Belongs to the loop that it was opened in.

    Attributes:
        stats: What it noticed about itself.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float | None = None,
        idle_timeout_s: float = 120.0,
        connect_timeout_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Make a client.

        Args:
            endpoint: The server.
            timeout_s: Longest time from sent to the end of a request; None: no limit.
            idle_timeout_s: Longest silence; comments that only keep the connection alive do not break it.
            connect_timeout_s: Longest time to open a connection, its TLS included; addresses have equal parts of it.
            tls: How the server's certificate is checked; needed where the endpoint is encrypted.
        """
        self.stats = WireStats()
        self._endpoint, self._tls = endpoint, tls
        self._timeout_ns = None if timeout_s is None else int(timeout_s * 1e9)
        self._idle_ns = int(idle_timeout_s * 1e9)
        self._check_every_ns = max(SWEEP_S, min(idle_timeout_s, timeout_s or idle_timeout_s) * CHECK_SHARE) * 1e9
        self._checked_ns = 0
        self._connect_timeout_s = connect_timeout_s
        self._clock = KernelClock()
        self._addresses: list[_Address] = []
        self._idle: dict[Connection, None] = {}
        """In the order in which they became idle; the last is used first."""
        self._busy: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stamping: socket.socket | None = None
        self._counter = ThreadPoolExecutor(1, "token counter")  # its thread starts with the first text

    async def open(self) -> None:
        """Look up the server's addresses, so that no name is looked up while requests are timed.

        Raises:
            ConnectError: The name is unknown.
        """
        self._loop = asyncio.get_running_loop()
        self._stamping = await _stamped_socket()
        endpoint = self._endpoint
        if endpoint.unix_path is not None:
            self._addresses = [(socket.AF_UNIX, endpoint.unix_path)]
            return
        try:
            found = await self._loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectError(
                f"the host {endpoint.host!r} of {endpoint.base_url} is not known: {error.strerror}"
            ) from error
        self._addresses = [(family, address) for family, _, _, _, address in found]

    async def prepare(self, connections: int) -> None:
        """Open connections until this many are ready, before they are needed.

        Raises:
            ConnectError: One cannot be opened; those that were opened stay.
        """
        missing = connections - len(self._idle)
        for first in range(0, missing, OPENED_AT_ONCE):
            batch = min(missing - first, OPENED_AT_ONCE)
            made = await asyncio.gather(*(self._connect() for _ in range(batch)), return_exceptions=True)
            for connection in made:
                if isinstance(connection, Connection):
                    self._freed(connection)
            for failure in made:
                if isinstance(failure, BaseException):
                    raise failure

    async def perform(self, ask: Ask, sink: Sink) -> Exchange | None:
        """Send one request and record it until its connection is free for another.

        Its end is always reported: before this returns, or by `count` where the answer's text is still uncounted.

        Returns:
            What was exchanged; None when the request was never sent.
        """
        replaced = False
        while True:
            connection = self._idle.popitem()[0] if self._idle and not replaced else None
            was_kept = connection is not None
            if connection is None:
                connection = await self._connect_for(sink)
                if connection is None:
                    return None
            if sink.cut_as is not None:
                self._freed(connection)
                cut_before_sent(sink, monotonic_ns())
                return None
            self._watch(connection)
            if exchange := await connection.start(ask, sink, was_kept):
                return exchange
            replaced = True
            self.stats.replaced += 1

    async def count(self, exchange: Exchange) -> None:
        """Count the tokens of an answer's text in a thread, one answer at a time, and report its end."""
        tokens = UNKNOWN
        try:
            tokens = await self._loop.run_in_executor(self._counter, exchange.count)
        finally:
            exchange.report(tokens)

    async def close(self) -> None:
        """Close every connection."""
        for connection in [*self._busy, *self._idle]:
            connection.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stamping is not None:
            self._stamping.close()
            self._stamping = None
        self._counter.shutdown(wait=False)

    async def _connect_for(self, sink: Sink) -> Connection | None:
        """Return a new connection; None when there is none, or the request was cut meanwhile, which is reported."""
        task = self._loop.create_task(self._connect())

        def cancel() -> None:
            task.cancel()

        sink.on_cut = cancel
        try:
            connection = await task
            if connection.is_open:
                return connection
            words = f"{self._endpoint.base_url} closed the connection as soon as it was open"
            sink.end(Outcome.CONNECT_ERROR, monotonic_ns(), error=words)
        except ConnectError as error:
            sink.end(Outcome.CONNECT_ERROR, monotonic_ns(), error=str(error))
        except asyncio.CancelledError:
            if sink.cut_as is None:
                raise
            cut_before_sent(sink, monotonic_ns())
        finally:
            sink.on_cut = None
        return None

    async def _connect(self) -> Connection:
        start_ns = monotonic_ns()
        url = self._endpoint.base_url
        try:
            sock, tls = await self._open_socket()
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise ConnectError(f"no connection to {url} within {self._connect_timeout_s:g} s") from error
        except ssl.SSLCertVerificationError as error:
            raise ConnectError(f"the certificate of {url} is refused: {error.verify_message}", True) from error
        except ssl.SSLError as error:
            raise ConnectError(f"no TLS with {url}: {error.reason or error}") from error
        except OSError as error:
            raise ConnectError(f"no connection to {url}: {_words(error)}", is_full=_is_full(error)) from error
        self.stats.opened += 1
        connect_ns = monotonic_ns() - start_ns
        return Connection(
            self._loop, sock, tls, self._clock, self.stats, connect_ns, self._freed, self._timeout_ns, self._idle_ns
        )

    async def _open_socket(self) -> tuple[socket.socket, TlsLayer | None]:
        """Return a connected socket, by the first address that answers, and its TLS once the handshake is over.

        Each address has an equal part of the time that is left, so that one that swallows packets (IPv6 without a route
        is common) leaves time for the others.
        """
        failure: Exception = OSError(f"{self._endpoint.host} has no address")
        give_up_at = self._loop.time() + self._connect_timeout_s
        for tried, address in enumerate(list(self._addresses)):
            part_s = (give_up_at - self._loop.time()) / (len(self._addresses) - tried)
            try:
                sock = socket.socket(address[0], socket.SOCK_STREAM)
            except OSError as error:  # the system has no IPv6, or no file is left
                failure = error
                continue
            try:
                tls = await asyncio.wait_for(self._establish(sock, address), part_s)
            except BaseException as error:
                sock.close()
                if isinstance(error, ssl.SSLError) or not isinstance(error, (OSError, asyncio.TimeoutError)):
                    raise
                failure = error
                continue
            if address != self._addresses[0]:
                self._addresses.remove(address)
                self._addresses.insert(0, address)
            return sock, tls
        raise failure

    async def _establish(self, sock: socket.socket, address: _Address) -> TlsLayer | None:
        """Connect a socket, and return its TLS once the handshake is over."""
        family, where = address
        sock.setblocking(False)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        await self._loop.sock_connect(sock, where)
        if not self._endpoint.is_tls or self._tls is None:
            return None
        layer = TlsLayer(self._tls, self._endpoint.host)
        received = b""
        while True:
            is_over = layer.handshake(received)
            if outgoing := layer.outgoing():
                await self._loop.sock_sendall(sock, outgoing)
            if is_over:
                return layer
            received = await self._loop.sock_recv(sock, READ_BYTES)
            if not received:
                raise ConnectionResetError(0, "the server closed the connection during the TLS handshake")

    def _watch(self, connection: Connection) -> None:
        """Count a connection among those whose time limits are looked at."""
        self._busy.add(connection)
        if self._timer is None:
            self._refresh_clock()
            self._timer = self._loop.call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = self._loop.call_later(SWEEP_S, self._sweep) if self._busy else None
        self._refresh_clock()
        now_ns = monotonic_ns()
        if now_ns - self._checked_ns >= self._check_every_ns:
            self._checked_ns = now_ns
            for connection in tuple(self._busy):
                connection.check(now_ns)

    def _refresh_clock(self) -> None:
        before = self._clock.steps
        self._clock.refresh()
        self.stats.clock_steps += self._clock.steps - before

    def _freed(self, connection: Connection) -> None:
        """Take back a connection that is idle, or forget one that is closed."""
        self._busy.discard(connection)
        if connection.is_open:
            self._idle[connection] = None
        else:
            self._idle.pop(connection, None)


async def _stamped_socket() -> socket.socket:
    """Return a connected socket whose option keeps the kernel stamping packets, once it does.

    The kernel begins to stamp a little after the first socket of the machine asks for it, so that the first bytes of a
    run would have no stamp. Here bytes go round on loopback until one has. Where the kernel gives none at all, the
    reads of the run count themselves as stamped by the user.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        receiver = socket.create_connection(listener.getsockname())
        sender, _ = listener.accept()
    with sender, contextlib.suppress(OSError):
        receiver.settimeout(STAMP_TRIES * STAMP_WAIT_S)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for _ in range(STAMP_TRIES):
            sender.send(b"?")
            if receiver.recvmsg(1, 64)[1]:
                break
            await asyncio.sleep(STAMP_WAIT_S)
    return receiver


def _is_full(error: OSError) -> bool:
    return error.errno == errno.EMFILE


def _words(error: OSError) -> str:
    if _is_full(error):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"each connection is an open file, and this process may have no more than {limit} (`ulimit -Hn`)"
    return os.strerror(error.errno) if error.errno else str(error.strerror or error)
