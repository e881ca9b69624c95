"""What the real `transformers serve` (5.24, 5.25) does, as the server target has to deal with it.

Started with the model's folder, that folder is the model's name (`/v1/models` lists it; leaving `model` out is fine;
any other name is a 400 "Server is pinned to ..."). Health: GET /health. Both `/v1/chat/completions` and
`/v1/completions` exist and stream `text/event-stream`, chunked; every event is one `data: {json}` line and an empty
line. The choice ends with the chunk that has the `finish_reason` ("length" or "stop"); **no `data: [DONE]`** follows,
the body just ends.

- chat: first a role-only delta (`{"role": "assistant"}`, no content), then `{"content": "..."}`, last `{"delta": {},
  "finish_reason": ...}`. completions: `choices[0].text`, last an empty text.
- `usage`: 5.24 puts it in that last chunk, beside its choice, asked for or not; 5.25 sends it only when asked for
  (`stream_options.include_usage`, as lmtui does), in a chunk of its own, without choices, after the last one.
- A token without complete characters gives no chunk: there may be fewer chunks than `completion_tokens`.
- `model`, `prompt` (a string; token ids are a 400), `messages`, `max_tokens`, `temperature`, `top_p`, `seed`,
  `stop`, `n` are accepted. `ignore_eos`, `top_k`, `min_tokens` and every unknown field: 422
  `{"detail": "Unexpected fields in the request: {'ignore_eos'}"}` (all unexpected ones in one Python set).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer

pytestmark = pytest.mark.slow


@pytest.fixture
def server(transformers_server: RunningServer) -> RunningServer:
    return transformers_server


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.base_url, timeout=60, trust_env=False) as client:
        yield client


def streamed(client: httpx.Client, path: str, body: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Stream an answer with its usage asked for.

    Returns:
        The events with a choice, and the usage, which stands in the last of them or in an event after it.
    """
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    with client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["transfer-encoding"] == "chunked"
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: {") for line in lines), "nothing but JSON events: no [DONE], no comments"
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    *before, last = events
    assert not any(event.get("usage") for event in before)
    return before if not last["choices"] else events, last["usage"]


def test_the_model_is_named_by_its_folder(client: httpx.Client, server: RunningServer) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == [server.model]
    assert Path(server.model).is_dir()


def test_chat_streams_role_then_content_then_finish_with_usage(client: httpx.Client, server: RunningServer) -> None:
    body = {"model": server.model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 12}
    (first, *rest, last), usage = streamed(client, "/v1/chat/completions", body)
    assert first["choices"][0]["delta"] == {"role": "assistant"}
    assert rest
    assert all(set(event["choices"][0]["delta"]) == {"content"} for event in rest)
    assert all(event["choices"][0].get("finish_reason") is None for event in rest)
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] in ("length", "stop")
    assert len(rest) <= usage["completion_tokens"] <= 12
    assert usage["prompt_tokens"] > 0


def test_completions_stream_text_then_finish_with_usage(client: httpx.Client, server: RunningServer) -> None:
    body = {"model": server.model, "prompt": "hello there", "max_tokens": 12, "temperature": 0, "top_p": 0.8}
    (*rest, last), usage = streamed(client, "/v1/completions", body)
    assert rest
    assert all(event["choices"][0]["text"] for event in rest)
    assert last["choices"][0]["text"] == ""
    assert last["choices"][0]["finish_reason"] in ("length", "stop")
    assert len(rest) <= usage["completion_tokens"] <= 12


@pytest.mark.parametrize("field", ["ignore_eos", "top_k", "min_tokens"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "hello"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
    ],
)
def test_fields_beyond_openais_are_a_422_that_names_them(
    client: httpx.Client, path: str, body: dict[str, Any], field: str
) -> None:
    answer = client.post(path, json={**body, "max_tokens": 2, field: 1})
    assert answer.status_code == 422
    assert answer.json() == {"detail": f"Unexpected fields in the request: {{'{field}'}}"}


def test_another_models_name_and_token_ids_are_refused(client: httpx.Client, server: RunningServer) -> None:
    answer = client.post("/v1/completions", json={"model": "other", "prompt": "hello", "max_tokens": 2})
    assert (answer.status_code, "pinned to" in answer.json()["detail"]) == (400, True)
    answer = client.post("/v1/completions", json={"model": server.model, "prompt": [5, 6], "max_tokens": 2})
    assert (answer.status_code, answer.json()) == (400, {"detail": "prompt must be a string."})
