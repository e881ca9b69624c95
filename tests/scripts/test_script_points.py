"""Flags → configs: each script's own defaults, what the engine of a backend is given, and what is refused."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import pytest

from lmtui.config.document import Document
from lmtui.config.script_flags import SCRIPTS
from lmtui.errors import ConfigError
from lmtui.scripts import points as pointing
from lmtui.scripts import server
from lmtui.scripts.parser import fill
from lmtui.scripts.points import Point


def parsed(command: str, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=command)
    fill(parser, SCRIPTS[command])
    return parser.parse_args(arguments, argparse.Namespace(script=command))


def made(command: str, *arguments: str) -> tuple[list[Point], list[str]]:
    options = parsed(command, *arguments)
    url = server.base_url(options) if command == "profile-restful-api" else None
    return pointing.points(options, url)


def only(command: str, *arguments: str) -> dict[str, Any]:
    (point,), _ = made(command, *arguments)
    return pointing.planned(point).flat()


def picked(flat: dict[str, Any], *keys: str) -> list[Any]:
    return [flat[key] for key in keys]


def test_throughput_keeps_the_scripts_defaults() -> None:
    flat = only("profile-throughput", "data.json", "model")
    assert picked(flat, "target.kind", "target.model", "dataset.kind", "dataset.path") == [
        "turbomind",
        "model",
        "sharegpt",
        "data.json",
    ]
    assert picked(flat, "load.mode", "load.concurrency", "load.num_prompts", "load.warmup_requests", "seed") == [
        "closed",
        256,
        5000,
        0,
        0,
    ]
    assert picked(flat, "request.temperature", "request.top_p", "request.top_k") == [0.8, 0.8, 1]
    assert picked(flat, "request.stream", "request.ignore_eos", "request.uvloop") == [True, True, False]
    assert picked(flat, "target.model_format", "target.max_batch_size", "target.disable_metrics") == ["hf", None, False]
    assert picked(flat, "cancel.rate", "cancel.when") == [0.0, "tokens_uniform"]


def test_pipeline_sends_everything_at_once_and_streams_only_when_asked() -> None:
    flat = only("profile-pipeline-api", "data.json", "model", "--backend=pytorch", "-c", "8")
    assert picked(flat, "target.kind", "target.backend", "load.mode", "load.rate", "load.concurrency") == [
        "pipeline",
        "pytorch",
        "open",
        "inf",
        8,
    ]
    assert picked(flat, "request.stream", "target.disable_metrics", "target.log_level") == [False, True, "WARNING"]
    assert flat["target.model_format"] is None, "the script gives it to TurboMind alone"
    assert only("profile-pipeline-api", "data.json", "model", "--stream-output")["request.stream"] is True


def test_restful_keeps_the_scripts_defaults() -> None:
    flat = only("profile-restful-api", "--tokenizer=t", "--dataset-path=d.json")
    assert picked(flat, "target.kind", "target.api", "target.preset", "target.base_url") == [
        "server",
        "sglang",
        "sglang",
        "http://0.0.0.0:30000",
    ]
    assert picked(flat, "load.mode", "load.rate", "load.num_prompts", "load.warmup_requests", "seed") == [
        "open",
        "inf",
        1000,
        1,
        1,
    ]
    assert flat["target.ready_timeout_s"] == 5, "the script does not wait at all"
    assert picked(flat, "target.timeout_s", "target.idle_timeout_s") == [21600, 21600]
    assert picked(flat, "load.warmup_prompts", "load.warmup_pause_s") == ["plan", 1.5]
    assert picked(flat, "request.temperature", "request.ignore_eos", "request.stream") == [0.0, True, True]
    assert flat["target.extra_body"] == {}


@pytest.mark.parametrize(
    ("backend", "api", "port"),
    [
        ("sglang-native", "sglang", 30000),
        ("sglang-oai", "completions", 30000),
        ("sglang-oai-chat", "chat", 30000),
        ("vllm", "completions", 8000),
        ("vllm-chat", "chat", 8000),
        ("lmdeploy", "completions", 23333),
        ("lmdeploy-chat", "chat", 23333),
        ("trt", "trt", 8000),
    ],
)
def test_a_backend_is_an_api_and_a_port(backend: str, api: str, port: int) -> None:
    arguments = [f"--backend={backend}", "--model=m", "--dataset-path=d.json"]
    flat = only("profile-restful-api", *arguments)
    assert picked(flat, "target.api", "target.base_url") == [api, f"http://0.0.0.0:{port}"]
    assert flat["target.extra_body"] == ({"best_of": 1} if api == "completions" else {})
    assert flat["request.temperature"] == (1e-6 if api == "trt" else 0.0)
    assert flat["target.api_key_env"] == ("OPENAI_API_KEY" if api in ("completions", "chat") else "")
    assert flat["request.top_p"] == (1.0 if api == "trt" else None)
    assert only("profile-restful-api", *arguments, "--host=h", "--port=1")["target.base_url"] == "http://h:1"
    given = only("profile-restful-api", *arguments, "--host=h", "--base-url=https://far/prefix/v1/")
    assert given["target.base_url"] == "https://far/prefix"


def test_no_warmup_tells_of_the_probe() -> None:
    arguments = ["--tokenizer=t", "--dataset-path=d.json"]
    assert pointing.PROBED in made("profile-restful-api", *arguments, "--disable-warmup")[1]
    assert pointing.PROBED not in made("profile-restful-api", *arguments)[1]


def test_the_field_that_the_script_has_not_is_told() -> None:
    arguments = ["--tokenizer=t", "--dataset-path=d.json", "--backend"]
    assert pointing.COUNTED in made("profile-restful-api", *arguments, "vllm-chat")[1]
    assert pointing.COUNTED not in made("profile-restful-api", *arguments, "vllm-chat", "--disable-stream")[1]
    assert pointing.COUNTED not in made("profile-restful-api", *arguments, "sglang")[1]


def test_restful_switches() -> None:
    flat = only(
        "profile-restful-api", "--backend=vllm", "--dataset-path=d.json", "--disable-stream", "--disable-ignore-eos",
        "--disable-warmup", '--extra-request-body={"min_p": 0.1, "best_of": 2}', "--trust-remote-code",
        "--sharegpt-output-len=9",
    )  # fmt: skip
    assert picked(flat, "request.stream", "request.ignore_eos", "load.warmup_requests") == [False, False, 0]
    assert flat["target.extra_body"] == {"best_of": 2, "min_p": 0.1}
    assert picked(flat, "target.trust_remote_code", "dataset.output_len") == [True, 9]


@pytest.mark.parametrize("backend", ["lmdeploy", "lmdeploy-chat", "sglang", "trt"])
def test_the_extra_body_overrules_what_the_plan_says(backend: str) -> None:
    lengths: dict[str, dict[str, Any]] = {
        "sglang": {"sampling_params": {"max_new_tokens": 7, "min_p": 0.5}},
        "lmdeploy-chat": {"max_completion_tokens": 7},
    }
    body = json.dumps({"model": "other", "stream": False, "seed": 3, **lengths.get(backend, {"max_tokens": 7})})
    (point,), notes = made(
        "profile-restful-api",
        f"--backend={backend}",
        "--dataset-path=d.json",
        "--model=m",
        f"--extra-request-body={body}",
    )
    flat = pointing.planned(point).flat()
    assert picked(flat, "target.model", "request.stream", "request.max_tokens") == ["other", False, 7]
    left: dict[str, dict[str, Any]] = {"sglang": {"sampling_params": {"min_p": 0.5}}, "lmdeploy": {"best_of": 1}}
    assert flat["target.extra_body"] == {"seed": 3, **left.get(backend, {})}
    assert sum(note.startswith("--extra-request-body sets ") for note in notes) == 3
    assert pointing.COUNTED not in notes, "no stream, no stream_options"


@pytest.mark.parametrize("field", ["prompt", "messages", "text", "text_input", "input_ids"])
def test_the_extra_body_holds_no_prompt(field: str) -> None:
    (point,), _ = made("profile-restful-api", "--dataset-path=d.json", f'--extra-request-body={{"{field}": "x"}}')
    with pytest.raises(ConfigError, match=f'must not hold "{field}"'):
        pointing.planned(point)


def test_engine_flags_go_to_the_engine_that_the_script_gives_them_to() -> None:
    arguments = ["data.json", "model", "--tp=2", "--communicator=cuda-ipc", "--eager-mode", "--quant-policy=int8",
                 "--async=0", "--dllm-block-length=4"]  # fmt: skip
    (turbomind,), notes = made("profile-throughput", *arguments)
    assert notes == [
        "--eager-mode is not used with --backend turbomind, as in the script.",
        "--dllm-block-length is not used with --backend turbomind, as in the script.",
    ]
    flat = pointing.planned(turbomind).flat()
    assert picked(flat, "target.tp", "target.communicator", "target.quant_policy", "target.async") == [
        2, "cuda-ipc", 8, 0,
    ]  # fmt: skip
    (pytorch,), notes = made("profile-throughput", *arguments, "--backend=pytorch")
    assert notes == [
        "--communicator is not used with --backend pytorch, as in the script.",
        "--async is not used with --backend pytorch, as in the script.",
    ]
    flat = pointing.planned(pytorch).flat()
    assert picked(flat, "target.tp", "target.eager_mode", "target.quant_policy", "target.dllm_block_length") == [
        2, True, 8, 4,
    ]  # fmt: skip
    _, notes = made("profile-pipeline-api", "data.json", "model", "--backend=pytorch", "--quant-policy=8")
    assert notes == ["--quant-policy is not used with --backend pytorch, as in the script."]


@pytest.mark.parametrize(
    ("word", "level"),
    [("FATAL", "CRITICAL"), ("WARN", "WARNING"), ("NOTSET", "DEBUG"), ("REQUEST", "DEBUG"), ("INFO", "INFO")],
)
def test_log_levels(word: str, level: str) -> None:
    assert only("profile-pipeline-api", "data.json", "model", f"--log-level={word}")["target.log_level"] == level


def test_guided_runs_the_same_plan_twice() -> None:
    arguments = ["data.json", "model", "--response-format=regex_schema", "--regex-schema=[a-z]+"]
    (baseline, guided), _ = made("benchmark-guided", *arguments)
    without, with_ = pointing.planned(baseline).flat(), pointing.planned(guided).flat()
    assert picked(without, "guided.response_format", "guided.regex", "load.num_prompts") == ["none", None, 1000]
    assert picked(with_, "guided.response_format", "guided.regex", "guided.baseline") == [
        "regex_schema", "[a-z]+", False,
    ]  # fmt: skip
    differing = {key for key in without if without[key] != with_[key]}
    assert differing == {"name", "guided.response_format", "guided.regex", "guided.baseline"}
    assert without["request.ignore_eos"] is False, "natural stops, unless --ignore-eos"
    (alone,), _ = made("benchmark-guided", *arguments, "--no-baseline", "--ignore-eos")
    assert alone.label == "guided"
    assert pointing.planned(alone).request.ignore_eos is True


def test_a_schema_that_the_format_does_not_use_is_told() -> None:
    arguments = ["data.json", "model", "--regex-schema=[a-z]+", "--json-schema-path=x.json", "--response-format"]
    unused = "is not used with --response-format"
    assert made("benchmark-guided", *arguments, "json_schema")[1] == [
        f"--regex-schema {unused} json_schema, as in the script."
    ]
    assert len(made("benchmark-guided", *arguments, "json_object")[1]) == 2


def test_multi_is_one_run_for_each_rate() -> None:
    points, _ = made("profile-restful-api", "--dataset-path=d.json", "--multi", "--request-rate-range=1,2,4,8")
    assert [point.rate for point in points] == [1, 2, 4, 8]
    assert [pointing.planned(point).load.rate for point in points] == [1.0, 2.0, 4.0, 8.0]
    (single,), _ = made("profile-restful-api", "--dataset-path=d.json", "--request-rate-range=1,2,4,8")
    assert single.rate == math.inf


@pytest.mark.parametrize(
    ("text", "rates"),
    [("2,34,2", list(range(2, 34, 2))), ("2,3,1", [2]), ("5", [5]), ("1,2", [1, 2]), ("1,2,4,8", [1, 2, 4, 8])],
)
def test_three_rates_are_a_range_and_others_a_list(text: str, rates: list[int]) -> None:
    assert pointing.rates(text) == rates


@pytest.mark.parametrize("text", ["", "1,x", "2,34,0", "8,2,1", "0,3,1", "-1", "1.5"])
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="--request-rate-range"):
        pointing.rates(text)


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("profile-throughput", ["--random-input-len=5"], "--random-input-len 5 does not go with"),
        ("profile-throughput", ["--random-output-len=5"], "--dataset-name random"),
        ("profile-throughput", ["--sharegpt-output-len=3"], "too small: give 4 or more"),
        ("profile-throughput", ["--dataset-name=random"], "--random-input-len and --random-output-len"),
        ("profile-throughput", ["--dataset-name=random", "--random-input-len=5"], "needs --random-output-len"),
        ("profile-restful-api", ["--dataset-name=image"], "image requests are not built yet"),
        ("profile-restful-api", ["--backend=gserver"], "not implemented in LMDeploy's script either"),
        ("profile-restful-api", ["--backend=trt"], "needs --model"),
        ("profile-restful-api", ["--base-url=ftp://x"], "--base-url ftp://x: must be a URL"),
        ("profile-restful-api", ["--host=a b"], "--host and --port http://a b:30000: must be"),
        ("profile-restful-api", ["--extra-request-body=[1]"], "must be a JSON object"),
        ("profile-restful-api", ["--extra-request-body={"], "is not JSON"),
    ],
)
def test_what_the_script_refuses_or_crashes_on_is_one_sentence(command: str, arguments: list[str], words: str) -> None:
    front = ["data.json", "model"] if command == "profile-throughput" else []
    with pytest.raises(ConfigError) as refused:
        made(command, *front, *arguments)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_plan_names_every_wrong_value() -> None:
    (point,), _ = made("profile-throughput", "data.json", "model", "--seed=-1", "--cancel-rate=2")
    with pytest.raises(ConfigError) as refused:
        pointing.planned(point)
    first, second = [line for line in str(refused.value).splitlines() if "not built" not in line]
    assert first.startswith("seed = -1:")
    assert second.startswith("cancel.rate = 2.0:")


def test_a_plan_still_holds_the_rules_across_keys() -> None:
    (point,), _ = made("profile-throughput", "data.json", "model", "--cache-block-seq-len=33")
    with pytest.raises(ConfigError, match=r"target\.cache_block_seq_len"):
        pointing.planned(point)


def test_a_run_of_a_point_is_checked_whole() -> None:
    point = Point(
        "profile-throughput", Document.parse('name = "x"\n[target]\nkind = "simulated"\n[load]\nrate = -1.0', "x")
    )
    with pytest.raises(ConfigError, match=r"load\.rate"):
        pointing.checked(point)


@pytest.mark.parametrize("command", ["profile-throughput", "profile-pipeline-api", "benchmark-guided"])
def test_limits_of_engine_flags_are_lmdeploys(command: str) -> None:
    guided = ["--response-format=json_object", "--no-baseline"] if command == "benchmark-guided" else []
    arguments = ["data.json", "model", *guided]
    flat = only(command, *arguments, "--max-prefill-token-num=0", "--max-prefill-iters=0", "--top-k=0")
    assert picked(flat, "target.max_prefill_token_num", "target.max_prefill_iters", "request.top_k") == [0, 0, 0]
    with pytest.raises(ConfigError, match="--top-k -1: must be 0 or more"):
        made(command, *arguments, "--top-k=-1")
