"""A server that writes what a test says, byte for byte: sockets, TLS, paths."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


def token(text: str = "x", finish: str | None = None) -> bytes:
    """Return one completions event."""
    reason = "null" if finish is None else f'"{finish}"'
    return f'data: {{"choices":[{{"index":0,"text":"{text}","finish_reason":{reason}}}]}}\n\n'.encode()


def chunk(*events: bytes) -> bytes:
    """Return each event as one HTTP chunk."""
    return b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)


def answer(tokens: int = 3) -> bytes:
    """Return a whole response."""
    events = [token() for _ in range(tokens - 1)]
    return HEAD + chunk(*events, token(finish="length"), DONE) + END


def read_request(connection: socket.socket, received: bytes = b"") -> bytes:
    """Return one whole request, b"" when the client has left."""
    while True:
        head, split, body = received.partition(b"\r\n\r\n")
        if split:
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(body) >= length:
                return received
        more = connection.recv(1 << 16)
        if not more:
            return b""
        received += more


@dataclass
class RawServer:
    """What a server has seen: connections so far, whole requests in order, and that the client has left."""

    address: str | tuple[str, int]
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        """Where it listens."""
        if isinstance(self.address, str):
            return f"unix://{self.address}"
        host, port = self.address[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def wait_until_left(self, connection: socket.socket) -> None:
        """Note that the client has closed its side, once it has."""
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass
        self.left.set()


@contextmanager
def raw_server(
    serve: Callable[[socket.socket, int, RawServer], None],
    *,
    family: socket.AddressFamily = socket.AF_INET,
    path: Path | None = None,
    certificate: ssl.SSLContext | None = None,
) -> Iterator[RawServer]:
    """Run `serve(connection, its number from 0, server)` in a thread for each connection."""
    if path is not None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
    else:
        listener = socket.create_server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), family=family)
    server = RawServer(listener.getsockname())

    def one(connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            if certificate is not None:
                connection = certificate.wrap_socket(connection, server_side=True)
            serve(connection, number, server)
        connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if path is None:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number, server.connections = server.connections, server.connections + 1
            server.sockets.append(connection)
            threading.Thread(target=one, args=(connection, number), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in server.sockets:
            with contextlib.suppress(OSError):
                connection.close()


def always(*writes: bytes) -> Callable[[socket.socket, int, RawServer], None]:
    """Answer each request on a connection with these writes."""

    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        while request := read_request(connection):
            server.requests.append(request)
            for data in writes:
                connection.sendall(data)

    return serve
