"""The plan beside a plain retelling of LMDeploy's scripts that uses the global generators, request by request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtui.config.model import Config
from lmtui.workload import tokenizers
from lmtui.workload.draw import draw
from lmtui.workload.plan import Plan
from lmtui.workload.tokenizers import Tokenizer

MakeConfig = Callable[[dict[str, Any]], Config]
Expected = tuple[str, int, int, "int | None"]
COUNT = 40


@pytest.fixture(autouse=True)
def global_generators_are_restored() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)


def silent(line: str, share: float | None) -> None: ...


def pairs_of(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8") as file:
        everything = json.load(file)
    chats = [one["conversations"] for one in everything]
    return [(chat[0]["value"], chat[1]["value"]) for chat in chats if len(chat) > 1]


def told_sharegpt(path: Path, count: int, tokenizer: Tokenizer, fixed: int | None) -> list[tuple[str, int, int]]:
    pairs = pairs_of(path)
    random.shuffle(pairs)
    kept: list[tuple[str, int, int]] = []
    while pairs and len(kept) < count:
        question, answer = pairs.pop(0)
        asks = len(tokenizer.encode(question))
        gets = fixed if fixed is not None else len(tokenizer.encode(answer))
        is_long = asks > 1024 or (fixed is None and asks + gets > 2048)
        if asks >= 4 and gets >= 4 and not is_long:
            kept.append((question, asks, gets))
    return kept


def told_random(
    path: Path, count: int, tokenizer: Tokenizer, lengths: tuple[int, int], ratio: float, is_server: bool
) -> list[tuple[str, int, int]]:
    asked, answered = lengths
    asks = np.random.randint(max(int(asked * ratio), 1), asked + 1, size=count)
    low = max(int(answered * ratio), 1) if is_server else int(answered * ratio)
    gets = np.random.randint(low, answered + 1, size=count)
    pairs = [pair for pair in pairs_of(path) if pair[0]]
    random.shuffle(pairs)
    told = []
    for index in range(count):
        ids = tokenizer.encode(pairs[index][0])
        while len(ids) < asks[index]:
            ids = ids + ids
        told.append((tokenizer.decode(ids[: asks[index]]), int(asks[index]), int(gets[index])))
    return told


def with_cancels(told: list[tuple[str, int, int]], rate: float) -> list[Expected]:
    result: list[Expected] = []
    for prompt, asks, gets in told:
        cut = None
        if rate > 0 and random.random() < rate:
            cut = random.randint(0, gets + 1)
        result.append((prompt, asks, gets, cut))
    return result


def seeded(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)


def drawn(plan: Plan) -> list[Expected]:
    assert [request.index for request in plan.requests] == list(range(len(plan.requests)))
    return [(one.prompt, one.input_len or 0, one.output_len, one.cancel_after) for one in plan.requests]


@pytest.mark.parametrize("seed", [0, 4294967295])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("fixed", [None, 50])
@pytest.mark.parametrize("kind", ["pytorch", "server"])
def test_sharegpt(
    kind: str, fixed: int | None, rate: float, seed: int, sharegpt_file: Path, tiny_folder: str, make_config: MakeConfig
) -> None:
    tokenizer = tokenizers.load(tiny_folder)
    seeded(seed)
    expected = with_cancels(told_sharegpt(sharegpt_file, COUNT, tokenizer, fixed), rate)
    config = make_config(
        {
            "seed": seed,
            "target.kind": kind,
            "target.tokenizer": tiny_folder,
            "dataset.kind": "sharegpt",
            "dataset.path": str(sharegpt_file),
            "dataset.output_len": fixed,
            "load.num_prompts": COUNT,
            "cancel.rate": rate,
        }
    )
    plan = draw(config, silent)
    assert len(expected) == COUNT
    assert drawn(plan) == expected
    for request in plan.requests:
        assert request.token_ids is not None
        assert request.token_ids.tolist() == tokenizer.encode(request.prompt)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ratio", [0.0, 0.37, 1.0])
@pytest.mark.parametrize("kind", ["turbomind", "pipeline", "server"])
def test_random(
    kind: str, ratio: float, rate: float, seed: int, sharegpt_file: Path, tiny_folder: str, make_config: MakeConfig
) -> None:
    tokenizer = tokenizers.load(tiny_folder)
    seeded(seed)
    told = told_random(sharegpt_file, COUNT, tokenizer, (90, 6), ratio, kind == "server")
    expected = [(prompt, asks, max(gets, 1), cut) for prompt, asks, gets, cut in with_cancels(told, rate)]
    config = make_config(
        {
            "seed": seed,
            "target.kind": kind,
            "target.tokenizer": tiny_folder,
            "dataset.kind": "random",
            "dataset.path": str(sharegpt_file),
            "dataset.input_len": 90,
            "dataset.output_len": 6,
            "dataset.range_ratio": ratio,
            "load.num_prompts": COUNT,
            "cancel.rate": rate,
        }
    )
    plan = draw(config, silent)
    assert drawn(plan) == expected
    assert plan.raised == sum(gets == 0 for _, _, gets in told)
    if ratio == 0:
        assert (plan.raised == 0) == (kind == "server"), "only the engines' scripts can draw an output length of 0"
    for request in plan.requests:
        assert request.token_ids is not None
        assert request.token_ids.dtype == np.int32
        assert tokenizer.decode(request.token_ids.tolist()) == request.prompt


def test_special_tokens_count_and_stay_in_the_text(
    sharegpt_file: Path, tiny_folder: str, tmp_path: Path, make_config: MakeConfig
) -> None:
    """As with Llama, whose encode puts a BOS first: it is one of the tokens, and decode writes it out."""
    from tokenizers import Tokenizer as Backend
    from tokenizers.processors import TemplateProcessing

    folder = tmp_path / "with-bos"
    folder.mkdir()
    backend = Backend.from_file(f"{tiny_folder}/tokenizer.json")
    backend.post_processor = TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_bytes(Path(tiny_folder, "tokenizer_config.json").read_bytes())

    tokenizer = tokenizers.load(str(folder))
    seeded(3)
    expected = with_cancels(told_random(sharegpt_file, COUNT, tokenizer, (30, 20), 0.0, True), 0.5)
    keys: dict[str, Any] = {
        "seed": 3,
        "target.kind": "server",
        "target.tokenizer": str(folder),
        "dataset.path": str(sharegpt_file),
        "dataset.input_len": 30,
        "dataset.output_len": 20,
        "dataset.range_ratio": 0.0,
        "load.num_prompts": COUNT,
        "cancel.rate": 0.5,
    }
    plan = draw(make_config(keys), silent)
    assert drawn(plan) == expected
    assert all(request.prompt.startswith("<|begin|>") for request in plan.requests)

    of_text = draw(make_config({**keys, "dataset.path": None}), silent)
    for request in of_text.requests:
        assert request.token_ids is not None
        assert request.input_len == len(request.token_ids)
        assert np.count_nonzero(request.token_ids == 0) == (request.input_len > 1)

    grouped = draw(make_config({**keys, "dataset.prefix_len": 12}), silent)
    for request, (_, asks, _, _) in zip(grouped.requests, expected, strict=True):
        assert request.token_ids is not None
        assert request.input_len == 12 + asks
        assert request.token_ids[0] == 0
        assert np.count_nonzero(request.token_ids == 0) == 1, "no second BOS between prefix and text"


@pytest.mark.parametrize("kind", ["random", "sharegpt"])
def test_arrival_gaps_continue_after_the_dataset(
    kind: str, sharegpt_file: Path, tiny_folder: str, make_config: MakeConfig
) -> None:
    tokenizer = tokenizers.load(tiny_folder)
    seeded(5)
    if kind == "random":
        told_random(sharegpt_file, COUNT, tokenizer, (90, 6), 0.2, True)
    waits = [np.random.exponential(1.0 / 12.5) for _ in range(COUNT)]
    config = make_config(
        {
            "seed": 5,
            "target.kind": "server",
            "target.tokenizer": tiny_folder,
            "dataset.kind": kind,
            "dataset.path": str(sharegpt_file),
            "dataset.input_len": 90,
            "dataset.output_len": 6,
            "dataset.range_ratio": 0.2,
            "load.num_prompts": COUNT,
            "load.mode": "open",
            "load.rate": 12.5,
            "cancel.rate": 0.4,
        }
    )
    due = [request.due_s for request in draw(config, silent).requests]
    assert due == pytest.approx([sum(waits[:index]) for index in range(COUNT)], rel=1e-12)
    assert due[0] == 0


def test_the_global_generators_are_left_alone(make_config: MakeConfig) -> None:
    seeded(9)
    draw(make_config({"dataset.input_len": 20, "dataset.output_len": 5, "cancel.rate": 0.5}), silent)
    after = (random.random(), np.random.random())
    seeded(9)
    assert after == (random.random(), np.random.random())
