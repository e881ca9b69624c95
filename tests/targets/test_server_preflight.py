"""The one request before a run: which fields a server refuses, and what a run does without them."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome
from lmtui.targets.server import ServerTarget
from tests.targets.asking import quiet, run
from tests.targets.fake_server import Reply, Seen, answer, completion, fake_server
from tests.targets.making import config, request
from tests.wire.record import Record


def rejecting(*fields: str, status: int = 422, name_them: bool = True) -> Callable[[Seen], Reply]:
    """Return a server's manners: it refuses requests with any of these fields."""

    def reply(seen: Seen) -> Reply:
        found = [field for field in fields if field in seen.body]
        if seen.method == "POST" and found:
            told = f"Unexpected fields in the request: {set(found)}" if name_them else "invalid request"
            return Reply(status, {"detail": told})
        return answer(seen)

    return reply


async def test_preflight_has_the_fields_of_the_run() -> None:
    with fake_server() as (server, base_url):
        await run(base_url, api="chat", extra_body={"min_p": 0.1})
    first, last = server.posts
    assert first.keys() == last.keys()
    assert first["max_completion_tokens"] == 2


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
