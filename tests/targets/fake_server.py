"""A small OpenAI-shaped server whose manners a test chooses."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass
class Reply:
    """An answer: `pieces` are written as one HTTP chunk each; a dict is written as JSON with its length."""

    status: int = 200
    body: Json | None = None
    pieces: Sequence[str] = ()
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """One request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Json


def completion(tokens: int, *, usage: bool = True, finish: str = "length") -> list[str]:
    """Return the events of a completions stream."""
    events: list[Json] = [{"choices": [{"index": 0, "text": f" t{i}"}]} for i in range(tokens)]
    events.append({"choices": [{"index": 0, "text": "", "finish_reason": finish}]})
    if usage:
        events.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}})
    return [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]


def chat(tokens: int) -> list[str]:
    """Return the events of a chat stream."""
    events: list[Json] = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}]
    events += [{"choices": [{"index": 0, "delta": {"content": f" t{i}"}}]} for i in range(tokens)]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}})
    return [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]


def answer(seen: Seen) -> Reply:
    """Answer as a server that takes everything and makes exactly what is asked for."""
    if seen.method == "GET":
        if seen.path.endswith("/v1/models"):
            return Reply(body={"object": "list", "data": [{"id": "fake-model", "max_model_len": 4096}]})
        return Reply(404, {"detail": "Not Found"})
    wanted = seen.body.get("max_completion_tokens") or seen.body.get("max_tokens") or 1
    return Reply(pieces=chat(wanted) if seen.path.endswith("/chat/completions") else completion(wanted))


class FakeServer(ThreadingHTTPServer):
    """Answers by `answer`, and keeps what it saw."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, reply: Callable[[Seen], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.seen: list[Seen] = []

    @property
    def posts(self) -> list[Json]:
        """The bodies of all POSTs."""
        return [seen.body for seen in self.seen if seen.method == "POST"]


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        fields = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, fields, json.loads(raw) if raw else {})
        self.server.seen.append(seen)
        reply = self.server.reply(seen)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.body is not None:
            data = json.dumps(reply.body).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            data = piece.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Keep the terminal quiet."""


@contextmanager
def fake_server(
    reply: Callable[[Seen], Reply] = answer, certificate: tuple[Path, Path] | None = None
) -> Iterator[tuple[FakeServer, str]]:
    """Serve from a thread; gives the server and its URL. `certificate`: its file and its key's, for TLS."""
    server = FakeServer(reply)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server, f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
