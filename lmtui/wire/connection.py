"""One connection: a non-blocking socket that the loop watches, and the arrival of its bytes as the kernel tells it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from time import monotonic_ns

from lmtui.metrics.sessions import UNKNOWN, Outcome
from lmtui.wire.clock import STEP_NS, KernelClock
from lmtui.wire.exchange import Ask, Exchange, Sink
from lmtui.wire.limits import BODY_END_S, READ_BYTES
from lmtui.wire.outcome import Ending
from lmtui.wire.stats import WireStats
from lmtui.wire.tls import TlsLayer

SO_TIMESTAMPNS = 35
"""Linux's option (and control message) that has the kernel tell each read when its last bytes arrived."""

ANCILLARY_BYTES = 64
MOST_DRAINS = 256

_timespec = Struct("qq").unpack


class Connection:
    """Carries one request at a time; between requests it lies in the client's pool.

    Attributes:
        connect_ns: How long opening it took; UNKNOWN once the first request has reported it.
        is_open: Whether it can still carry requests.
    """

    __slots__ = (
        "_ask",
        "_body_end_timer",
        "_clock",
        "_exchange",
        "_idle_ns",
        "_lag",
        "_last_at_ns",
        "_last_read_ns",
        "_last_said_ns",
        "_loop",
        "_on_free",
        "_recvmsg",
        "_reply",
        "_said",
        "_sent_ns",
        "_sock",
        "_stats",
        "_timeout_ns",
        "_tls",
        "_unsent",
        "_was_kept",
        "connect_ns",
        "is_open",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        tls: TlsLayer | None,
        clock: KernelClock,
        stats: WireStats,
        connect_ns: int,
        on_free: Callable[[Connection], None],
        timeout_ns: int | None,
        idle_ns: int,
    ) -> None:
        self._loop, self._sock, self._tls = loop, sock, tls
        self._clock, self._stats = clock, stats
        self._on_free = on_free
        self._timeout_ns, self._idle_ns = timeout_ns, idle_ns
        self.connect_ns = connect_ns
        self.is_open = True
        self._recvmsg = sock.recvmsg
        self._lag = stats.read_lag_ns.append
        self._exchange: Exchange | None = None
        self._reply: asyncio.Future[Exchange | None] | None = None
        self._unsent = memoryview(b"")
        self._body_end_timer: asyncio.TimerHandle | None = None
        self._was_kept = False
        self._sent_ns = self._last_at_ns = self._last_read_ns = self._last_said_ns = 0
        self._said = 0
        loop.add_reader(sock.fileno(), self._readable)

    def start(self, ask: Ask, sink: Sink, was_kept: bool) -> asyncio.Future[Exchange | None]:
        """Write a request, now.

        Args:
            ask: The request.
            sink: Its record.
            was_kept: Whether the connection was open before it was needed, so that the server may have closed it.

        Returns:
            Done once the connection is free or closed, with the exchange that is over and reported. None: the server
            had closed the kept connection before any byte of a response, and the request can be written anew.
        """
        self._reply = reply = self._loop.create_future()
        self._exchange = Exchange(ask, sink, self._stats)
        self._was_kept = was_kept
        sink.on_cut = self._cut
        data = ask.payload if self._tls is None else self._tls.encrypt(ask.payload)
        self._said = 0
        self._sent_ns = self._last_at_ns = self._last_read_ns = self._last_said_ns = sent_ns = monotonic_ns()
        try:
            taken = self._sock.send(data)
        except BlockingIOError:
            taken = 0
        except OSError:
            taken = len(data)  # The read that follows tells how the connection ended.
        sink.sent(sent_ns)
        if taken < len(data):
            self._unsent = memoryview(data)[taken:]
            self._loop.add_writer(self._sock.fileno(), self._writable)
        return reply

    def check(self, now_ns: int) -> None:
        """End the request when one of its time limits has passed."""
        exchange = self._exchange
        if exchange is None or exchange.ending is not None:
            return
        if exchange.said != self._said:
            self._said, self._last_said_ns = exchange.said, self._last_read_ns
        if self._timeout_ns is not None and now_ns - self._sent_ns >= self._timeout_ns:
            exchange.expire(f"not finished within target.timeout_s = {self._timeout_ns / 1e9:g}")
        elif now_ns - self._last_said_ns >= self._idle_ns:
            what = "nothing but comments" if self._last_read_ns > self._last_said_ns else "no byte"
            exchange.expire(f"{what} within target.idle_timeout_s = {self._idle_ns / 1e9:g}")
        else:
            return
        self._settle(now_ns)

    def close(self) -> None:
        """Close it; whoever waits for it goes on."""
        if not self.is_open:
            return
        exchange = self._exchange
        if exchange is not None and exchange.ending is None:
            exchange.lost("the client closed the connection")
            exchange.ended(monotonic_ns(), self.connect_ns)
        self.is_open = False
        self._loop.remove_reader(self._sock.fileno())
        self._stop_writing()
        self._sock.close()
        self._free()

    def _readable(self) -> None:
        try:
            data, ancillary, _, _ = self._recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(f"the connection broke before the end of the answer: {error.strerror or error}")
            return
        read_ns = monotonic_ns()
        if not data:
            self._lost("the server closed the connection before the end of its answer")
            return
        if ancillary:
            seconds, nanoseconds = _timespec(ancillary[0][2])
            at_ns = seconds * 1_000_000_000 + nanoseconds + self._clock.offset_ns
            if not self._last_at_ns <= at_ns <= read_ns:
                at_ns = self._doubtful(at_ns, read_ns)
            self._lag(read_ns - at_ns)
        else:
            at_ns = read_ns
            self._stats.user_stamps += 1
        self._last_at_ns = at_ns
        self._last_read_ns = read_ns
        if self._tls is not None:
            try:
                data = self._decrypt(self._tls, data)
            except OSError as error:
                self._lost(f"the connection's TLS broke before the end of the answer: {error.strerror or error}")
                return
        exchange = self._exchange
        if exchange is None:
            if data:
                self.close()  # Bytes that no request asked for: whatever follows could not be told apart.
        elif data:
            try:
                exchange.feed(data, at_ns, read_ns)
                if exchange.ending is not None:
                    self._settle(read_ns)
            except Exception as bug:
                self._fail(bug)
                return
        if self._tls is not None and self._tls.is_closed and self.is_open:
            self._lost("the server closed the connection before the end of its answer")

    def _fail(self, bug: Exception) -> None:
        """Have a bug raised where the request is awaited, instead of a request that never ends."""
        self._exchange = None
        reply, self._reply = self._reply, None
        self.close()
        if reply is None:
            raise bug
        reply.set_exception(bug)

    def _decrypt(self, tls: TlsLayer, received: bytes) -> bytes:
        data = tls.decrypt(received)
        if answer := tls.outgoing():
            self._sock.send(answer)  # A few bytes (a key update); a full buffer raises, which breaks the connection.
        return data

    def _doubtful(self, at_ns: int, read_ns: int) -> int:
        """Return a stamp between the last one and the read, after the clock was looked at when it is far off."""
        if at_ns > read_ns + STEP_NS or at_ns < self._last_at_ns - STEP_NS:
            before_ns = self._clock.offset_ns
            self._clock.refresh()
            at_ns += self._clock.offset_ns - before_ns
        return min(max(at_ns, self._last_at_ns), read_ns)

    def _writable(self) -> None:
        try:
            taken = self._sock.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            taken = len(self._unsent)
        self._unsent = self._unsent[taken:]
        self._last_said_ns = monotonic_ns()
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

    def _stop_writing(self) -> None:
        if self._unsent:
            self._unsent = memoryview(b"")
            self._loop.remove_writer(self._sock.fileno())

    def _lost(self, detail: str) -> None:
        """Take the end of the connection."""
        exchange = self._exchange
        if exchange is None or exchange.ending is not None:
            self.close()
            return
        if self._was_kept and not exchange.started:
            exchange.http.release()
            self._exchange = None
            reply, self._reply = self._reply, None
            self.close()
            if reply is not None:
                reply.set_result(None)
            return
        exchange.lost(detail)
        self._settle(monotonic_ns())

    def _cut(self) -> None:
        exchange = self._exchange
        if exchange is not None and exchange.ending is None and exchange.cut():
            self._settle(monotonic_ns())

    def _settle(self, now_ns: int) -> None:
        """Report a request that has ended, then keep the connection, wait for the body's end, or close."""
        exchange = self._exchange
        if exchange is None or self._body_end_timer is not None:
            self._after_end()
            return
        ending = exchange.ending
        if ending is Ending.CUT:
            self._drain(exchange)
        connect_ns, self.connect_ns = self.connect_ns, UNKNOWN
        exchange.ended(exchange.end_ns if ending in (Ending.DONE, Ending.BODY) else now_ns, connect_ns)
        if ending is Ending.DONE and not exchange.http.is_whole and not self._unsent and self.is_open:
            self._body_end_timer = self._loop.call_later(BODY_END_S, self.close)
        else:
            self._after_end()

    def _after_end(self) -> None:
        """Go on after the end was reported: free as soon as the body is whole."""
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.http.keeps_connection and not self._unsent and self.is_open:
            self._free()
        elif exchange.http.is_whole or self._body_end_timer is None:
            self.close()

    def _drain(self, exchange: Exchange) -> None:
        """Count what had arrived already when the request was cut."""
        for _ in range(MOST_DRAINS):
            try:
                data = self._sock.recv(READ_BYTES)
                if data and self._tls is not None:
                    data = self._tls.decrypt(data)
            except OSError:
                return
            if not data:
                return
            exchange.feed(data, self._last_at_ns, self._last_at_ns)

    def _free(self) -> None:
        """Let go of the request; the connection goes back to the pool when it is open."""
        if self._body_end_timer is not None:
            self._body_end_timer.cancel()
            self._body_end_timer = None
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.http.release()
        self._on_free(self)
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_result(exchange)


def cut_before_sent(sink: Sink, at_ns: int) -> None:
    """Report a request that was cut before it was sent."""
    cut_as = sink.cut_as
    if cut_as is Outcome.CANCELLED:
        sink.end(Outcome.CANCELLED, at_ns)
    else:
        sink.end(Outcome.DROPPED, at_ns, error="the run ended before it was sent")
