"""`--dry-run --json` beside a plain retelling of the scripts that uses the global generators: the same sample."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtui.cli import main
from lmtui.runner import runs
from lmtui.workload import tokenizers
from tests.workload.test_as_the_scripts_draw import seeded, told_random, told_sharegpt, with_cancels

COUNT = 40


@pytest.fixture(autouse=True)
def global_generators_are_restored() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--dry-run", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    plan: dict[str, Any] = json.loads(line)
    return plan


def sampled(plan: dict[str, Any]) -> list[tuple[str, int, int, int | None]]:
    return [(one["prompt"], one["input_len"], one["output_len"], one["cancel_after"]) for one in plan["requests"]]


@pytest.mark.parametrize("seed", [0, 4294967295])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("fixed", [None, 50])
def test_throughput_with_sharegpt(
    fixed: int | None,
    rate: float,
    seed: int,
    sharegpt_file: Path,
    tiny_folder: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seeded(seed)
    expected = with_cancels(told_sharegpt(sharegpt_file, COUNT, tokenizers.load(tiny_folder), fixed), rate)
    length = [] if fixed is None else [f"--sharegpt-output-len={fixed}"]
    plan = planned(
        capsys, "profile-throughput", str(sharegpt_file), tiny_folder, "-n", str(COUNT), f"--seed={seed}",
        f"--cancel-rate={rate}", *length,
    )  # fmt: skip
    assert sampled(plan) == expected


@pytest.mark.parametrize("backend", ["turbomind", "pytorch"])
@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ratio", [None, 0.37, 1.0])
def test_throughput_with_random_lengths(
    ratio: float | None,
    rate: float,
    seed: int,
    backend: str,
    sharegpt_file: Path,
    tiny_folder: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seeded(seed)
    told = told_random(sharegpt_file, COUNT, tokenizers.load(tiny_folder), (90, 6), ratio or 0.0, False)
    expected = [(prompt, asks, max(gets, 1), cut) for prompt, asks, gets, cut in with_cancels(told, rate)]
    share = [] if ratio is None else [f"--random-range-ratio={ratio}"]
    plan = planned(
        capsys, "profile-throughput", str(sharegpt_file), tiny_folder, "-n", str(COUNT), f"--seed={seed}",
        "--dataset-name=random", "--random-input-len=90", "--random-output-len=6", f"--cancel-rate={rate}",
        f"--backend={backend}", *share,
    )  # fmt: skip
    assert sampled(plan) == expected
    assert plan["totals"]["raised"] == sum(gets == 0 for _, _, gets in told)
    assert plan["warmup"] == 0


@pytest.mark.parametrize("command", ["profile-pipeline-api", "benchmark-guided"])
@pytest.mark.parametrize("kind", ["sharegpt", "random"])
def test_pipeline_and_guided(
    command: str, kind: str, sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seeded(3)
    tokenizer = tokenizers.load(tiny_folder)
    arguments = [command, str(sharegpt_file), tiny_folder, "-n", str(COUNT), "--seed=3", f"--dataset-name={kind}"]
    if kind == "sharegpt":
        expected = with_cancels(told_sharegpt(sharegpt_file, COUNT, tokenizer, None), 0)
    else:
        told = told_random(sharegpt_file, COUNT, tokenizer, (90, 6), 0.5, False)
        expected = [(prompt, asks, max(gets, 1), cut) for prompt, asks, gets, cut in with_cancels(told, 0)]
        arguments += ["--random-input-len=90", "--random-output-len=6", "--random-range-ratio=0.5"]
    if command == "benchmark-guided":
        arguments += ["--response-format=json_object", "--no-baseline"]
    plan = planned(capsys, *arguments)
    assert sampled(plan) == expected
    assert {one["due_s"] for one in plan["requests"]} == {0.0}


@pytest.mark.parametrize("seed", [1, 9])
@pytest.mark.parametrize("kind", ["sharegpt", "fixed", "random"])
def test_restful_with_a_rate(
    kind: str, seed: int, sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seeded(seed)
    tokenizer = tokenizers.load(tiny_folder)
    arguments = ["profile-restful-api", f"--dataset-path={sharegpt_file}", f"--tokenizer={tiny_folder}",
                 f"--num-prompts={COUNT}", "--backend=lmdeploy-chat", "--request-rate=12.5",
                 f"--seed={seed}"]  # fmt: skip
    if kind == "random":
        told = told_random(sharegpt_file, COUNT, tokenizer, (90, 6), 0.0, True)
        arguments += ["--dataset-name=random", "--random-input-len=90", "--random-output-len=6"]
    elif kind == "fixed":
        told = told_sharegpt(sharegpt_file, COUNT, tokenizer, 4)
        arguments.append("--sharegpt-output-len=4")
    else:
        told = told_sharegpt(sharegpt_file, COUNT, tokenizer, None)
    waits = [np.random.exponential(1.0 / 12.5) for _ in range(COUNT)]
    plan = planned(capsys, *arguments)
    assert sampled(plan) == [(prompt, asks, gets, None) for prompt, asks, gets in told]
    due = [one["due_s"] for one in plan["requests"]]
    assert due == pytest.approx([sum(waits[:index]) for index in range(COUNT)], rel=1e-12)


@pytest.mark.parametrize("kind", ["sharegpt", "random"])
def test_every_rate_of_multi_has_the_same_prompts_and_waits_on_as_the_generator_goes(
    kind: str, sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seeded(1)
    tokenizer, random_flags = tokenizers.load(tiny_folder), list[str]()
    if kind == "random":
        told = told_random(sharegpt_file, 9, tokenizer, (90, 6), 0.0, True)
        random_flags = ["--dataset-name=random", "--random-input-len=90", "--random-output-len=6"]
    else:
        told = told_sharegpt(sharegpt_file, 9, tokenizer, None)
    waits = {rate: [np.random.exponential(1.0 / rate) for _ in range(9)] for rate in (2, 4, 6)}
    capsys.readouterr()
    code = main(
        ["profile-restful-api", f"--dataset-path={sharegpt_file}", f"--tokenizer={tiny_folder}", "--num-prompts=9",
         "--multi", "--request-rate-range=2,8,2", "--dry-run", "--json", *random_flags]
    )  # fmt: skip
    plans = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert len(plans) == 3
    for plan, waited in zip(plans, waits.values(), strict=True):
        assert sampled(plan) == [(prompt, asks, gets, None) for prompt, asks, gets in told]
        due = [one["due_s"] for one in plan["requests"]]
        assert due == pytest.approx([sum(waited[:index]) for index in range(9)], rel=1e-12)


def test_the_plan_is_shown_as_text_without_json(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile-throughput", str(sharegpt_file), tiny_folder, "-n", "5", "--dry-run"]) == 0
    assert "cancels planned" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        (["json_schema", "--json-schema-path=schema.json"], None, "cannot be read (No such file or directory)"),
        (["json_schema", "--json-schema-path=schema.json"], "{", "cannot be read (Expecting property name"),
        (["json_schema", "--json-schema-path=schema.json"], "[1]", "holds no schema: it must be a JSON object"),
        (["regex_schema", "--regex-schema=[a-z"], None, "is no regular expression (unterminated character set"),
    ],
)
@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_a_broken_schema_is_refused_before_any_plan(
    dry: list[str],
    arguments: list[str],
    text: str | None,
    words: str,
    sharegpt_file: Path,
    tiny_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("schema.json").write_text(text)
    code = main(["benchmark-guided", str(sharegpt_file), tiny_folder, "-n", "4", "--response-format", *arguments, *dry])
    said = capsys.readouterr()
    assert code == 2
    assert said.out == "", "the baseline does not come first"
    assert words in said.err
    assert arguments[1].partition("=")[0] in said.err
    assert "guided." not in said.err
    assert runs.all_runs() == []


@pytest.mark.parametrize("command", ["profile-throughput", "profile-pipeline-api", "benchmark-guided"])
def test_a_sharegpt_file_with_too_few_conversations_gives_what_it_has(
    command: str, sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    guided = ["--response-format=json_object", "--no-baseline"] if command == "benchmark-guided" else []
    plan = planned(capsys, command, str(sharegpt_file), tiny_folder, "-n", "5000", *guided)
    seeded(0)
    expected = told_sharegpt(sharegpt_file, 5000, tokenizers.load(tiny_folder), None)
    assert [one["prompt"] for one in plan["requests"]] == [prompt for prompt, *_ in expected]
    usable = len(expected)
    assert 0 < usable < 400
    note = f"the dataset has {usable} usable conversations of the 5000 asked for: {usable} requests are sent"
    assert note in plan["notes"]


def test_guided_random_lengths_begin_the_file_again(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(sharegpt_file), tiny_folder, "-n", "700", "--dataset-name=random", "--random-input-len=9",
                 "--random-output-len=5", "--random-range-ratio=1"]  # fmt: skip
    guided = ["--response-format=json_object", "--no-baseline"]
    plan = planned(capsys, "benchmark-guided", *arguments, *guided)
    (note,) = [note for note in plan["notes"] if "prompts come again" in note]
    usable = int(note.split()[3])
    prompts = [one["prompt"] for one in plan["requests"]]
    assert len(prompts) == 700
    assert prompts[usable:] == prompts[: 700 - usable]
    assert main(["profile-pipeline-api", *arguments, "--dry-run"]) == 2
    assert "usable conversations" in capsys.readouterr().err
