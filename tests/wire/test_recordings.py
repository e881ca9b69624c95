"""What LMDeploy's server and proxy sent is recorded as what it meant, read by read and over a real socket."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome
from lmtui.wire import Client, Endpoint
from tests.wire.raw_server import RawServer, raw_server, read_request
from tests.wire.record import KeptAnswer, ask, perform
from tests.wire.replay import DATA, reads_of, recording, replay


@dataclass(frozen=True)
class Meant:
    """What an exchange meant, by a person's reading of it. `ticks`: cumulative tokens of each."""

    outcome: Outcome
    text: str = ""
    ticks: tuple[int, ...] = ()
    output_tokens: int = UNKNOWN
    prompt_tokens: int = UNKNOWN
    error: str = ""


def untold(ticks: int) -> tuple[int, ...]:
    return (UNKNOWN,) * ticks


INTERNAL = "An internal server error occurred."
OVER_THE_L, JUMPS_O = "s over the l", " jumps o"
MEANT = {
    "abort_by_abort_request_stream": Meant(
        Outcome.BAD_FINISH,
        "s over the lazy dog while def return import self class value error number",
        untold(20),
        20,
        error="abort",
    ),
    "abort_client_disconnect": Meant(Outcome.TRUNCATED, OVER_THE_L, untold(5), 5, error="closed"),
    "auth_missing": Meant(Outcome.HTTP_ERROR, error="HTTP 401"),
    "auth_wrong": Meant(Outcome.HTTP_ERROR, error="Unauthorized."),
    "chat_nonstream": Meant(Outcome.OK, JUMPS_O, (5,), 5, 11),
    "chat_stream": Meant(Outcome.OK, JUMPS_O, untold(5), 5),
    "chat_stream_usage": Meant(Outcome.OK, JUMPS_O, untold(5), 5, 11),
    "chat_stream_usage_natural_stop": Meant(Outcome.OK, " jumps over", untold(6), 6, 11),
    "chat_stream_usage_token_ids": Meant(Outcome.OK, JUMPS_O, (1, 2, 3, 4, 5), 5, 11),
    "completions_nonstream": Meant(Outcome.OK, OVER_THE_L, (5,), 5, 14),
    "completions_stream": Meant(Outcome.OK, OVER_THE_L, untold(5), 5),
    "completions_stream_usage_natural_stop": Meant(Outcome.OK, "s over the la", untold(6), 6, 14),
    "completions_stream_usage_two_prompts": Meant(Outcome.OK, " quick b", untold(4), 4, 4),
    "completions_token_id_prompt": Meant(Outcome.HTTP_ERROR, error="Request preprocessing failed."),
    "error_bad_temperature": Meant(Outcome.HTTP_ERROR, error="temperature 3.0"),
    "error_context_length_stream": Meant(Outcome.HTTP_ERROR, error="context length (2048)"),
    "error_engine_internal_nonstream": Meant(Outcome.HTTP_ERROR, error="HTTP 500"),
    "error_engine_internal_stream": Meant(Outcome.STREAM_ERROR, error=INTERNAL),
    "error_engine_midstream_chat_stream": Meant(Outcome.STREAM_ERROR, " jumps", untold(4), 4, error=INTERNAL),
    "error_engine_midstream_stream": Meant(Outcome.STREAM_ERROR, "s over the", untold(4), 4, error=INTERNAL),
    "error_engine_oom_chat_stream": Meant(Outcome.STREAM_ERROR, error=INTERNAL),
    "error_engine_raise_chat_stream": Meant(Outcome.STREAM_ERROR, error=INTERNAL),
    "error_engine_raise_stream": Meant(Outcome.STREAM_ERROR, error="code 500"),
    "error_max_tokens_zero": Meant(Outcome.HTTP_ERROR, error="must be at least 1"),
    "error_missing_field": Meant(Outcome.HTTP_ERROR, error="prompt: Field required"),
    "error_not_found_path": Meant(Outcome.HTTP_ERROR, error="HTTP 404"),
    "error_session_occupied": Meant(Outcome.HTTP_ERROR, error="Internal Server Error"),
    "error_wrong_content_type": Meant(Outcome.HTTP_ERROR, error="Unsupported Media Type"),
    "generate_stream_input_ids": Meant(Outcome.OK, "ck brow", (1, 2, 3, 4), 4, 3),
    "proxy_chat_stream_usage": Meant(Outcome.OK, JUMPS_O, untold(5), 5, 11),
    "proxy_completions_nonstream": Meant(Outcome.OK, OVER_THE_L, (5,), 5, 14),
    "proxy_completions_stream_usage": Meant(Outcome.OK, OVER_THE_L, untold(5), 5, 14),
    "proxy_error_model_not_found": Meant(Outcome.HTTP_ERROR, error="'nope' does not exist"),
    "proxy_error_node_down_nonstream": Meant(Outcome.STREAM_ERROR, error="Failed to get response"),
    "proxy_error_node_down_stream": Meant(Outcome.STREAM_ERROR, error="10402"),
}
NO_COMPLETION = {"abort_request_call", "completions_nonstream_default_max_tokens", "error_context_length"}
NO_COMPLETION |= {"error_engine_oom_nonstream", "error_engine_raise_nonstream"}
"""POSTs that are another call, or the same as one above."""


def asked(recorded: dict[str, Any]) -> dict[str, Any]:
    body = recorded["request"]["body"]
    path = recorded["request"]["path"]
    api = "chat" if "chat" in path else "sglang" if path == "/generate" else "completions"
    max_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or 1
    # Two prompts in one request are two answers of max_tokens each; nothing of lmtui asks for that.
    return {
        "api": api,
        "max_tokens": max_tokens,
        "ignores_eos": bool(body.get("ignore_eos")),
        "streams": bool(body.get("stream")),
    }


def test_every_recorded_completion_has_its_meaning() -> None:
    posts = {
        path.stem
        for path in (DATA / "lmdeploy_sse").glob("*.json")
        if recording(path.stem)["request"]["method"] == "POST"
    }
    assert posts == MEANT.keys() | NO_COMPLETION


@pytest.mark.parametrize("name", MEANT)
def test_the_reads_as_they_were(name: str) -> None:
    recorded, meant = recording(name), MEANT[name]
    got = replay(reads_of(recorded), **asked(recorded))
    assert got.outcome is meant.outcome, got.of("error")
    assert got.text == meant.text
    assert got.ticks == meant.ticks
    assert got.of("output_tokens") == meant.output_tokens
    assert got.of("prompt_tokens") == meant.prompt_tokens
    assert meant.error in got.of("error")


async def test_the_reads_over_a_socket() -> None:
    names = list(MEANT)

    def serve(connection: socket.socket, number: int, server: RawServer) -> None:
        read_request(connection)
        for data in reads_of(recording(names[number])):
            connection.sendall(data)

    with raw_server(serve) as server:
        endpoint = Endpoint.parse(server.base_url)
        for name in names:
            client = Client(endpoint, idle_timeout_s=10)
            await client.open()
            recorded, meant = recording(name), MEANT[name]
            how = asked(recorded)
            answer = KeptAnswer(how.pop("api"))
            record = await perform(client, ask(endpoint, answer=answer, **how))
            await client.close()
            assert record.outcome is meant.outcome, (name, record.told)
            assert (answer.text, record.told["output_tokens"]) == (meant.text, meant.output_tokens)
            assert tuple(tokens for _, tokens in record.ticks) == meant.ticks
