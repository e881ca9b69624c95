"""The server target: what it sends, what it finds out, what it leaves out, and what it says when that fails."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.targets.build import build
from lmtui.targets.server import ServerTarget
from lmtui.workload import tiny_tokenizer, tokenizers
from lmtui.workload.plan import Message
from tests.targets.fake_server import Reply, Seen, answer, completion, fake_server
from tests.targets.making import config, request
from tests.wire.certificates import self_signed
from tests.wire.raw_server import RawServer, raw_server, read_request
from tests.wire.raw_server import answer as raw_answer
from tests.wire.record import Record


def quiet(line: str) -> None:
    assert line


def rejecting(*fields: str, status: int = 422, name_them: bool = True) -> Callable[[Seen], Reply]:
    """Return a server's manners: it refuses requests with any of these fields."""

    def reply(seen: Seen) -> Reply:
        found = [field for field in fields if field in seen.body]
        if seen.method == "POST" and found:
            told = f"Unexpected fields in the request: {set(found)}" if name_them else "invalid request"
            return Reply(status, {"detail": told})
        return answer(seen)

    return reply


async def run(base_url: str, **keys: Any) -> tuple[ServerTarget, Record]:
    """Open a target and perform one request of 8 tokens; closed before the test goes on."""
    target = ServerTarget(config("server", base_url=base_url, **keys))
    await target.open(quiet)
    session = Record(request(output_len=8))
    rest = await target.perform(session.request, session)
    if rest is not None:
        await rest
    await target.close()
    return target, session


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


async def test_preflight_has_the_fields_of_the_run() -> None:
    with fake_server() as (server, base_url):
        await run(base_url, api="chat", extra_body={"min_p": 0.1})
    first, last = server.posts
    assert first.keys() == last.keys()
    assert first["max_completion_tokens"] == 2


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


@pytest.mark.parametrize("name_them", [True, False])
async def test_rejected_optional_fields_are_left_out_and_noted(name_them: bool) -> None:
    with fake_server(rejecting("ignore_eos", name_them=name_them)) as (server, base_url):
        target, session = await run(base_url)
    assert session.outcome is Outcome.OK
    assert "ignore_eos" not in server.posts[-1]
    assert "stream_options" in server.posts[-1]
    info = target.prepared().info
    assert info.dropped_fields == ("request.ignore_eos",)
    assert "ignore_eos" in info.notes[0]


async def test_several_rejected_fields_are_left_out() -> None:
    for name_them in (True, False):
        manners = rejecting("ignore_eos", "top_k", "stream_options", name_them=name_them)
        with fake_server(manners) as (server, base_url):
            target = ServerTarget(config("server", base_url=base_url, request={"top_k": 5}))
            await target.open(quiet)
            await target.close()
        assert {"ignore_eos", "top_k", "stream_options"}.isdisjoint(server.posts[-1])
        assert set(target.prepared().info.dropped_fields) >= {"request.ignore_eos", "request.top_k", "stream_options"}


async def test_a_natural_stop_is_fine_once_ignore_eos_was_dropped() -> None:
    def stops(seen: Seen) -> Reply:
        refused = rejecting("ignore_eos")(seen)
        if seen.method == "GET" or refused.status != 200:
            return refused
        return Reply(pieces=completion(1, finish="stop"))

    with fake_server(stops) as (_, base_url):
        _, session = await run(base_url)
    assert session.outcome is Outcome.OK
    with fake_server(lambda seen: stops(seen) if seen.method == "GET" else Reply(pieces=completion(1))) as (
        _,
        base_url,
    ):
        _, session = await run(base_url)
    assert session.outcome is Outcome.SHORT


async def test_drop_rejected_false_refuses_and_names_the_field() -> None:
    with fake_server(rejecting("ignore_eos")) as (_, base_url), pytest.raises(TargetError) as caught:
        await run(base_url, drop_rejected=False)
    text = str(caught.value)
    for part in ("request.ignore_eos", "422", f"{base_url}/v1/completions", "drop_rejected"):
        assert part in text


async def test_an_essential_field_that_is_rejected_ends_the_run() -> None:
    with (
        fake_server(rejecting("min_p")) as (_, base_url),
        pytest.raises(TargetError, match=r"target\.extra_body\.min_p"),
    ):
        await run(base_url, extra_body={"min_p": 0.1})


async def test_chat_falls_back_to_max_tokens() -> None:
    with fake_server(rejecting("max_completion_tokens", status=400)) as (server, base_url):
        target, session = await run(base_url, api="chat")
    assert session.outcome is Outcome.OK
    assert server.posts[-1]["max_tokens"] == 8
    assert "max_completion_tokens" in target.prepared().info.notes[0]


async def test_a_load_worker_opens_without_asking() -> None:
    with fake_server(rejecting("ignore_eos")) as (server, base_url):
        first, _ = await run(base_url)
        asked = len(server.seen)
        plan = pickle.loads(pickle.dumps(first.prepared()))
        worker = ServerTarget.from_prepared(first._config, plan)
        info = await worker.open(quiet)
        assert len(server.seen) == asked
        assert info == plan.info
        session = Record(request(output_len=3))
        await worker.perform(session.request, session)
        await worker.close()
    assert session.outcome is Outcome.OK
    assert "ignore_eos" not in server.posts[-1]


@pytest.mark.parametrize(
    ("manners", "parts"),
    [
        (lambda seen: Reply(404, {"detail": "Not Found"}), ["lists no model", "target.model"]),
        (lambda seen: Reply(401, {"error": "Unauthorized"}), ["401", "OPENAI_API_KEY"]),
        (lambda seen: Reply(307, {}, headers={"location": "http://elsewhere:1/v1/models"}), ["http://elsewhere:1"]),
        (
            lambda seen: answer(seen) if seen.method == "GET" else Reply(301, {}, headers={"location": "http://b/x"}),
            ["http://b/x", "301", "target.base_url"],
        ),
        (
            lambda seen: answer(seen) if seen.method == "GET" else Reply(404, {"message": "The model 'x' is unknown"}),
            ["fake-model", "target.model"],
        ),
        (
            lambda seen: answer(seen) if seen.method == "GET" else Reply(body={"object": "text_completion"}),
            ["protocol_error", "text_completion", "target.api"],
        ),
        (
            lambda seen: answer(seen) if seen.method == "GET" else Reply(429, {"error": "queue is full"}),
            ["queue is full"],
        ),
    ],
)
async def test_a_refusal_is_explained(manners: Any, parts: list[str]) -> None:
    with fake_server(manners) as (_, base_url), pytest.raises(TargetError) as caught:
        await run(base_url)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def redirecting(status: int, location: str, *methods: str) -> Callable[[Seen], Reply]:
    """Return a server's manners: requests of these methods are sent elsewhere; `location` may name `{path}`."""

    def reply(seen: Seen) -> Reply:
        if seen.method not in methods:
            return answer(seen)
        return Reply(status, {"detail": "Moved"}, headers={"location": location.format(path=seen.path)})

    return reply


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/models"), ("POST", "/v1/completions")])
@pytest.mark.parametrize(
    ("location", "leads_to", "remedy"),
    [
        ("https://gpu-box:8443/llm{path}", "https://gpu-box:8443/llm{path}", "set target.base_url to {base}."),
        ("/llm{path}", "{own}/llm{path}", "set target.base_url to {base}."),
        ("{path}/", "{own}{path}/", "target.base_url is that already"),
        ("/login?next=x", "{own}/login?next=x", "set target.base_url to the URL of the server itself"),
        (
            "https://me:pass@box{path}",
            "https://me:pass@box{path}",
            "set target.base_url to the URL of the server itself",
        ),
        ("", "a redirect that does not say where to", "set target.base_url to the URL of the server itself"),
    ],
)
async def test_a_redirect_is_not_followed_but_explained(
    status: int, method: str, path: str, location: str, leads_to: str, remedy: str
) -> None:
    manners = redirecting(status, location, method)
    with fake_server(manners) as (server, base_url), pytest.raises(TargetError) as caught:
        await run(base_url)
    text = str(caught.value)
    told = leads_to.format(own=base_url, path=path)
    assert told in text
    assert remedy.format(base=told.removesuffix(path)) in text
    for words in (f"{method} {base_url}{path}", f"HTTP {status}"):
        assert words in text
    assert "server's log" not in text
    assert len([seen for seen in server.seen if seen.method == method]) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_redirect_to_what_is_no_url_is_said_at_once(method: str) -> None:
    with (
        fake_server(redirecting(302, "http://[::1{path}", method)) as (server, base_url),
        pytest.raises(TargetError, match=r"redirects to .*: set target\.base_url to the URL of the server itself"),
    ):
        await run(base_url)
    assert len([seen for seen in server.seen if seen.method == method]) == 1


async def test_the_url_that_a_redirect_tells_is_taken_as_it_is() -> None:
    with fake_server() as (server, right_url):
        location = f"{right_url}{{path}}"
        with fake_server(redirecting(307, location, "GET")) as (_, wrong_url), pytest.raises(TargetError) as caught:
            await run(wrong_url)
        told = str(caught.value).rpartition("set target.base_url to ")[2].removesuffix(".")
        assert told == right_url
        _, session = await run(told)
    assert session.outcome is Outcome.OK
    assert len(server.posts) == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_inside_the_load_is_an_error_of_its_request(status: int) -> None:
    with fake_server(redirecting(status, "http://elsewhere:1{path}", "POST")) as (server, base_url):
        _, session = await run(base_url, preflight=False)
    assert session.outcome is Outcome.HTTP_ERROR
    assert session.ticks == []
    assert "http://elsewhere:1/v1/completions" in session.told["error"]
    assert "target.base_url" in session.told["error"]
    assert len(server.posts) == 1


async def test_an_unreachable_server_is_waited_for_then_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lines: list[str] = []
    target = ServerTarget(config("server", base_url=f"http://127.0.0.1:{port}", ready_timeout_s=0.6))
    with pytest.raises(TargetError, match="ready_timeout_s"):
        await target.open(lines.append)
    assert any("waiting for" in line for line in lines)


async def test_a_server_that_is_still_loading_is_waited_for() -> None:
    answers = iter([503, 503])

    def loading(seen: Seen) -> Reply:
        status = next(answers, 200)
        return answer(seen) if status == 200 else Reply(status, {"detail": "loading"})

    with fake_server(loading) as (_, base_url):
        _, session = await run(base_url)
    assert session.outcome is Outcome.OK


async def test_an_unknown_host_is_said_at_once() -> None:
    target = ServerTarget(config("server", base_url="http://no-such-host.invalid:1"))
    with pytest.raises(TargetError, match=r"no-such-host\.invalid"):
        await target.open(quiet)


async def test_a_preset_without_a_local_port_needs_a_url() -> None:
    with pytest.raises(TargetError, match=r"target\.base_url"):
        build(config("server"))


async def test_secrets_are_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_TEST_KEY", "sk-very-secret")
    monkeypatch.setenv("LMTUI_TEST_TENANT", "tenant-secret")

    def parrot(seen: Seen) -> Reply:
        if seen.method == "GET":
            return answer(seen)
        return Reply(400, {"message": f"{seen.headers} {seen.body}"})

    with fake_server(parrot) as (server, base_url), pytest.raises(TargetError) as caught:
        await run(
            base_url,
            api_key_env="LMTUI_TEST_KEY",
            headers={"X-Tenant": "${LMTUI_TEST_TENANT}"},
            extra_body={"user": {"name": "${LMTUI_TEST_TENANT}"}},
        )
    sent = server.seen[-1]
    assert sent.headers["authorization"] == "Bearer sk-very-secret"
    assert sent.headers["x-tenant"] == "tenant-secret"
    assert sent.body["user"] == {"name": "tenant-secret"}
    assert "***" in str(caught.value)
    for secret in ("sk-very-secret", "tenant-secret"):
        assert secret not in str(caught.value)


async def test_a_variable_that_is_not_set_is_named() -> None:
    target = ServerTarget(config("server", base_url="http://127.0.0.1:1", headers={"X-A": "${LMTUI_UNSET_VARIABLE}"}))
    with pytest.raises(TargetError, match="LMTUI_UNSET_VARIABLE"):
        await target.open(quiet)


async def sent_body(
    planned: Any = None, *, asked: dict[str, Any] | None = None, **keys: Any
) -> tuple[str, dict[str, Any]]:
    """Return path and body of one request, without a preflight."""
    with fake_server() as (server, base_url):
        target = ServerTarget(
            config("server", base_url=base_url, preflight=False, model="m", request=asked or {}, **keys)
        )
        await target.open(quiet)
        planned = planned or request(output_len=5, prompt="Hi")
        await target.perform(planned, Record(planned))
        await target.close()
    return server.seen[-1].path, server.posts[-1]


async def test_bodies_by_api() -> None:
    sampling = {"temperature": 0.5, "top_k": 3}
    path, body = await sent_body(api="chat", asked=sampling)
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert (body["temperature"], body["top_k"], body["max_completion_tokens"]) == (0.5, 3, 5)
    assert "top_p" not in body
    path, body = await sent_body(api="sglang", asked=sampling)
    assert path == "/generate"
    assert body == {
        "text": "Hi",
        "sampling_params": {"temperature": 0.5, "top_k": 3, "max_new_tokens": 5, "ignore_eos": True},
        "stream": True,
    }
    path, body = await sent_body(api="sglang", preset="lmdeploy")
    assert body == {"prompt": "Hi", "max_tokens": 5, "ignore_eos": True, "stream": True}
    path, body = await sent_body(api="trt")
    assert path == "/v2/models/ensemble/generate_stream"
    assert body == {
        "accumulate_tokens": True,
        "text_input": "Hi",
        "max_tokens": 5,
        "stream": True,
        "min_length": 5,
        "end_id": 1048576,
    }
    _, body = await sent_body(api="trt", asked={"ignore_eos": False})
    assert "end_id" not in body


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_a_request_names_its_own_model(api: str) -> None:
    _, body = await sent_body(request(model="lora-a"), api=api)
    assert body["model"] == "lora-a"
    _, body = await sent_body(request(), api=api)
    assert body["model"] == "m"


async def test_turns_and_token_ids_are_sent_as_they_are() -> None:
    turns: tuple[Message, ...] = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"})
    _, body = await sent_body(request(messages=turns), api="chat")
    assert body["messages"] == list(turns)
    ids = np.array([5, 6, 7], dtype=np.int32)
    _, body = await sent_body(request(prompt="", token_ids=ids))
    assert body["prompt"] == [5, 6, 7]
    _, body = await sent_body(request(prompt="", token_ids=ids), api="sglang")
    assert body["input_ids"] == [5, 6, 7]


async def test_extra_body_is_merged_deep_and_last() -> None:
    extra = {"stream_options": {"continuous_usage_stats": True}, "temperature": 0.3, "min_p": 0.2}
    _, body = await sent_body(extra_body=extra)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (body["temperature"], body["min_p"]) == (0.3, 0.2)


@pytest.mark.parametrize("tail", ["/", "/v1", "/v1/", "/v1/completions"])
async def test_a_url_is_taken_as_people_copy_it(tail: str) -> None:
    with fake_server() as (server, base_url):
        _, session = await run(base_url + tail)
    assert session.outcome is Outcome.OK
    assert {seen.path for seen in server.seen} == {"/v1/models", "/version", "/v1/completions"}


async def test_half_a_surrogate_pair_in_a_prompt_is_sent() -> None:
    _, body = await sent_body(request(prompt="a\ud83d"))
    assert body["prompt"] == "a\ud83d"


async def test_a_prefix_stands_before_every_path() -> None:
    with fake_server() as (server, base_url):
        _, session = await run(f"{base_url}/proxy")
    assert session.outcome is Outcome.OK
    assert {seen.path for seen in server.seen} == {
        "/proxy/v1/models",
        "/proxy/version",
        "/proxy/v1/completions",
    }


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
