"""What the server target says when a server refuses, redirects, or does not answer."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome
from lmtui.targets.build import build
from lmtui.targets.server import ServerTarget
from tests.targets.asking import quiet, run
from tests.targets.fake_server import Reply, Seen, answer, fake_server
from tests.targets.making import config


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
