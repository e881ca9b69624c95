from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lmtui.config import store
from lmtui.config.model import Config
from lmtui.errors import ConfigError, TargetError
from lmtui.workload import prose
from lmtui.workload.draw import draw
from lmtui.workload.plan import Plan, PlannedRequest, cycled

MakeConfig = Callable[[dict[str, Any]], Config]

SMALL = {"dataset.input_len": 24, "dataset.output_len": 16, "load.num_prompts": 50}


def silent(line: str, share: float | None) -> None: ...


@pytest.fixture
def drawn(make_config: MakeConfig) -> Callable[..., Plan]:
    return lambda keys: draw(make_config({**SMALL, **keys}), silent)


def as_rows(plan: Plan) -> list[tuple[object, ...]]:
    return [
        (one.prompt, one.input_len, one.output_len, one.due_s, one.cancel_after, one.cancel_after_s)
        for one in (*plan.requests, *plan.warmup)
    ]


OPEN = {"load.mode": "open", "load.rate": 5.0, "cancel.rate": 0.4, "dataset.range_ratio": 0.2}


def test_equal_configs_draw_equal_plans_and_seeds_tell_them_apart(drawn: Callable[..., Plan]) -> None:
    assert as_rows(drawn(OPEN)) == as_rows(drawn(OPEN))
    assert as_rows(drawn(OPEN)) != as_rows(drawn({**OPEN, "seed": 1}))


def test_warm_up_does_not_disturb_the_measured_requests(drawn: Callable[..., Plan]) -> None:
    without, many = drawn({**OPEN, "load.warmup_requests": 0}), drawn({**OPEN, "load.warmup_requests": 30})
    assert as_rows(without) == as_rows(many)[: len(without.requests)]
    assert len(many.warmup) == 30
    assert [one.index for one in many.warmup] == list(range(30))
    assert all(one.due_s is None and not one.is_cancel_planned for one in many.warmup)
    assert [one.input_len for one in many.warmup] == [one.input_len for one in many.requests[:30]]


@pytest.mark.parametrize("tokenizer", ["tiny", None])
def test_no_two_prompts_begin_alike(tokenizer: str | None, drawn: Callable[..., Plan], tiny_folder: str) -> None:
    count = 2 * len(prose.words()) + 500
    keys = {"load.num_prompts": count, "load.warmup_requests": 100, "target.tokenizer": tokenizer and tiny_folder}
    plan = drawn(keys)
    texts = sorted(one.prompt.split() if tokenizer is None else _ids(one) for one in (*plan.requests, *plan.warmup))
    shared = [next(k for k, (a, b) in enumerate(zip(*pair, strict=True)) if a != b) for pair in pairwise(texts)]
    assert max(shared) < 16, "the smallest block of a prefix cache"


def test_words_stand_for_tokens_in_the_simulated_engine_only(drawn: Callable[..., Plan]) -> None:
    simulated, server = (
        drawn({"dataset.range_ratio": 0.0}),
        drawn({"dataset.range_ratio": 0.0, "target.kind": "server"}),
    )
    assert [len(one.prompt.split()) for one in simulated.requests] == [one.input_len for one in simulated.requests]
    assert {one.input_len for one in server.requests} == {None}
    assert [one.prompt for one in server.requests] == [one.prompt for one in simulated.requests]
    assert all(one.token_ids is None for one in simulated.requests)
    assert any("a word counts as a token" in note for note in simulated.notes)
    assert any("only when the server counts" in note for note in server.notes)


def test_engines_take_their_models_tokenizer(drawn: Callable[..., Plan], tiny_folder: str, home: Path) -> None:
    named = drawn({"target.kind": "pytorch", "target.model": tiny_folder})
    embedded = drawn({"target.kind": "transformers"})
    assert (home / "cache").is_dir()
    assert as_rows(named) == as_rows(embedded)
    assert {one.input_len for one in named.requests} == {24}
    given = drawn({"target.kind": "server", "target.model": "a-name", "target.tokenizer": tiny_folder})
    assert [one.prompt for one in given.requests] == [one.prompt for one in named.requests]
    with pytest.raises(ConfigError, match=r"target.model is missing"):
        drawn({"target.kind": "turbomind"})


@pytest.mark.parametrize("tokenizer", ["tiny", None])
def test_groups_share_a_prefix(tokenizer: str | None, drawn: Callable[..., Plan], tiny_folder: str) -> None:
    name = tokenizer and tiny_folder
    keys = {"target.tokenizer": name, "dataset.prefix_len": 40, "dataset.prefix_groups": 3}
    plan, bare = drawn(keys), drawn({"target.tokenizer": name})
    assert {one.input_len for one in plan.requests} == {64}

    def shared(one: PlannedRequest, other: PlannedRequest) -> int:
        pieces = [request.prompt.split() if name is None else _ids(request) for request in (one, other)]
        return next(index for index, (a, b) in enumerate(zip(*pieces, strict=True)) if a != b)

    first = plan.requests[0]
    assert [min(shared(first, plan.requests[index]), 40) for index in (3, 6, 9, 12)] == [40] * 4
    assert all(shared(first, plan.requests[index]) < 8 for index in (1, 2, 4, 5))
    assert [one.prompt[-30:] for one in plan.requests] == [one.prompt[-30:] for one in bare.requests]
    assert all(shared(first, one) < 8 for one in plan.warmup), "a warm-up would fill the prefix cache"


def _ids(request: PlannedRequest) -> list[int]:
    assert request.token_ids is not None
    found: list[int] = request.token_ids.tolist()
    return found


def test_random_lengths_need_their_lengths(make_config: MakeConfig) -> None:
    for key in ("dataset.input_len", "dataset.output_len"):
        with pytest.raises(ConfigError, match=f"{key} is missing"):
            draw(make_config({name: value for name, value in SMALL.items() if name != key}), silent)


def test_files_need_a_path(drawn: Callable[..., Plan]) -> None:
    for kind in ("sharegpt", "jsonl", "trace"):
        with pytest.raises(ConfigError, match=r"dataset.path is missing"):
            drawn({"dataset.kind": kind})
    with pytest.raises(ConfigError, match="not built yet"):
        drawn({"dataset.kind": "image"})


def test_sharegpt_without_a_tokenizer_needs_an_output_length(
    drawn: Callable[..., Plan], sharegpt_file: Path, tiny_folder: str
) -> None:
    keys = {"target.kind": "server", "dataset.kind": "sharegpt", "dataset.path": str(sharegpt_file)}
    with pytest.raises(ConfigError, match=r"set target.tokenizer, or dataset.output_len"):
        drawn({**keys, "dataset.output_len": None})
    with pytest.raises(ConfigError, match=r"dataset.output_len = 3 is too small"):
        drawn({**keys, "dataset.output_len": 3})
    plan = drawn(keys)
    assert {(one.input_len, one.output_len) for one in plan.requests} == {(None, 16)}
    assert any("filters count words" in note for note in plan.notes)

    prefixed = drawn({**keys, "target.tokenizer": tiny_folder, "dataset.prefix_len": 20})
    heads = {one.prompt.split("\n")[0] for one in prefixed.requests}
    assert len(heads) == 1
    assert all((one.input_len or 0) > 20 for one in prefixed.requests)


def test_a_duration_repeats_the_prompts_of_an_open_load(drawn: Callable[..., Plan]) -> None:
    once = drawn({**OPEN, "load.num_prompts": 20})
    plan = drawn({**OPEN, "load.num_prompts": 20, "load.duration_s": 12.0})
    due = [one.due_s or 0.0 for one in plan.requests]
    assert [one.index for one in plan.requests] == list(range(len(due)))
    assert due[:20] == [one.due_s for one in once.requests]
    assert due == sorted(due)
    assert 20 < len(due) < 120
    assert due[-1] < 12.0
    for index, one in enumerate(plan.requests):
        assert one.prompt == plan.requests[index % 20].prompt
        assert one.cancel_after == plan.requests[index % 20].cancel_after
    assert any(f"{len(due)} are due" in note for note in plan.notes)


def test_a_duration_repeats_the_plan_of_a_closed_load(drawn: Callable[..., Plan]) -> None:
    plan = drawn({"load.duration_s": 60.0, "load.num_prompts": 3})
    assert len(plan.requests) == 3
    assert any("sent again in turn" in note for note in plan.notes)
    assert cycled(plan, 2) is plan.requests[2]
    again = cycled(plan, 7)
    assert (again.index, again.prompt, again.due_s) == (7, plan.requests[1].prompt, None)


def test_a_cycled_schedule_goes_on_at_its_pace() -> None:
    plan = Plan(tuple(PlannedRequest(index, "p", 1, due_s=2.0 * index) for index in range(4)))
    assert [cycled(plan, index).due_s for index in range(10)] == pytest.approx([2.0 * index for index in range(10)])


def test_at_an_infinite_rate_what_has_no_effect_is_noted(drawn: Callable[..., Plan]) -> None:
    plan = drawn({"load.mode": "open", "load.ramp_s": 5.0, "load.duration_s": 9.0})
    assert {one.due_s for one in plan.requests} == {0.0}
    assert len(plan.requests) == 50
    assert any("load.ramp_s has no effect" in note for note in plan.notes)
    assert any("only ends the run" in note for note in plan.notes)


def test_a_model_without_a_tokenizer_is_the_targets_fault() -> None:
    config, _ = store.resolve("quickstart", ["target.model=/no/such/model"])
    with pytest.raises(TargetError, match=r"target.model = '/no/such/model'.*does not exist"):
        draw(config, silent)


def test_a_warm_up_of_the_plan_is_its_first_requests(drawn: Callable[..., Plan]) -> None:
    plan = drawn({**OPEN, "load.warmup_requests": 3, "load.warmup_prompts": "plan"})
    assert [_same(one) for one in plan.warmup] == [_same(one) for one in plan.requests[:3]]
    assert all(one.due_s is None and not one.is_cancel_planned for one in plan.warmup)
    assert plan.requests[0].prompt == drawn(OPEN).requests[0].prompt


def _same(one: PlannedRequest) -> tuple[str, int, int | None]:
    return one.prompt, one.output_len, one.input_len


def test_one_length_for_all_changes_nothing_else(drawn: Callable[..., Plan]) -> None:
    keys = {**OPEN, "dataset.output_len": 3, "dataset.range_ratio": 0.0, "target.kind": "simulated"}
    plan, same = drawn(keys), drawn({**keys, "request.max_tokens": 17})
    assert {request.output_len for request in same.requests} == {17}
    assert (plan.raised > 0, same.raised) == (True, 0)
    assert [(one.prompt, one.due_s, one.cancel_after) for one in same.requests] == [
        (one.prompt, one.due_s, one.cancel_after) for one in plan.requests
    ]
