"""What is said of a server, a key or a certificate that cannot be used: the cause, the remedy, never the secret."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome
from lmtui.targets import server_ready
from lmtui.targets.server import ServerTarget
from lmtui.targets.server_secrets import Secrets
from tests.targets.fake_server import Reply, Seen, answer, completion, fake_server
from tests.targets.making import config, request
from tests.wire.raw_server import RawServer, raw_server, read_request
from tests.wire.record import Record

Manners = Callable[[Seen], Reply]


async def opened(base_url: str, **keys: Any) -> tuple[str, list[str]]:
    """Return what opening a target fails with ("" when it does not), and the lines of progress."""
    lines: list[str] = []
    target = ServerTarget(config("server", base_url=base_url, **keys))
    try:
        await target.open(lines.append)
    except TargetError as error:
        return str(error), lines
    finally:
        await target.close()
    return "", lines


def says(raw: bytes) -> Callable[[socket.socket, int, RawServer], None]:
    """Return a server that answers every request with these bytes and hangs up."""

    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        connection.sendall(raw)

    return serve


async def test_a_key_is_sent_without_the_blanks_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-LEAK-777\r\n")
    monkeypatch.setenv("LMTUI_TEST_TENANT", "lab\n")
    with fake_server() as (server, base_url):
        assert (await opened(base_url, headers={"X-Tenant": "${LMTUI_TEST_TENANT}"}))[0] == ""
    assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer sk-LEAK-777"}
    assert {seen.headers["x-tenant"] for seen in server.seen} == {"lab"}


@pytest.mark.parametrize("key", ["sk-LEAK\n777", "sk-LEAK-é", "sk-LEAK\x7f777", "sk-\udcffLEAK", "sk-LEAK\t777"])
async def test_a_key_that_no_header_can_carry_is_refused_at_once(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with fake_server() as (server, base_url):
        for keys in ({"api_key_env": "MY_KEY"}, {"headers": {"X-Key": "${MY_KEY}"}}):
            said, lines = await opened(base_url, **keys)
            assert said.startswith("The environment variable MY_KEY, which target.")
            assert said.count(".") == 2
            assert "LEAK" not in said
            assert lines == []
        assert server.seen == []


async def test_a_blank_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "\n")
    with fake_server() as (server, base_url):
        assert (await opened(base_url))[0] == ""
    assert all("authorization" not in seen.headers for seen in server.seen)


@pytest.mark.parametrize("key", ["sk-LEAK-777\n", "sk-'LEAK\"\\x", "sk-LÉAK-\u4e00", "sk LEAK/+=7"])
def test_a_secret_is_hidden_in_every_form_in_which_it_is_quoted(key: str) -> None:
    secrets = Secrets()
    secrets.add(key)
    told = f"{key} {key!r} {key.encode()!r} {json.dumps(key)} {httpx.QueryParams({'k': key})} Bearer {key.strip()}!"
    for part in ("LEAK", "AK"):
        assert part not in secrets.mask(told)


async def test_an_error_of_the_server_does_not_repeat_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-LEAK-777")
    with fake_server(lambda seen: Reply(401, {"error": f"bad key {seen.headers['authorization']}"})) as (_, base_url):
        said, _ = await opened(base_url)
    assert "LEAK" not in said
    assert "OPENAI_API_KEY" in said


async def test_even_a_bug_does_not_tell_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("Illegal header value b'Bearer sk-LEAK-777'")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-LEAK-777")
    monkeypatch.setattr(server_ready.Inquiry, "check", fails)
    with fake_server() as (_, base_url), pytest.raises(RuntimeError) as caught:
        await opened(base_url)
    assert str(caught.value) == "ValueError: Illegal header value b'Bearer ***'"
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("manners", "parts"),
    [
        (Reply(500, {"error": "boom"}), ["HTTP 500", "boom", "the server is broken", "log"]),
        (Reply(404, {"detail": "Not Found"}), ["HTTP 404", "Not Found", "target.base_url is probably wrong"]),
        (Reply(200, {"data": []}), ["HTTP 200", '{"data": []}', "it lists no model: set target.model"]),
        (Reply(200, {"message": "hello"}), ["hello", "it lists no model: set target.model"]),
        (Reply(403, {"error": "no"}), ["HTTP 403", "OPENAI_API_KEY"]),
        (Reply(418, {"error": "teapot"}), ["HTTP 418", "teapot", "set target.model"]),
    ],
)
async def test_a_list_of_models_that_is_none_is_quoted_with_its_remedy(manners: Reply, parts: list[str]) -> None:
    with fake_server(lambda seen: manners) as (_, base_url):
        said, _ = await opened(base_url)
    for part in parts:
        assert part.lower() in said.lower()
    assert "\n" not in said


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n<html>\n<b>Hi</b></html>",
            ["HTTP 200", "<html>", "target.base_url is probably wrong", "set target.model"],
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", ["does not answer in HTTP", "correct target.base_url"]),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc", ["correct target.base_url"]),
    ],
)
async def test_what_is_no_api_is_said_at_once(raw: bytes, parts: list[str]) -> None:
    with raw_server(says(raw)) as server:
        said, _ = await opened(server.base_url, ready_timeout_s=600)
    for part in parts:
        assert part in said


async def test_a_list_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_ready, "MOST_BYTES", 1000)
    with fake_server(lambda seen: Reply(200, {"data": ["x" * 2000]})) as (_, base_url):
        said, _ = await opened(base_url)
    assert "target.base_url is probably wrong" in said


async def test_a_server_that_never_answers_is_given_its_time_and_no_more() -> None:
    def hang(connection: socket.socket, number: int, server: RawServer) -> None:
        server.wait_until_left(connection)

    def drip(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")
        server.wait_until_left(connection)

    for serve in (hang, drip):
        with raw_server(serve) as server:
            said, _ = await opened(server.base_url, ready_timeout_s=0.7)
        assert re.search(r"did not answer within 0\.7 s .*: no answer within 0\.(7|6\d*) s\)", said), said


async def test_waiting_is_told_now_and_then_and_not_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_ready, "POLL_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said, lines = await opened(f"http://127.0.0.1:{port}", ready_timeout_s=0.5)
    assert "target.ready_timeout_s" in said
    assert len([line for line in lines if line.startswith("waiting for")]) == 1


async def test_a_preflight_without_output_is_refused() -> None:
    def mute(seen: Seen) -> Reply:
        return answer(seen) if seen.method == "GET" else Reply(pieces=completion(0))

    with fake_server(mute) as (server, base_url):
        said, _ = await opened(base_url)
        assert [post["max_tokens"] for post in server.posts] == [2, 16]
        for part in ("no_token", 'target.api = "completions"', "target.preflight"):
            assert part in said
        assert (await opened(base_url, preflight=False))[0] == ""


async def test_a_preflight_whose_first_tokens_are_mute_passes() -> None:
    def late(seen: Seen) -> Reply:
        return (
            answer(seen) if seen.method == "GET" else Reply(pieces=completion(16 if seen.body["max_tokens"] > 2 else 0))
        )

    with fake_server(late) as (_, base_url):
        assert (await opened(base_url))[0] == ""


async def test_without_streaming_nobody_is_told_to_stream() -> None:
    def odd(seen: Seen) -> Reply:
        return answer(seen) if seen.method == "GET" else Reply(pieces=["not json"])

    with fake_server(odd) as (_, base_url):
        whole, _ = await opened(base_url, request={"stream": False})
        streamed, _ = await opened(base_url)
    assert "streams" not in whole
    assert "streams" in streamed
    assert "target.api" in whole


async def test_an_answer_of_the_asked_length_is_ok_though_it_says_stop() -> None:
    def stops(seen: Seen) -> Reply:
        return (
            answer(seen) if seen.method == "GET" else Reply(pieces=completion(seen.body["max_tokens"], finish="stop"))
        )

    with fake_server(stops) as (_, base_url):
        target = ServerTarget(config("server", base_url=base_url))
        await target.open(lambda line: None)
        session = Record(request(output_len=8))
        await target.perform(session.request, session)
        await target.close()
    assert session.outcome is Outcome.OK
    assert target.prepared().info.notes == ()


async def test_a_file_that_is_no_certificate_is_refused_in_words(tmp_path: Path) -> None:
    (empty := tmp_path / "empty.pem").write_text("nothing")
    for ca, words in ((empty, "holds no certificate: set it to a PEM file"), (tmp_path / "none", "cannot be read")):
        said, _ = await opened("https://127.0.0.1:1", ca=str(ca))
        assert words in said
        assert "target.ca" in said
        assert "_ssl" not in said
