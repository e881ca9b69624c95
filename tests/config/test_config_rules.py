"""Rules across keys: each names the key to change and what to write there."""

from __future__ import annotations

from typing import Any

import pytest

from lmtui.config.check import Checked
from lmtui.config.document import Document


def check(**values: Any) -> Checked:
    """Check a simulated run with these keys; `__` stands for the dot."""
    document = Document.parse(
        'name = "x"\n[target]\nkind = "simulated"\n[dataset]\ninput_len = 8\noutput_len = 8\n', "f"
    )
    for name, value in values.items():
        document.set(name.replace("__", "."), value)
    return document.check()


def messages(**values: Any) -> list[str]:
    return [problem.message for problem in check(**values).problems]


TURBOMIND = {"target__kind": "turbomind", "target__model": "m"}
PYTORCH = {"target__kind": "pytorch", "target__model": "m"}
GUIDED = {"guided__response_format": "json_object", "guided__baseline": False}
SERVER = {"target__kind": "server", "target__base_url": "http://h"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dataset__input_len": None}, 'dataset.input_len: must be given with dataset.kind = "random"'),
        ({"dataset__output_len": None}, 'dataset.output_len: must be given with dataset.kind = "random"'),
        ({"dataset__kind": "sharegpt"}, 'dataset.path: must be given with dataset.kind = "sharegpt"'),
        ({"dataset__kind": "jsonl"}, 'dataset.path: must be given with dataset.kind = "jsonl"'),
        (
            {"dataset__kind": "sharegpt", "dataset__path": "f", "dataset__output_len": 3},
            "dataset.output_len = 3: must be at least 4",
        ),
        ({"load__mode": "trace"}, 'load.mode = "trace": needs dataset.kind = "trace"'),
        ({"dataset__kind": "trace", "dataset__path": "f"}, 'dataset.kind = "trace": needs load.mode = "trace"'),
        ({"load__mode": "open", "load__ramp_s": 5}, "load.ramp_s = 5.0: needs a finite load.rate"),
        ({"cancel__rate": 0.5, "cancel__when": "after_tokens"}, "cancel.value: must be given"),
        ({"cancel__rate": 0.5, "cancel__when": "after_seconds"}, "cancel.value: must be given"),
        (
            {"cancel__when": "after_tokens", "cancel__value": 1.5},
            "cancel.value = 1.5: must be a whole number of tokens",
        ),
        ({"cancel__when": "after_seconds", "cancel__value_max": 1}, "cancel.value_max = 1.0: needs cancel.value"),
        (
            {"cancel__when": "after_seconds", "cancel__value": 2, "cancel__value_max": 1},
            "cancel.value_max = 1.0: must be at least cancel.value, which is 2",
        ),
        ({"target__kind": "server"}, 'target.base_url: must be given, for target.preset = "openai" has no local port'),
        ({**SERVER, "target__base_url": "h:80"}, "target.base_url: must be a URL that starts with http://"),
        ({**SERVER, "target__api": "trt"}, 'target.model: must be given with target.api = "trt"'),
        ({"target__api_key_env": "sk-abc"}, "target.api_key_env: must be the name of an environment variable"),
        ({"target__env": {"HF_TOKEN": "hf_abc"}}, 'target.env: must not hold a secret such as "HF_TOKEN"'),
        ({"target__env": {"A B": "1"}}, "target.env: must have names of environment variables"),
        ({"target__headers": {"a:b": "c"}}, 'target.headers: "a:b" is no name of a header field'),
        ({"target__headers": {"X-A": "c\r\nX-B: d"}}, "target.headers: must have one-line texts of printable ASCII"),
        ({"target__headers": {"X-A": "kéy"}}, 'printable ASCII, which that of "X-A" is not'),
        ({"target__headers": {"Content-Length": "5"}}, 'target.headers: "Content-Length" cannot be set'),
        ({"target__headers": {"host": "a"}}, 'target.headers: "host" cannot be set'),
        ({"target__headers": {"TRANSFER-ENCODING": "chunked"}}, '"TRANSFER-ENCODING" cannot be set'),
        ({"target__headers": {"Connection": "close"}}, '"Connection" cannot be set'),
        ({"target__extra_body": {"max_tokens": 3}}, 'must not hold "max_tokens"'),
        ({"target__extra_body": {"max_completion_tokens": 3}}, "take it out and use dataset.output_len"),
        ({"target__extra_body": {"sampling_params": {"max_new_tokens": 3}}}, '"sampling_params.max_new_tokens"'),
        ({"target__extra_body": {"stream": False}}, "take it out and use request.stream"),
        ({"target__extra_body": {"model": "m"}}, "take it out and use target.model"),
        ({"target__extra_body": {"prompt": "m"}}, "take it out and use the dataset"),
        ({"load__num_prompts": 10_000_001}, "load.num_prompts = 10000001: must be at most 10000000"),
        ({"load__concurrency": 100_001}, "load.concurrency = 100001: must be at most 100000"),
        ({"dataset__input_len": 10_000_001}, "dataset.input_len = 10000001: must be at most 10000000"),
        ({"dataset__output_len": 10_000_001}, "dataset.output_len = 10000001: must be at most 10000000"),
        ({"load__rate": float("nan")}, "load.rate = nan: must be a finite number, or inf"),
        ({"target__kind": "turbomind"}, "target.model: must be given: the path or hub id"),
        ({**TURBOMIND, "target__cache_block_seq_len": 33}, "target.cache_block_seq_len = 33: must be a multiple of 32"),
        ({**TURBOMIND, "target__quant_policy": 16}, "target.quant_policy = 16: must be one of 0, 4, 8 with turbomind"),
        ({**TURBOMIND, "target__cp": 2}, "target.cp = 2: must divide target.tp, which is 1"),
        ({**TURBOMIND, "target__ep": 8}, "target.ep = 8: must be at most dp x tp x cp"),
        ({**TURBOMIND, "target__dp": 4, "load__concurrency": 2}, "target.dp = 4: must be at most load.concurrency"),
        (
            {"target__kind": "pipeline", "target__model": "m", "load__mode": "open", "load__rate": 2.0},
            'load.mode = "open": must be closed, or open with load.rate = inf',
        ),
        (
            {"target__kind": "pipeline", "target__model": "m", "load__duration_s": 2.0},
            "load.duration_s = 2.0: must be left out, for the pipeline takes all prompts at once",
        ),
        ({**PYTORCH, "target__empty_init": True}, "target.empty_init = true: must be false"),
        ({**TURBOMIND, "target__node_rank": 1}, "target.node_rank = 1: must be below target.nnodes, which is 1"),
        ({**TURBOMIND, "target__dist_init_addr": "h:99999"}, 'target.dist_init_addr = "h:99999": must be host:port'),
        (
            {**TURBOMIND, "target__moe_a2a_backend": "deepep", "target__communicator": "cuda-ipc"},
            'target.communicator = "cuda-ipc": must be nccl',
        ),
        ({**TURBOMIND, "target__dtype": "float32"}, 'target.dtype = "float32": must be one of auto, float16, bfloat16'),
        ({**PYTORCH, "target__device": "cpu"}, 'target.device = "cpu": must be one of auto, cuda'),
        ({**PYTORCH, "target__device": "camb", "target__quant_policy": 8}, "target.quant_policy = 8: must be 0 with"),
        ({**PYTORCH, "target__dp": 2}, "target.dp = 2: must be 1 in process with pytorch"),
        ({**PYTORCH, "target__cache_block_seq_len": 96}, "target.cache_block_seq_len = 96: must be a power of two"),
        ({**PYTORCH, "target__kernel_block_size": 24}, "target.kernel_block_size = 24: must be a power of two"),
        (
            {**PYTORCH, "target__cache_block_seq_len": 80, "target__kernel_block_size": 32},
            "target.cache_block_seq_len = 80: must be a multiple of target.kernel_block_size, which is 32",
        ),
        ({**PYTORCH, "target__num_gpu_blocks": 15}, "target.num_gpu_blocks = 15: must be at least 16"),
        (
            {**PYTORCH, "target__prefix_cache_decode_state_interval": 65},
            "target.prefix_cache_decode_state_interval = 65: must be a multiple of target.cache_block_seq_len",
        ),
        (
            {**PYTORCH, "target__speculative_dflash_block_size": 8},
            'target.speculative_dflash_block_size = 8: needs target.speculative_algorithm = "dflash"',
        ),
        (
            {**PYTORCH, "target__speculative_draft_model": "d"},
            'target.speculative_draft_model = "d": needs target.speculative_algorithm',
        ),
        (
            {"target__kind": "transformers", "target__device": "maca"},
            'target.device = "maca": must be one of auto, cpu',
        ),
        ({**SERVER, **GUIDED, "target__api": "sglang"}, 'must be none with target.api = "sglang"'),
        (
            {**SERVER, **GUIDED, "target__preset": "lmdeploy"},
            'needs target.api = "chat" with target.preset = "lmdeploy"',
        ),
        (
            {**SERVER, **GUIDED, "target__api": "chat", "guided__response_format": "regex_schema"},
            'must be json_schema or json_object with target.preset = "openai"',
        ),
        ({"name": "a/b"}, 'name = "a/b": must be text without / or \\ that does not start with a dot'),
        ({"name": ".."}, 'name = "..": must be text without'),
        ({"name": " x"}, 'name = " x": must be text without spaces at its ends'),
        ({"name": "x.toml"}, 'name = "x.toml": must be text that does not end in .toml'),
        ({"name": "é" * 51}, "must be at most 100 bytes long"),
        (
            {"dataset__kind": "jsonl", "dataset__path": "~nobody-here/x.jsonl"},
            'dataset.path = "~nobody-here/x.jsonl": must be a path whose ~ names a home folder that there is',
        ),
        ({"target__extra_body": {"a": [float("nan")]}}, "must be made of texts, finite numbers"),
    ],
)
def test_what_does_not_fit_together_is_refused(values: dict[str, Any], message: str) -> None:
    found = [said for said in messages(**values) if "is not built yet" not in said]
    assert len(found) == 1, found
    assert message in found[0]


@pytest.mark.parametrize(
    "values",
    [
        {"cancel__rate": 0.5},
        {"cancel__rate": 0.5, "cancel__when": "before_first_token"},
        {"cancel__rate": 0.5, "cancel__when": "after_seconds", "cancel__value": 0.1, "cancel__value_max": 0.1},
        {"load__mode": "open", "load__rate": 2.5, "load__ramp_s": 5, "load__duration_s": 60, "load__max_in_flight": 9},
        {"load__mode": "trace", "dataset__kind": "trace", "dataset__path": "f"},
        {
            "load__workers": 4,
            "load__arrival": "gamma",
            "load__mode": "open",
            "load__rate": 8.0,
            "load__burstiness": 0.5,
        },
        {**SERVER, "target__api": "sglang"},
        {**SERVER, "target__ca": "/ca.pem", "target__insecure": True},
        {"target__kind": "server", "target__preset": "vllm"},
        {**SERVER, "target__headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "a"}},
        {"target__kind": "transformers", "target__device": "cpu", "target__dtype": "float32"},
        {"target__kind": "transformers", "target__model": "a/b", "target__kv_tokens": 4096},
        {"dataset__kind": "sharegpt", "dataset__path": "f", "dataset__input_len": None, "dataset__output_len": None},
        {"name": "tp=2, 7B (nightly)"},
        {**PYTORCH, **GUIDED},
        {**SERVER, **GUIDED, "target__api": "chat"},
        {**SERVER, **GUIDED, "target__preset": "vllm", "guided__response_format": "regex_schema"},
        TURBOMIND,
        PYTORCH,
        {"target__kind": "pipeline", "target__model": "m", "target__backend": "pytorch"},
    ],
)
def test_what_fits_together_is_a_config(values: dict[str, Any]) -> None:
    checked = check(**values)
    assert checked.problems == ()
    assert checked.config is not None
    assert checked.notes == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sweep__over": {"load.rate": [1, 2]}}, 'sweep.over = {"load.rate": [1, 2]}: is not built yet: '),
        ({"sweep__repeat": 3}, "sweep.repeat = 3: is not built yet: "),
        ({"sweep__search": "max_rate"}, 'sweep.search = "max_rate": is not built yet: '),
        ({"dataset__kind": "image"}, 'use one of "sharegpt", "random", "jsonl", "trace" until then'),
        ({"dataset__image_count": 2}, "dataset.image_count = 2: is not built yet: image datasets come later"),
        ({"slo__attainment": 0.9}, "slo.attainment = 0.9: is not built yet: "),
        ({"load__cluster": "ray://h"}, 'load.cluster = "ray://h": is not built yet: '),
        ({"target__over": "http"}, 'target.over = "http": is not built yet: use one of "process" until then'),
        ({**TURBOMIND, "target__nnodes": 2}, "target.nnodes = 2: is not built yet: the engine runs on one machine"),
    ],
)
def test_what_is_not_built_yet_is_refused_in_one_sentence(values: dict[str, Any], words: str) -> None:
    (message,) = messages(**values)
    assert words in message


def test_what_is_not_built_yet_is_only_noted_where_it_does_not_apply() -> None:
    checked = check(**SERVER, target__over="http")
    assert checked.problems == ()
    assert checked.notes == ('target.over = "http" does not apply to target.kind = "server": kept and ignored.',)


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "authorization",
        "Proxy-Authorization",
        "X-API-Key",
        "api-key",
        "Cookie",
        "X-Key",
        "x-auth-token",
        "X-Client-Secret",
        "Password",
    ],
)
@pytest.mark.parametrize("value", ["Bearer sk-secret", "sk-secret", "Bearer ${A} sk-secret", "Basic c2VjcmV0"])
def test_a_literal_secret_in_headers_is_refused_and_not_repeated(name: str, value: str) -> None:
    (message,) = messages(**SERVER, target__headers={name: value})
    assert "target.api_key_env" in message
    assert "${VAR}" in message
    assert "sk-secret" not in message
    assert "c2VjcmV0" not in message


def test_a_literal_secret_in_the_body_is_refused_and_not_repeated() -> None:
    for name in ("api_key", "token", "X-Key", "client_secret", "password"):
        (message,) = messages(**SERVER, target__extra_body={"min_p": 0.1, name: "sk-SECRET"})
        assert message.startswith("target.extra_body: must not hold the secret of ")
        assert "SECRET" not in message
    plain = {"tokenizer": "t", "prompt_cache_key": "k", "stop_token": "</s>", "token": "${TOKEN}", "min_tokens": 5}
    plain |= {"sampling_params": {"min_p": 0.1}, "stream_options": {"include_usage": True}, "n": 2}
    assert check(**SERVER, target__extra_body=plain).problems == ()


def test_a_wrong_type_beside_a_secret_does_not_show_it() -> None:
    for key in ("target__headers", "target__env"):
        (message,) = messages(**SERVER, **{key: {"X-A": "sk-SECRET", "X-B": 5}})
        assert "SECRET" not in message
    (message,) = messages(**SERVER, target__headers="Authorization: sk-SECRET")
    assert message.startswith("target.headers: must be a table of texts")


def test_an_open_load_without_a_rate_is_noted() -> None:
    note = "load.rate = inf: all requests are sent at once; give a rate to spread them."
    assert check(load__mode="open").notes == (note,)
    assert check(load__mode="open", load__rate=2.0).notes == ()
    assert check().notes == ()


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    (message,) = messages(target__kind="server", target__base_url="http://me:hunter2@host")
    assert "target.api_key_env" in message
    assert "hunter2" not in message


def test_references_are_kept_unexpanded_in_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "sk-secret")
    checked = check(
        **SERVER, target__headers={"Authorization": "Bearer ${TOKEN}"}, target__extra_body={"a": "${TOKEN}"}
    )
    assert checked.config is not None
    assert checked.config.flat()["target.headers"] == {"Authorization": "Bearer ${TOKEN}"}
    assert "sk-secret" not in checked.config.to_toml()


def test_a_wrong_value_hides_only_the_rules_that_read_it() -> None:
    keys = [p.key for p in check(dataset__kind="randm", dataset__input_len=None, load__mode="trace").problems]
    assert keys == ["dataset.kind"]
    keys = [p.key for p in check(load__concurrency=0, dataset__input_len=None).problems]
    assert keys == ["dataset.input_len", "load.concurrency"]


def test_what_a_closed_load_does_not_use_is_noted() -> None:
    notes = check(load__rate=5, load__max_in_flight=9, cancel__rate=0.5, cancel__value=3).notes
    assert notes == (
        'load.rate = 5.0 does not apply to load.mode = "closed": kept and ignored.',
        'load.max_in_flight = 9 does not apply to load.mode = "closed": kept and ignored.',
        'cancel.value = 3.0 does not apply to cancel.when = "tokens_uniform": kept and ignored.',
    )


def test_a_pipeline_notes_what_its_backend_lacks() -> None:
    pipeline = {"target__kind": "pipeline", "target__model": "m"}
    assert check(**pipeline, target__eager_mode=True).notes == (
        'target.eager_mode = true does not apply to target.backend = "turbomind": kept and ignored.',
    )
    assert check(**pipeline, target__backend="pytorch", target__eager_mode=True).notes == ()


@pytest.mark.parametrize("regex", [r"\p{L}+", r"(?<word>a)", "[a-z]+"])
def test_an_expression_of_another_dialect_is_left_to_the_engine(regex: str) -> None:
    guided = {"guided__response_format": "regex_schema", "guided__baseline": False, "guided__regex": regex}
    assert check(**{**PYTORCH, **guided}).problems == ()
