"""A streaming server of known truth, in a process of its own: what `lmtui selftest` measures against.

    python -m lmtui.targets.truth TTFT_MS ITL_MS

It prints its port first. Every POST gets `max_tokens` chunks in the shape of OpenAI's completions: the first
TTFT_MS after the request arrived whole (by the kernel's stamp), the rest ITL_MS apart, on an absolute schedule. It
notes when it handed each chunk to the kernel, which is the truth that a client should measure: `GET /truth` tells it as
JSON (`Truth`) and begins anew. It ends when its standard input closes. Not an HTTP server for anything else: it reads
well-formed requests only.
"""

from __future__ import annotations

import gc
import heapq
import os
import resource
import select
import socket
import struct
import sys
import time
from array import array
from dataclasses import dataclass, field

import msgspec
import numpy as np

from lmtui.metrics.distribution import distribution
from lmtui.metrics.result import Distribution

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
READ_BYTES = 1 << 18
SO_TIMESTAMPNS = 35


class Truth(msgspec.Struct, frozen=True):
    """What a client should have measured since the last question, in ms; `requests` and `chunks` are counts."""

    ttft_ms: Distribution
    itl_ms: Distribution
    requests: int
    chunks: int


class Body(msgspec.Struct):
    """The part of a request's body that matters here."""

    max_tokens: int = 16


def chunk(data: bytes) -> bytes:
    """Return data as one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def arrived(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Return when bytes arrived, on the monotonic clock: the kernel's stamp, else now."""
    now = time.monotonic()
    if not ancillary:
        return now
    seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
    waited_s: float = time.time() - (seconds + nanoseconds / 1e9)
    return now - max(waited_s, 0.0)


TOKEN = chunk(
    b'data: {"id":"truth","object":"text_completion","choices":[{"index":0,"text":" word","finish_reason":null}]}\n\n'
)


def ending(tokens: int) -> bytes:
    """Return everything after the last token: finish reason, usage, end marker."""
    finish = b'data: {"id":"truth","choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\n'
    usage = b'data: {"id":"truth","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\n' % tokens
    return chunk(finish) + chunk(usage) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


@dataclass(slots=True, eq=False)
class Connection:
    """One client connection and the answer that is under way on it."""

    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytes = b""
    left: int = 0
    asked: int = 0
    last_at: float = 0.0
    answers: int = 0


class TruthServer:
    """One thread, one epoll, one heap of due chunks."""

    def __init__(self, ttft_ms: float, itl_ms: float) -> None:
        self._ttft_s, self._itl_s = ttft_ms / 1e3, itl_ms / 1e3
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=16384)
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # what it accepts inherits this
        self.port: int = self._listener.getsockname()[1]
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[float, int, int, Connection]] = []
        self._order = 0
        self._forget()

    def _forget(self) -> None:
        self._ttft, self._itl, self._requests = array("d"), array("d"), 0

    def serve(self) -> None:
        """Serve until standard input closes."""
        watched = (self._listener.fileno(), sys.stdin.fileno())
        for descriptor in watched:
            self._epoll.register(descriptor, select.EPOLLIN)
        while True:
            wait_s = max(self._due[0][0] - time.monotonic(), 0.0) if self._due else -1
            for descriptor, events in self._epoll.poll(wait_s):
                if descriptor == watched[0]:
                    self._accept()
                elif descriptor == watched[1]:
                    if not os.read(descriptor, 4096):
                        return
                elif connection := self._connections.get(descriptor):
                    if events & select.EPOLLOUT:
                        self._send(connection, b"")
                    if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                        self._read(connection)
            self._send_due()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[sock.fileno()] = Connection(sock)
            self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, connection: Connection) -> None:
        ancillary: list[tuple[int, int, bytes]] = []
        try:
            data, ancillary, _, _ = connection.sock.recvmsg(READ_BYTES, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._drop(connection)
            return
        connection.received += data
        end = connection.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(connection.received[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(connection.received) < end + 4 + length:
            return
        body = bytes(connection.received[end + 4 : end + 4 + length])
        del connection.received[: end + 4 + length]
        if head.startswith(b"post"):
            self._begin(connection, msgspec.json.decode(body, type=Body).max_tokens, arrived(ancillary))
        elif head.startswith(b"get /truth"):
            self._answer(connection, msgspec.json.encode(self.truth()))
            self._forget()
        else:
            self._answer(connection, b'{"object":"list","data":[{"id":"truth","object":"model"}]}')

    def _begin(self, connection: Connection, tokens: int, arrived_at: float) -> None:
        connection.left = connection.asked = max(tokens, 1)
        connection.last_at = arrived_at
        connection.answers += 1
        self._send(connection, HEAD)
        self._push(arrived_at + self._ttft_s, connection)

    def _push(self, due: float, connection: Connection) -> None:
        self._order += 1
        heapq.heappush(self._due, (due, self._order, connection.answers, connection))

    def _send_due(self) -> None:
        due_list, now = self._due, time.monotonic()
        while due_list and due_list[0][0] <= now:
            due, _, answer, connection = heapq.heappop(due_list)
            if connection.sock.fileno() < 0 or answer != connection.answers:
                continue
            first = connection.left == connection.asked
            connection.left -= 1
            last = connection.left == 0
            sent_at = self._send(connection, TOKEN + ending(connection.asked) if last else TOKEN)
            (self._ttft if first else self._itl).append(sent_at - connection.last_at)
            connection.last_at = sent_at
            self._requests += last
            if not last:
                self._push(due + self._itl_s, connection)

    def _send(self, connection: Connection, data: bytes) -> float:
        """Hand data to the kernel, keep what it does not take; return when it was handed over."""
        data = connection.unsent + data
        at = time.monotonic()
        try:
            taken = connection.sock.send(data)
        except BlockingIOError:
            taken = 0
        except ConnectionError:
            self._drop(connection)
            return at
        waits = bool(connection.unsent)
        connection.unsent = data[taken:]
        if bool(connection.unsent) != waits:
            self._epoll.modify(connection.sock.fileno(), select.EPOLLIN | (0 if waits else select.EPOLLOUT))
        return at

    def _answer(self, connection: Connection, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._send(connection, head + body)

    def _drop(self, connection: Connection) -> None:
        descriptor = connection.sock.fileno()
        if descriptor >= 0:
            self._epoll.unregister(descriptor)
            del self._connections[descriptor]
            connection.sock.close()

    def truth(self) -> Truth:
        """Return what was handed over since the last question."""
        return Truth(
            ttft_ms=distribution(np.array(self._ttft) * 1e3),
            itl_ms=distribution(np.array(self._itl) * 1e3),
            requests=self._requests,
            chunks=len(self._ttft) + len(self._itl),
        )


def main() -> None:
    """Serve with the TTFT and ITL of the command line."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = TruthServer(float(sys.argv[1]), float(sys.argv[2]))
    print(server.port, flush=True)
    gc.freeze()
    gc.disable()
    server.serve()


if __name__ == "__main__":
    main()
