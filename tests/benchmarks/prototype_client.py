"""A prototype of the timed stream, to measure against; not product code.

    python prototype_client.py {kernel|user} STREAMS REQUESTS TOKENS PORT

Against `sse_server PORT TTFT_MS ITL_MS` it prints what it measured; stop the server with SIGTERM: it prints the truth.
`kernel` takes each read's arrival from the kernel (SO_TIMESTAMPNS), `user` stamps when the read returns. Needs uvloop,
httptools, msgspec, numpy. It handles only well-formed chunked responses of that server.
"""

import asyncio
import resource
import socket
import struct
import sys
import time

import httptools
import msgspec
import numpy as np
import uvloop

SO_TIMESTAMPNS = 35
kind, streams, requests, tokens, port = sys.argv[1], *map(int, sys.argv[2:6])


class Choice(msgspec.Struct):
    text: str = ""


class Chunk(msgspec.Struct):
    choices: list[Choice]


decode = msgspec.json.Decoder(Chunk).decode
body = msgspec.json.encode(
    {
        "model": "m",
        "prompt": "hello world " * 20,
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
)
REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(body)
) + body
ttft: list[float] = []
gaps: list[np.ndarray] = []


class Stream:
    """One socket; one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self.loop, self.sock = loop, sock

    def send(self) -> asyncio.Future[list[int]]:
        self.parser = httptools.HttpResponseParser(self)
        self.rest, self.done = b"", self.loop.create_future()
        self.stamps = [time.time_ns()]
        self.sock.send(REQUEST)
        return self.done

    def readable(self) -> None:
        try:
            data, ancillary, _, _ = self.sock.recvmsg(65536, 64)
        except BlockingIOError:
            return
        self.now = time.time_ns()
        if kind == "kernel" and ancillary:
            seconds, nanos = struct.unpack("qq", ancillary[0][2])
            self.now = seconds * 1_000_000_000 + nanos
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        *events, self.rest = (self.rest + data).split(b"\n\n")
        for event in events:
            if event != b"data: [DONE]" and decode(event[6:]).choices:
                self.stamps.append(self.now)

    def on_message_complete(self) -> None:
        self.done.set_result(self.stamps)


async def worker(loop: asyncio.AbstractEventLoop, todo: list[int]) -> None:
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    stream = Stream(loop, sock)
    loop.add_reader(sock.fileno(), stream.readable)
    while todo:
        todo.pop()
        stamps = np.array(await stream.send(), dtype=np.int64)
        ttft.append((stamps[1] - stamps[0]) / 1e6)
        gaps.append(np.diff(stamps[1:]) / 1e6)
    loop.remove_reader(sock.fileno())
    sock.close()


async def main() -> None:
    start, loop, todo = time.perf_counter(), asyncio.get_running_loop(), list(range(requests))
    await asyncio.gather(*(worker(loop, todo) for _ in range(streams)))
    wall, use = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    itl = np.concatenate(gaps) if tokens > 1 else np.zeros(1)
    count = requests * tokens
    print(
        f"{kind}: {count / wall:,.0f} ticks/s, {1e6 * (use.ru_utime + use.ru_stime) / count:.1f} us CPU per tick | "
        f"TTFT ms mean {np.mean(ttft):.2f} P99 {np.percentile(ttft, 99):.2f} | "
        f"ITL ms mean {itl.mean():.3f} P50 {np.median(itl):.3f} P99 {np.percentile(itl, 99):.3f} max {itl.max():.1f}"
    )


hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
uvloop.run(main())
