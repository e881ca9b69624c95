"""The server target: what it records, its connections, TLS and sockets."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.targets.server import ServerTarget
from lmtui.workload import tiny_tokenizer, tokenizers
from tests.targets.asking import quiet, run
from tests.targets.fake_server import Reply, Seen, answer, completion, fake_server
from tests.targets.making import config, request
from tests.wire.certificates import self_signed
from tests.wire.raw_server import RawServer, raw_server, read_request
from tests.wire.raw_server import answer as raw_answer
from tests.wire.record import Record


async def test_a_request_is_recorded_with_the_servers_counts() -> None:
    with fake_server() as (server, base_url):
        target, session = await run(base_url)
    assert session.outcome is Outcome.OK
    assert len(session.ticks) == 8
    assert (session.told["output_tokens"], session.told["token_source"]) == (8, TokenSource.USAGE)
    assert session.told["prompt_tokens"] == 7
    info = target.prepared().info
    assert (info.model, info.limits, info.notes) == ("fake-model", {"max_model_len": 4096}, ())
    assert server.posts[-1] == {
        "model": "fake-model",
        "prompt": request().prompt,
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


async def test_connections_are_kept_and_opened_before_they_are_needed() -> None:
    with fake_server() as (_, base_url):
        target = ServerTarget(config("server", base_url=base_url))
        await target.open(quiet)
        requests = [request(i) for i in range(6)]
        await target.prepare(3, requests)
        assert target.stats.opened == 3
        for planned in requests:
            session = Record(planned)
            await target.perform(planned, session)
            assert session.outcome is Outcome.OK
        assert target.stats.opened == 3
        await target.close()


async def test_one_json_body_is_one_tick_when_streaming_is_off() -> None:
    def whole(seen: Seen) -> Reply:
        if seen.method == "GET":
            return answer(seen)
        choice = {"index": 0, "text": "all at once", "finish_reason": "length"}
        usage = {"prompt_tokens": 3, "completion_tokens": seen.body["max_tokens"]}
        return Reply(body={"object": "text_completion", "choices": [choice], "usage": usage})

    with fake_server(whole) as (server, base_url):
        target = ServerTarget(config("server", base_url=base_url, request={"stream": False}))
        await target.open(quiet)
        session = Record(request(output_len=8))
        await target.perform(session.request, session)
        await target.close()
    assert server.posts[-1]["stream"] is False
    assert session.outcome is Outcome.OK
    assert [tokens for _, tokens in session.ticks] == [8]


async def test_texts_are_tokenised_here_when_the_server_counts_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    tokenizer, finish = str(tiny_tokenizer.path()), "length"

    def silent(seen: Seen) -> Reply:
        broken = [r'data: {"choices": [{"text": "\ud83d"}]}' + "\n\n"]
        pieces = [*broken, *completion(3, usage=False, finish=finish)]
        return answer(seen) if seen.method == "GET" else Reply(pieces=pieces)

    with fake_server(silent) as (_, base_url):
        target, session = await run(base_url, tokenizer=tokenizer, request={"ignore_eos": False})
        _, untokenised = await run(base_url, request={"ignore_eos": False})
        _, told_length = await run(base_url, tokenizer=tokenizer)
        finish = "stop"
        _, stopped = await run(base_url, tokenizer=tokenizer)
    assert target.prepared().counts_text
    expected = len(tokenizers.load(tokenizer).encode("? t0 t1 t2", special_tokens=False))
    assert expected > 4
    assert (session.told["output_tokens"], session.told["token_source"]) == (expected, TokenSource.TEXT)
    assert (untokenised.told["output_tokens"], untokenised.told["token_source"]) == (4, TokenSource.CHUNKS)
    assert expected < 0.9 * 8
    assert told_length.outcome is Outcome.OK  # tokens merge in a text; the server says that it came to the length
    assert stopped.outcome is Outcome.SHORT
    with fake_server() as (_, base_url):
        target, session = await run(base_url, tokenizer=tokenizer)
    assert not target.prepared().counts_text
    assert session.told["token_source"] is TokenSource.USAGE


async def test_tls_is_checked_by_default_and_explained(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with fake_server(certificate=(certificate, certificate)) as (_, base_url):
        with pytest.raises(TargetError, match=r"target\.ca"):
            await run(base_url)
        for keys in ({"ca": str(certificate)}, {"insecure": True}):
            _, session = await run(base_url, **keys)
            assert session.outcome is Outcome.OK
        with pytest.raises(TargetError, match=r"target\.ca"):
            await run(base_url, ca="/no/such/file.pem")
    with fake_server() as (_, base_url), pytest.raises(TargetError, match="http://"):
        await run(base_url.replace("http:", "https:"), insecure=True)


async def test_a_unix_socket(tmp_path: Path) -> None:
    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        while raw := read_request(connection):
            models = b'{"data":[{"id":"m"}]}'
            listing = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(models), models)
            connection.sendall(listing if raw.startswith(b"GET") else raw_answer(8))

    with raw_server(serve, path=tmp_path / "s") as server:
        target, session = await run(server.base_url, request={"ignore_eos": False})
    assert session.outcome is Outcome.OK
    assert target.stats.clock == "user"
