from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.config.model import Config
from lmtui.errors import ConfigError, DatasetError
from lmtui.workload import records
from lmtui.workload.draw import draw
from lmtui.workload.plan import Plan
from lmtui.workload.show import plan_object

MakeConfig = Callable[[dict[str, Any]], Config]
Draw = Callable[..., Plan]


def silent(line: str, share: float | None) -> None: ...


@pytest.fixture
def draw_lines(tmp_path: Path, make_config: MakeConfig) -> Draw:
    """Draw the plan of a file of these lines (objects or text)."""

    def made(kind: str, lines: list[Any], keys: dict[str, Any] | None = None) -> Plan:
        path = tmp_path / "data.jsonl"
        path.write_text(
            "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8"
        )
        given_keys = {"dataset.kind": kind, "dataset.path": str(path), "load.num_prompts": 2}
        return draw(make_config({**given_keys, **(keys or {})}), silent)

    return made


def test_prompts_and_chats_are_used_in_their_order(draw_lines: Draw) -> None:
    chat = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "say "}, {"type": "text", "text": "hello"}]},
    ]
    lines = [
        {"prompt": "one two three", "output_len": 7, "anything": ["else"]},
        "",
        {"messages": chat, "max_tokens": 5},
        {"prompt": "x", "output_tokens": 0},
        {"prompt": "y z", "completion": "a b c d"},
        {"prompt": "never read", "output_len": "wrong"},
    ]
    plan = draw_lines("jsonl", lines, {"load.num_prompts": 4})
    assert [request.prompt for request in plan.requests] == ["one two three", "be brief\nsay hello", "x", "y z"]
    assert [request.output_len for request in plan.requests] == [7, 5, 1, 4]
    assert [request.input_len for request in plan.requests] == [3, 4, 1, 2]
    assert plan.raised == 1
    assert plan.requests[0].messages is None
    assert plan.requests[1].messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "say hello"},
    )
    assert any("chats are sent" in note for note in plan.notes)
    assert all(request.due_s is None for request in plan.requests)


def test_a_fixed_output_length_wins(draw_lines: Draw) -> None:
    plan = draw_lines("jsonl", [{"prompt": "a", "output_len": 7}, {"prompt": "b"}], {"dataset.output_len": 30})
    assert [request.output_len for request in plan.requests] == [30, 30]
    note = "dataset.output_len = 30 is asked for in place of the output length that 1 of 2 lines have"
    assert any(told.startswith(note) for told in plan.notes)
    plan = draw_lines("jsonl", [{"prompt": "a", "output_len": 30}, {"prompt": "b"}], {"dataset.output_len": 30})
    assert not any("in place of" in told for told in plan.notes)


def test_a_fixed_output_length_is_noted_with_a_trace(draw_lines: Draw) -> None:
    lines = [{"timestamp": 0, "input_length": 4, "output_length": 3}] * 2
    plan = draw_lines("trace", lines, {"load.mode": "trace", "dataset.output_len": 30})
    assert [request.output_len for request in plan.requests] == [30, 30]
    assert any("the output length that 2 of 2 lines have" in told for told in plan.notes)
    plan = draw_lines("trace", lines, {"load.mode": "trace"})
    assert not any("in place of" in told for told in plan.notes)


SERVER = {"target.kind": "server", "target.base_url": "http://127.0.0.1:1", "target.model": "base"}


def named(model: Any, **more: Any) -> dict[str, Any]:
    return {"prompt": "some words", "output_len": 3, "model": model, **more}


def test_a_line_names_its_own_model(draw_lines: Draw) -> None:
    lines = [named("lora-b"), {"prompt": "x", "output_len": 3}, named("lora-a"), named("lora-b")]
    plan = draw_lines("jsonl", lines, {**SERVER, "load.num_prompts": 4, "load.warmup_requests": 3})
    assert [request.model for request in plan.requests] == ["lora-b", None, "lora-a", "lora-b"]
    assert plan.requests[0].model is plan.requests[3].model  # one text, however many lines have it
    assert [request.model for request in plan.warmup] == ["lora-b", None, "lora-a"]
    assert any(note == "3 of 4 lines name their own model, which is asked for: lora-a, lora-b" for note in plan.notes)
    shown = plan_object(plan)["requests"]
    assert isinstance(shown, list)
    assert [request.get("model", "unset") for request in shown] == ["lora-b", "unset", "lora-a", "lora-b"]
    plan = draw_lines("jsonl", [{"prompt": "x", "output_len": 3}] * 2, SERVER)
    assert not any("model" in note for note in plan.notes)
    many = [named(f"lora-{place}") for place in range(10)]
    notes = draw_lines("jsonl", many, {**SERVER, "load.num_prompts": 10}).notes
    assert any(note.endswith("lora-6, lora-7, …") for note in notes)


def test_a_model_stays_with_its_request(draw_lines: Draw) -> None:
    warm = {**SERVER, "load.warmup_requests": 1, "load.warmup_prompts": "plan"}
    assert draw_lines("jsonl", [named("a"), named("b")], warm).warmup[0].model == "a"
    opened = {**SERVER, "load.mode": "open", "load.rate": 100.0, "load.duration_s": 0.1}
    plan = draw_lines("jsonl", [named("a"), named("b")], opened)
    assert len(plan.requests) > 2
    assert [request.model for request in plan.requests] == ["ab"[place % 2] for place in range(len(plan.requests))]
    lines = [named("late", timestamp=2000), named("early", timestamp=1000)]
    plan = draw_lines("trace", lines, {**SERVER, "load.mode": "trace"})
    assert [request.model for request in plan.requests] == ["early", "late"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"target.kind": "simulated"}, "it names a 'model', and target.kind = 'simulated' runs one model"),
        ({**SERVER, "target.api": "sglang"}, "a request of target.api = 'sglang' names none"),
        ({**SERVER, "target.api": "trt"}, "a request of target.api = 'trt' names none"),
        ({**SERVER, "target.extra_body": {"model": "c"}}, r"target\.extra_body\.model is put over it"),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "trace"])
def test_a_model_that_cannot_be_asked_for_is_refused(
    kind: str, keys: dict[str, Any], says: str, draw_lines: Draw
) -> None:
    lines = [{"prompt": "x", "output_len": 3, "timestamp": 0}, named("a", timestamp=1)]
    mode = {"load.mode": "trace"} if kind == "trace" else {}
    with pytest.raises(DatasetError, match=says) as caught:
        draw_lines(kind, lines, {**keys, **mode})
    assert str(caught.value).startswith("Line 2 of the dataset ")
    assert "\n" not in str(caught.value)
    lines[1].pop("model")
    assert len(draw_lines(kind, lines, {**keys, **mode}).requests) == 2


@pytest.mark.parametrize(("model", "says"), [(" ", "'model' is empty"), (5, "'model' must be text")])
def test_a_model_is_a_name(model: Any, says: str, draw_lines: Draw) -> None:
    with pytest.raises(DatasetError, match=says):
        draw_lines("jsonl", [named(model)] * 2, SERVER)


def test_prefixes_precede_prompts(draw_lines: Draw) -> None:
    lines = [{"prompt": "alpha", "max_tokens": 5}, {"prompt": "beta", "max_tokens": 5}]
    plan = draw_lines("jsonl", lines, {"dataset.prefix_len": 6})
    first, second = (request.prompt.split("\n") for request in plan.requests)
    assert first[0] == second[0]
    assert len(first[0].split()) == 6
    assert [first[1], second[1]] == ["alpha", "beta"]
    assert not any("prefix_len has no effect" in note for note in plan.notes)
    chats = [{"messages": [{"role": "user", "content": "alpha"}], "max_tokens": 5}] * 2
    plan = draw_lines("jsonl", chats, {"dataset.prefix_len": 6})
    assert [request.prompt for request in plan.requests] == ["alpha"] * 2
    assert any("prefix_len has no effect" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"prompt": ', r"it is not JSON \(Input data was truncated\)"),
        ('{"prompt": x}', r"it is not JSON \(.*byte 11"),
        ("[1, 2]", "it must be an object, and it is a list"),
        ({"prompt": 5, "output_len": 3}, r"'prompt' must be text, and it is a whole number\.$"),
        ({"prompt": "a", "output_len": -1}, "'output_len' must be a whole number of at least 0"),
        ({"prompt": "a", "output_len": 1 << 40}, "'output_len' must be a whole number of at most 16777216"),
        ({"prompt": "a", "output_len": 2.5}, "'output_len' must be a whole number, and it is a number"),
        ({"prompt": "a"}, "does not say how many tokens to ask for"),
        ({"output_len": 3}, "neither 'prompt' nor 'messages'"),
        ({"prompt": " ", "output_len": 3}, "'prompt' is empty"),
        ({"messages": [], "output_len": 3}, "'messages' is empty"),
        ({"messages": [{"role": "user", "content": ""}], "output_len": 3}, "'messages' has no text"),
        ({"messages": [{"role": "user"}], "output_len": 3}, r"'messages\[0\]' has no 'content'"),
        ({"messages": [{"role": "u", "content": [{"type": "image_url"}]}], "output_len": 3}, "type 'image_url'"),
    ],
)
def test_a_bad_line_is_told_with_its_number(line: Any, says: str, draw_lines: Draw, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=says) as caught:
        draw_lines("jsonl", [{"prompt": "fine", "output_len": 3}, "", line])
    assert str(caught.value).startswith(f"Line 3 of the dataset '{tmp_path / 'data.jsonl'}' cannot be used: ")


def test_too_few_lines_are_told(draw_lines: Draw) -> None:
    with pytest.raises(DatasetError, match=r"has 1 requests, .* asks for 2: set load.num_prompts to 1 or less"):
        draw_lines("jsonl", [{"prompt": "a", "output_len": 3}])
    with pytest.raises(DatasetError, match="has 0 requests"):
        draw_lines("jsonl", [])


def test_an_endless_line_is_told(draw_lines: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LONGEST_LINE", 100)
    with pytest.raises(DatasetError, match=r"Line 1 .* long"):
        draw_lines("jsonl", [{"prompt": "a" * 200, "output_len": 3}])


def test_a_completion_needs_a_tokenizer_at_a_server(draw_lines: Draw, tiny_folder: str) -> None:
    lines = [{"prompt": "a b c", "completion": "d e f"}] * 2
    with pytest.raises(ConfigError, match=r"Line 1 .* target.tokenizer, or dataset.output_len"):
        draw_lines("jsonl", lines, {"target.kind": "server"})
    plan = draw_lines("jsonl", lines, {"target.kind": "server", "target.tokenizer": tiny_folder})
    assert plan.requests[0].token_ids is not None
    assert plan.requests[0].input_len == len(plan.requests[0].token_ids)


def test_a_mooncake_trace_is_replayed(draw_lines: Draw) -> None:
    lines = [
        {"timestamp": 5000, "input_length": 1200, "output_length": 52, "hash_ids": [46, 47, 48]},
        {"timestamp": 8052, "input_length": 700, "output_length": 26, "hash_ids": [46, 99]},
        {"timestamp": 6500, "input_length": 30, "output_length": 0, "hash_ids": [7]},
    ]
    plan = draw_lines("trace", lines, {"load.mode": "trace", "load.num_prompts": 10})
    assert [request.due_s for request in plan.requests] == pytest.approx([0.0, 1.5, 3.052])
    assert [request.input_len for request in plan.requests] == [1200, 30, 700]
    assert [request.output_len for request in plan.requests] == [52, 1, 26]
    assert [request.index for request in plan.requests] == [0, 1, 2]
    first, second = (plan.requests[index].prompt.split() for index in (0, 2))
    assert first[:512] == second[:512], "a shared hash id is shared text"
    assert first[512:700] != second[512:700]
    assert plan.requests[1].prompt.split()[0:3] != first[0:3]
    for part in ("3 requests, fewer than", "read as milliseconds", "not in the order", "text that ships"):
        assert any(part in note for note in plan.notes), part


def test_times_with_fractions_are_seconds(draw_lines: Draw) -> None:
    lines = [{"timestamp": 1.5, "prompt": "a", "output_len": 3}, {"timestamp": 4, "prompt": "b", "output_len": 3}]
    plan = draw_lines("trace", lines, {"load.mode": "trace"})
    assert [request.due_s for request in plan.requests] == [0.0, 2.5]
    assert any("read as seconds" in note for note in plan.notes)


def test_units_can_be_named(draw_lines: Draw) -> None:
    lines = [
        {"timestamp_s": 3, "prompt": "a", "output_len": 3},
        {"timestamp_ms": 4250.0, "messages": [{"role": "user", "content": "b"}], "output_len": 3},
    ]
    plan = draw_lines("trace", lines, {"load.mode": "trace"})
    assert [request.due_s for request in plan.requests] == [0.0, 1.25]
    assert plan.requests[1].messages is not None


def test_a_trace_can_run_at_another_pace(draw_lines: Draw) -> None:
    lines = [{"timestamp": 0, "input_length": 4, "output_length": 3}] * 2
    assert [one.due_s for one in draw_lines("trace", lines).requests] == [None, None]
    steady = draw_lines("trace", lines, {"load.mode": "open", "load.rate": 4.0, "load.arrival": "constant"})
    assert [one.due_s for one in steady.requests] == [0.0, 0.25]
    assert steady.requests[0].prompt != steady.requests[1].prompt


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"input_length": 3, "output_length": 3}, "no 'timestamp'"),
        ({"timestamp": -1, "input_length": 3, "output_length": 3}, "'timestamp' is -1"),
        ({"timestamp": 1, "output_length": 3}, "no 'input_length'"),
        (
            {"timestamp": 1, "input_length": 0, "output_length": 3},
            "'input_length' must be a whole number of at least 1",
        ),
        ({"timestamp": 1, "input_length": 3}, "does not say how many tokens"),
        ('{"timestamp": 1e999, "prompt": "a", "output_len": 3}', "out of range"),
    ],
)
def test_a_bad_trace_line_is_told(line: Any, says: str, draw_lines: Draw) -> None:
    with pytest.raises(DatasetError, match=says):
        draw_lines("trace", [line])


def test_the_mode_trace_needs_times(draw_lines: Draw) -> None:
    with pytest.raises(ConfigError, match=r"needs dataset.kind = 'trace'"):
        draw_lines("jsonl", [{"prompt": "a", "output_len": 3}] * 2, {"load.mode": "trace"})
    with pytest.raises(DatasetError, match="has no request"):
        draw_lines("trace", [], {"load.mode": "trace"})


inner = st.none() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=3)
chats = st.lists(st.dictionaries(st.sampled_from(["role", "content"]), inner, max_size=2), max_size=2)
keys = st.sampled_from(
    ["prompt", "messages", "output_len", "completion", "timestamp", "timestamp_s", "input_length", "hash_ids"]
)
sane = st.fixed_dictionaries({"prompt": st.just("a b"), "output_len": st.just(4), "timestamp": st.just(5)})
objects = st.dictionaries(keys, inner | chats, max_size=6) | sane


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(objects.map(json.dumps).map(str.encode) | st.binary(max_size=30), max_size=3).map(b"\n".join),
    kind=st.sampled_from(["jsonl", "trace"]),
)
def test_no_file_is_a_traceback(data: bytes, kind: str, tmp_path: Path, make_config: MakeConfig) -> None:
    path = tmp_path / "fuzz.jsonl"
    path.write_bytes(data)
    config = make_config({"dataset.kind": kind, "dataset.path": str(path), "load.num_prompts": 1})
    try:
        plan = draw(config, silent)
    except DatasetError as error:
        fault = str(error)
    else:
        assert len(plan.requests) == 1
        return
    assert str(path) in fault
