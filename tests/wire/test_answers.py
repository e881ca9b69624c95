"""The events of each API, and what they amount to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from tests.wire.replay import Replayed, replay

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def stream(*events: Any, api: str = "completions", done: bool = True, **how: Any) -> Replayed:
    """Return what a well-framed stream of these events (values, or raw bytes) is recorded as."""
    body = b"".join(b"data: %b\n\n" % (e if isinstance(e, bytes) else json.dumps(e).encode()) for e in events)
    return replay([HEAD, body + (b"data: [DONE]\n\n" if done else b"")], api, **how)


def text(words: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": words, "finish_reason": finish}], **more}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def usage(tokens: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens, **more}}


def counted(got: Replayed) -> tuple[int, TokenSource]:
    return got.of("output_tokens"), got.of("token_source")


def test_each_kind_of_delta_is_a_tick() -> None:
    got = stream(
        delta(role="assistant"),
        delta(content="a"),
        delta(reasoning_content="r"),
        delta(reasoning="s", reasoning_content="s"),
        delta(refusal="no"),
        delta(tool_calls=[{"function": {"name": "f"}}]),
        delta(tool_calls=[{"function": {"arguments": "{}"}}]),
        delta(tool_calls=[{"function": {"name": "", "arguments": ""}}, {}]),
        delta(tool_calls=[]),
        delta(content=""),
        {"choices": [{"index": 0, "delta": {}, "output_ids": [4]}]},
        {"choices": [{"index": 0, "delta": {}, "token_ids": []}]},
        {"choices": []},
        {},
        delta("stop"),
        api="chat",
    )
    assert got.outcome is Outcome.OK
    assert len(got.ticks) == 7
    assert (got.text, got.reasoning) == ("ano", "rs")


def test_running_usage_and_token_ids_are_cumulative() -> None:
    got = stream(text("a", usage={"completion_tokens": 2}), text("b", "length", usage={"completion_tokens": 5}))
    assert got.ticks == (2, 5)
    ids = [{"choices": [{"text": "a", "token_ids": [1, 2]}]}, {"choices": [{"text": "b", "token_ids": [3]}]}]
    got = stream(*ids)
    assert got.ticks == (2, 3)
    assert counted(got) == (3, TokenSource.USAGE)
    got = stream(*ids, text("c"))
    assert got.ticks == (2, 3, UNKNOWN)
    assert counted(got) == (3, TokenSource.CHUNKS)


@pytest.mark.parametrize("count", [None, -1, 2.5, "7", 2**40, 10**30, True, [], float("nan")])
def test_a_count_that_cannot_be_one_is_missing(count: Any) -> None:
    got = stream(text("a"), usage(count))
    assert got.outcome is Outcome.OK
    assert counted(got) == (1, TokenSource.CHUNKS)
    assert stream({"text": "a", "meta_info": {"completion_tokens": count}}, api="sglang").of("output_tokens") == 1


def test_the_last_count_wins_and_null_says_nothing() -> None:
    got = stream(text("a", usage={"completion_tokens": 1}), usage(9), text("", usage=None), usage(None))
    assert counted(got) == (9, TokenSource.USAGE)


@pytest.mark.parametrize(
    "event",
    [
        {"choices": "none"},
        {"choices": [None, 5, {"text": 5, "index": "0"}]},
        {"choices": [{"delta": "x", "message": 3}], "usage": 5},
        {"choices": [{"delta": {"content": ["part"], "tool_calls": {"a": 1}}}]},
        {"object": 5, "error": None},
        {"error": False},
        5,
        None,
        "text",
        [],
    ],
)
def test_parts_of_another_type_say_nothing(event: Any) -> None:
    for api in ("completions", "chat", "sglang", "trt"):
        got = stream(event, b'{"choices":[{"text":"a"}],"text":"a","text_output":"a"}', api=api)
        assert (got.outcome, len(got.ticks)) == (Outcome.OK, 1)


def test_what_a_strict_reader_would_refuse_is_read() -> None:
    got = stream(
        b'{"choices":[{"text":"a","logprobs":NaN,"x":Infinity}]}',
        b'{"choices":[{"text":"\\ud83d"}]}',
        b'{"choices":[{"text":"\xff"}]}',
        b'{"choices":[{"text":"z"}],"big":' + b"9" * 5000 + b"}",
        b' {"choices":[{"text":"y"}]} ',
    )
    assert got.outcome is Outcome.OK
    assert got.text == "a\ud83d\ufffdzy"


@pytest.mark.parametrize("event", [b"{", b"nul", b"{} {}", b"'a'", b"[" * 100_000, b'{"a":' * 100_000, b"\x00"])
def test_what_is_not_json_is_quoted_and_keeps_what_came(event: bytes) -> None:
    for api in ("completions", "chat", "sglang", "trt"):
        got = stream({"choices": [{"text": "a"}], "text": "a", "text_output": "a"}, event, api=api)
        assert got.outcome is Outcome.PROTOCOL_ERROR
        assert len(got.ticks) == 1
        assert "not JSON" in got.of("error")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"error": {"message": "too long", "code": "length"}}, "too long (code length)"),
        ({"error": "plain words"}, "plain words"),
        ({"error": {"detail": "deep"}}, "deep"),
        ({"error": {}}, "error"),
        ({"error": ""}, ""),
        ({"object": "error", "message": "flat", "code": 400}, "flat (code 400)"),
        ({"error_code": 10402, "text": "no node"}, "no node (code 10402)"),
        ({"error": {"message": {"nested": 1}}}, "nested"),
        ({"choices": [{"text": "x"}], "error": {"message": "both"}}, "both"),
        ({"error": {"message": "a\n\x1b[31mb\ud83d"}}, "a ?[31mb?"),
    ],
)
def test_errors_under_200(error: Any, words: str) -> None:
    for api in ("completions", "sglang", "trt"):
        got = stream({"choices": [{"text": "a"}], "text": "a", "text_output": "a"}, error, api=api)
        assert got.outcome is Outcome.STREAM_ERROR
        assert words in got.of("error")
        assert len(got.ticks) == 1
    assert replay([HEAD + json.dumps(error, indent=1).encode()]).outcome is Outcome.STREAM_ERROR


def test_choices_end_one_by_one() -> None:
    def choice(index: int, words: str, finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": index, "text": words, "finish_reason": finish}]}

    assert stream(choice(0, "a", "stop"), done=False, n=2).outcome is Outcome.TRUNCATED
    assert stream(choice(0, "a", "stop"), choice(1, "b"), done=False).outcome is Outcome.TRUNCATED
    assert stream(choice(1, "b", "stop"), choice(0, "a", "stop"), done=False, n=2).outcome is Outcome.OK
    both = {"choices": [{"index": 1, "text": "b", "finish_reason": "abort"}, {"index": 0, "text": "a"}]}
    got = stream(both)
    assert (got.outcome, got.text, len(got.ticks)) == (Outcome.BAD_FINISH, "a", 1)


def test_short_needs_a_count_that_can_be_trusted() -> None:
    assert stream(text("a"), usage(15), ignores_eos=True).outcome is Outcome.SHORT
    assert stream(text("a"), usage(16), ignores_eos=True).outcome is Outcome.OK
    assert stream(text("a"), usage(15)).outcome is Outcome.OK
    assert stream(text("a", "stop"), ignores_eos=True).outcome is Outcome.SHORT
    assert stream(text("a", "stop"), usage(16), ignores_eos=True).outcome is Outcome.OK
    assert stream(text("a", "stop"), usage(15), ignores_eos=True).outcome is Outcome.SHORT
    assert stream(*[text("a")] * 20, text("a", "stop"), ignores_eos=True).outcome is Outcome.SHORT
    assert stream(text("a", "length"), ignores_eos=True).outcome is Outcome.OK


def test_the_answer_is_over_once_all_finish_reasons_came() -> None:
    broken = [HEAD, b"data: " + json.dumps(text("a", "length")).encode() + b"\n\n", b"data: {oops\n\n"]
    assert replay(broken).outcome is Outcome.OK
    assert replay([b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n", *broken[1:2]]).outcome is Outcome.OK


def test_no_token() -> None:
    assert stream().outcome is Outcome.NO_TOKEN
    got = stream(text("", "stop"), usage(0), done=False)
    assert (got.outcome, counted(got)) == (Outcome.NO_TOKEN, (0, TokenSource.USAGE))
    assert replay([HEAD]).outcome is Outcome.NO_TOKEN
    assert replay([HEAD + b": only\n\n"]).outcome is Outcome.NO_TOKEN


def test_a_stream_of_nothing_but_comments_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.wire.exchange.MAX_BODY_BYTES", 1000)
    got = replay([HEAD, *[b": keep-alive\n\n"] * 100])
    assert got.outcome is Outcome.PROTOCOL_ERROR
    assert got.of("error") == "a body of more than 1000 bytes"


def sglang(words: str, count: int, ids: list[int] | None = None, **meta: Any) -> dict[str, Any]:
    event = {"text": words, "meta_info": {"completion_tokens": count, **meta}}
    return event if ids is None else {**event, "output_ids": ids}


def test_sglang_ids_tell_cumulative_from_incremental() -> None:
    got = stream(sglang("a", 1, [5]), sglang("a", 2, [6]), sglang("a", 3, [7], finish_reason="length"), api="sglang")
    assert (got.text, got.ticks) == ("aaa", (1, 2, 3))
    got = stream(sglang("a", 1, [5]), sglang("ab", 3, [5, 6, 7]), sglang("ab", 3, [5, 6, 7]), api="sglang")
    assert (got.text, got.ticks) == ("ab", (1, 3))
    got = stream(sglang("", 1, [5]), sglang("x", 2, [5, 6]), api="sglang")
    assert (got.text, got.ticks) == ("x", (1, 2))


def test_sglang_text_tells_them_apart_without_ids() -> None:
    got = stream(sglang("a", 1), sglang("ab", 2), sglang("ab", 3), sglang("abc", 4), api="sglang")
    assert (got.text, got.ticks) == ("abc", (1, 2, 4))
    got = stream(sglang("a", 1), sglang("b", 2), sglang("", 3), sglang("c", 4), api="sglang")
    assert (got.text, got.ticks) == ("abc", (1, 2, 4))


def test_sglang_finish_reasons() -> None:
    aborted = sglang("a", 1, finish_reason={"type": "abort", "message": "x"})
    assert stream(aborted, api="sglang").outcome is Outcome.BAD_FINISH
    assert stream(sglang("a", 1, finish_reason={"type": "length"}), api="sglang", done=False).outcome is Outcome.OK
    assert stream(sglang("a", 1), api="sglang", done=False).outcome is Outcome.TRUNCATED


def test_trt_ends_with_its_body() -> None:
    assert stream({"text_output": "a"}, api="trt", done=False).outcome is Outcome.OK
    cut = b'HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\ndata: {"text_output": "a"}\n\n'
    assert replay([cut], "trt").outcome is Outcome.TRUNCATED
    assert stream(b'{"text_output": "\\ud83d"}', api="trt").text == "\ud83d"


def whole(value: Any, **how: Any) -> Replayed:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return replay([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body), body], streams=False, **how)


def test_bodies_in_one_piece() -> None:
    message = {
        "choices": [{"message": {"content": "hi"}, "finish_reason": "length"}],
        "usage": {"completion_tokens": 4},
    }
    got = whole(message)
    assert (got.outcome, got.ticks, got.text) == (Outcome.OK, (4,), "hi")
    assert whole({"text_output": "hi"}, api="trt").outcome is Outcome.OK
    assert whole({"choices": []}).outcome is Outcome.NO_TOKEN
    assert whole(b"").outcome is Outcome.NO_TOKEN
    assert whole(b"<html>").outcome is Outcome.PROTOCOL_ERROR
    assert whole(b"data: {}\n\n").outcome is Outcome.PROTOCOL_ERROR
    assert whole({"error": "no"}).outcome is Outcome.STREAM_ERROR
    assert whole(message, ignores_eos=True).outcome is Outcome.SHORT
    assert replay([b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}"], streams=False).outcome is Outcome.TRUNCATED
