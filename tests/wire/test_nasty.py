"""What servers and proxies really do to a stream, over a socket: each answer has its right outcome and its tokens."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from lmtui.metrics.sessions import Outcome
from lmtui.wire import Client, Endpoint
from tests.wire.raw_server import DONE, END, HEAD, RawServer, always, answer, chunk, raw_server, read_request, token
from tests.wire.record import KeptAnswer, ask, perform

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CLOSE = STREAM + b"connection: close\r\n\r\n"
BODY = token("a") + token("b", "length") + DONE


def event(value: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()


def usage(tokens: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}})


def framed(head: bytes, body: bytes) -> bytes:
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def once(*writes: bytes, then: Callable[[socket.socket], None] = lambda connection: None) -> Any:
    """Answer one request with these writes, do `then`, and close."""

    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        for data in writes:
            connection.sendall(data)
        then(connection)

    return serve


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stops_sending(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1 << 16):
        pass


async def answered(serve: Any, times: int = 1, api: str = "completions") -> tuple[Outcome, str, str, int, int]:
    """Return outcome, text, error, counted tokens of the last of `times` requests, and connections that it took."""
    with raw_server(serve) as server:
        endpoint = Endpoint.parse(server.base_url)
        client = Client(endpoint, idle_timeout_s=10)
        await client.open()
        try:
            for _ in range(times):
                kept = KeptAnswer(api)
                record = await perform(client, ask(endpoint, api, answer=kept))
        finally:
            await client.close()
    return record.outcome, kept.text, record.told["error"], record.told["output_tokens"], server.connections


@pytest.mark.parametrize(
    ("writes", "connections"),
    [
        ([HEAD + chunk(token("a"), usage(2), token("b", "length"), DONE) + END], 1),
        ([HEAD + chunk(BODY + token("c") + b"data: {no json\n\n" + b": bye\n\n") + END], 1),
        ([HEAD + chunk(BODY, token("c"), b"data: {no json\n\n") + END], 1),
        ([HEAD.replace(b"200 OK", b"200") + chunk(BODY) + END], 1),
        ([HEAD.replace(b"\r\n", b"\n") + chunk(BODY) + END], 1),
        ([HEAD.replace(b"content-type: text/event-stream\r\n", b"") + chunk(BODY) + END], 1),
        ([HEAD.replace(b"text/event-stream", b"application/json") + chunk(BODY) + END], 1),
        ([HEAD.replace(b"\r\n\r\n", b"\r\nx-name: caf\xe9 \xff\r\nx-empty:\r\n\r\n") + chunk(BODY) + END], 1),
        ([HEAD + b'%X;ext="a b"\r\n%b\r\n' % (len(BODY), BODY) + b"000\r\n\r\n"], 1),
        ([framed(STREAM, BODY)], 1),
        ([framed(STREAM, b"\xef\xbb\xbf" + BODY)], 1),
        ([framed(STREAM, BODY.replace(b"data: ", b"data:").replace(b"\n\n", b"\r\n\r\n"))], 1),
        ([framed(STREAM, BODY.replace(b'"choices"', b'\ndata: "choices"'))], 1),
        ([framed(STREAM, b": ping\n\nretry: 5\n\nevent: message\nid: 1\n" + BODY)], 1),
        ([framed(STREAM + b"content-encoding: gzip\r\n", gzip.compress(BODY))], 1),
        ([framed(STREAM + b"content-encoding: gzip\r\n", gzip.compress(BODY[:99]) + gzip.compress(BODY[99:]))], 1),
        ([framed(STREAM + b"content-encoding: deflate\r\n", zlib.compress(BODY))], 1),
        ([framed(STREAM + b"content-encoding: deflate\r\n", zlib.compress(BODY)[2:-4])], 1),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", framed(STREAM, BODY)], 1),
        ([CLOSE, *(BODY[i : i + 1] for i in range(len(BODY)))], 2),
        ([b"HTTP/1.0 200 OK\r\n\r\n" + BODY], 2),
        ([CLOSE + BODY.removesuffix(DONE)], 2),
        ([CLOSE + BODY.removesuffix(DONE).removesuffix(b"\n\n")], 2),
    ],
)
async def test_an_odd_answer_is_read(writes: list[bytes], connections: int) -> None:
    serve = always(*writes) if connections == 1 else once(*writes)
    outcome, text, error, _, opened = await answered(serve, times=2)
    assert (outcome, text, error, opened) == (Outcome.OK, "ab", "", connections)


async def test_usage_that_comes_before_the_last_text_counts() -> None:
    serve = always(HEAD + chunk(token("a"), usage(2), token("b", "length"), DONE) + END)
    assert (await answered(serve))[3] == 2


async def test_one_line_of_ten_megabytes_is_read() -> None:
    text = "é" * 5_000_000
    body = event({"choices": [{"index": 0, "text": text, "finish_reason": "length"}]}) + DONE
    assert (await answered(always(framed(STREAM, body))))[:2] == (Outcome.OK, text)


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_what_is_no_output_is_no_tick(api: str) -> None:
    quiet: list[Any] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "text": "", "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}, "text": None}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": None, "usage": None},
        {"choices": []},
    ]
    last = {"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": "stop"}]}
    serve = always(HEAD + chunk(*map(event, [*quiet, last]), DONE) + END)
    assert (await answered(serve, api=api))[0] is Outcome.NO_TOKEN


@pytest.mark.parametrize("then", [resets, stops_sending, lambda connection: None])
@pytest.mark.parametrize(
    ("writes", "outcome"),
    [
        ([], Outcome.TRUNCATED),
        ([b"HTTP/1.1 200"], Outcome.TRUNCATED),
        ([HEAD[:-2]], Outcome.TRUNCATED),
        ([HEAD], Outcome.TRUNCATED),
        ([HEAD + chunk(token("a"))], Outcome.TRUNCATED),
        ([HEAD + chunk(token("a")) + b"ffff\r\ndata: {"], Outcome.TRUNCATED),
        ([CLOSE + token("a")], Outcome.TRUNCATED),
        ([CLOSE + token("a") + b'data: {"choi'], Outcome.TRUNCATED),
        ([CLOSE + b": only comments\n\n"], Outcome.NO_TOKEN),
        ([STREAM + b"content-length: 9999\r\n\r\n" + token("a")], Outcome.TRUNCATED),
        ([CLOSE + event({"error": {"message": "out of memory"}})], Outcome.STREAM_ERROR),
        ([CLOSE + token("a") + event({"error": {"message": "out of memory"}}) + DONE], Outcome.STREAM_ERROR),
        ([HEAD + chunk(BODY)], Outcome.OK),
        ([HEAD + chunk(BODY.removesuffix(DONE))], Outcome.OK),
        ([answer()], Outcome.OK),
    ],
)
async def test_however_a_connection_ends_the_answer_is_what_came(
    writes: list[bytes], outcome: Outcome, then: Callable[[socket.socket], None]
) -> None:
    got, _, error, _, _ = await answered(once(*writes, then=then))
    if then is resets and got is not outcome:
        # A reset may overtake what was written before it: what is lost was never received.
        assert got in (Outcome.TRUNCATED, Outcome.NO_TOKEN)
        return
    assert got is outcome
    assert bool(error) == (outcome is not Outcome.OK)


@pytest.mark.parametrize(
    ("response", "outcome", "words"),
    [
        (framed(b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\n", b'{"error": "slow down"}'), "http_error", "HTTP 429"),
        (framed(b"HTTP/1.1 308 Moved\r\nlocation: /v2\r\n", b""), "http_error", "redirected to /v2"),
        (framed(b"HTTP/1.1 200 OK\r\n", b'{"error": {"message": "no such model"}}'), "stream_error", "no such model"),
        (framed(b"HTTP/1.1 200 OK\r\n", b"<html>login</html>"), "protocol_error", "<html>login"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "no_token", "without any output"),
        (framed(STREAM + b"content-encoding: zstd\r\n", b"x"), "protocol_error", "'zstd'"),
        (framed(STREAM + b"content-encoding: gzip\r\n", gzip.compress(BODY)[:-20]), "truncated", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "protocol_error", "broken HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcd", "protocol_error", "broken HTTP"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "protocol_error", "broken HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "protocol_error", "broken HTTP"),
    ],
)
async def test_what_is_no_answer_is_named(response: bytes, outcome: str, words: str) -> None:
    got, _, error, _, _ = await answered(once(response))
    assert got.label == outcome
    assert words in error
