"""What the server target sends: paths, bodies by API, header fields and their secrets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome
from lmtui.targets.server import ServerTarget
from lmtui.workload.plan import Message
from tests.targets.asking import quiet, run
from tests.targets.fake_server import Reply, Seen, answer, fake_server
from tests.targets.making import config, request
from tests.wire.record import Record


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
