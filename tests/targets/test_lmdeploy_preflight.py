"""What a run of an LMDeploy engine needs: each mistake is one sentence with a remedy, told in milliseconds."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.targets import gpus, lmdeploy_parts, lmdeploy_preflight
from lmtui.targets.gpus import Gpu, Gpus
from lmtui.targets.lmdeploy_preflight import Finding, findings

GIB = 2**30
FREE = Gpu("NVIDIA A100", 80 * GIB, GIB, (), 80)
BUSY = Gpu("NVIDIA A100", 80 * GIB, 60 * GIB, (41, 42), 80)
OLD = Gpu("Tesla V100", 32 * GIB, 0, (), 70)

pytestmark = pytest.mark.skipif(lmdeploy_parts.folder() is None, reason="LMDeploy is not installed")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, FREE, FREE)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)


def has(monkeypatch: pytest.MonkeyPatch, *found: Gpu, why_none: str = "") -> None:
    monkeypatch.setattr(lmdeploy_preflight, "visible_gpus", lambda env: Gpus(found, why_none))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return folder(tmp_path / "model")


def folder(path: Path, **more: Any) -> Path:
    path.mkdir()
    values = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096, "vocab_size": 1000, **more}
    (path / "config.json").write_text(json.dumps(values))
    return path


def config(kind: str, model: Path | str, dataset: dict[str, Any] | None = None, **target: Any) -> Config:
    return Config.model_validate(
        {
            "name": "x",
            "target": {"kind": kind, "model": str(model), **target},
            "dataset": {"input_len": 8, "output_len": 8, **(dataset or {})},
        }
    )


def failed(made: Config) -> list[Finding]:
    return [finding for finding in findings(made) if finding.state == "fail"]


def only(made: Config) -> str:
    (finding,) = failed(made)
    assert finding.remedy
    return f"{finding.found}: {finding.remedy}"


@pytest.mark.parametrize("kind", ["turbomind", "pytorch", "pipeline"])
def test_nothing_fails_where_everything_fits(model: Path, kind: str) -> None:
    assert failed(config(kind, model)) == []
    lmdeploy_preflight.refuse(config(kind, model))


def test_nothing_of_the_engine_is_imported(model: Path) -> None:
    code = (
        "import sys; from lmtui.targets import lmdeploy_preflight as p; from tests.targets.making import config; "
        "print(len(list(p.findings(config('turbomind', model=sys.argv[1])))) > 2, "
        "[m for m in ('torch', 'transformers', 'lmdeploy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"


@pytest.mark.parametrize("kind", ["turbomind", "pytorch"])
def test_a_missing_driver(model: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    has(monkeypatch, why_none="the NVIDIA driver does not answer")
    assert only(config(kind, model)) == (
        "The NVIDIA driver is missing (libcuda.so.1: cannot open shared object file): run where there is a GPU"
    )


def test_a_driver_without_gpu(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, why_none="CUDA_VISIBLE_DEVICES = '7' leaves none")
    assert only(config("pytorch", model)).startswith("No GPU is visible, for CUDA_VISIBLE_DEVICES = '7' leaves none")


def test_a_device_that_is_not_nvidia_s_is_not_looked_for(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, why_none="no driver")
    assert failed(config("pytorch", model, device="ascend", tp=8)) == []


def test_lmdeploy_missing_old_and_without_torch(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdeploy_parts, "version", lambda: "0.14.1")
    assert only(config("pytorch", model)) == "LMDeploy 0.14.1 is too old: install 0.15 or newer"
    monkeypatch.setattr(lmdeploy_parts, "version", lambda: None)
    assert "pip install 'lmtui[lmdeploy]'" in only(config("pytorch", model))


def test_a_native_module_for_another_python(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdeploy_parts, "native_module", lambda: (None, ["_turbomind.cpython-39.so"]))
    assert "built for another Python (_turbomind.cpython-39.so)" in only(config("turbomind", model))
    assert failed(config("pytorch", model)) == []


@pytest.mark.parametrize("name", ["/nowhere/at/all", "~/nowhere", "./nowhere", "no-slash", "a/b/c"])
def test_a_model_that_is_neither_folder_nor_hub_id(name: str) -> None:
    assert only(config("pytorch", name)).startswith(f"target.model = '{name}' is neither a folder here nor a hub id")


def test_a_hub_id_is_taken() -> None:
    assert failed(config("pytorch", "Qwen/Qwen2.5-7B-Instruct")) == []


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    assert "has no config.json that can be read" in only(config("pytorch", tmp_path))
    (tmp_path / "config.json").write_text('{"a": 1}')
    lmdeploy_preflight._json.cache_clear()
    assert "names no architecture" in only(config("pytorch", tmp_path))
    assert "is a file" in only(config("pytorch", tmp_path / "config.json"))


@pytest.mark.parametrize(
    ("method", "wanted", "words"),
    [
        ("awq", "hf", "'hf' does not fit weights quantised as awq"),
        ("awq", "gptq", "'gptq' does not fit the model, which is awq"),
        (None, "awq", "'awq' does not fit the model, which is not quantised"),
    ],
)
def test_a_format_that_the_weights_do_not_have(tmp_path: Path, method: str | None, wanted: str, words: str) -> None:
    more = {} if method is None else {"quantization_config": {"quant_method": method}}
    assert words in only(config("turbomind", folder(tmp_path / "m", **more), model_format=wanted))


@pytest.mark.parametrize(("method", "wanted"), [("awq", "awq"), ("awq", None), (None, "hf"), (None, None)])
def test_a_format_that_fits(tmp_path: Path, method: str | None, wanted: str | None) -> None:
    more = {} if method is None else {"quantization_config": {"quant_method": method}}
    target: dict[str, Any] = {} if wanted is None else {"model_format": wanted}
    assert failed(config("turbomind", folder(tmp_path / "m", **more), **target)) == []


def test_pytorch_reads_the_format_itself(model: Path) -> None:
    assert "is not for the PyTorch engine" in only(config("pytorch", model, model_format="awq"))


def test_layouts_are_judged_by_lmdeploy_s_own_function(model: Path) -> None:
    assert "TurboMind cannot lay tp = 4" in only(config("turbomind", model, tp=4))
    assert failed(config("turbomind", model, tp=2, dp=2)) == []
    found = [finding for finding in findings(config("turbomind", model, tp=2)) if finding.name == "layout"]
    assert [finding.found for finding in found] == ["2 of 2 GPUs"]


def test_more_ranks_than_gpus_would_wait_half_an_hour(model: Path) -> None:
    assert "needs 4 GPUs and 2 are visible" in only(config("pytorch", model, tp=4))


def test_layouts_without_a_gpu_are_judged_as_far_as_can_be(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, why_none="the driver reports no GPU")

    def layouts(**values: Any) -> list[tuple[str, str]]:
        return [(one.state, one.found) for one in findings(config(**values)) if one.name == "layout"]

    assert layouts(kind="turbomind", model=model, tp=4) == [
        ("note", "4 GPUs at most; not checked whether they are there: no GPU")
    ]
    ((state, found),) = layouts(kind="turbomind", model=model, tp=1, ep=2)
    assert state == "fail"
    assert found.startswith("TurboMind cannot lay tp = 1, dp = 1, cp = 1, ep = 2 out over any number of GPUs (")
    ((state, found),) = layouts(kind="pytorch", model=model, tp=2, distributed_executor_backend="uni")
    assert (state, found) == ("fail", "The executor uni runs one GPU, not 2")
    ((state, found),) = layouts(kind="pytorch", model=model)
    assert (state, found) == ("note", "1 GPU, executor uni; not checked whether they are there: no GPU")


def test_executors(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The executor uni runs one GPU, not 2" in only(
        config("pytorch", model, tp=2, distributed_executor_backend="uni")
    )
    assert failed(config("pytorch", model, tp=2, distributed_executor_backend="mp")) == []
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    assert "pip install 'lmtui[ray]'" in only(config("pytorch", model, tp=2))


def test_small_blocks_on_an_old_gpu(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, OLD)
    assert "does not work on Tesla V100: use a multiple of 64" in only(
        config("turbomind", model, cache_block_seq_len=32)
    )
    assert failed(config("turbomind", model, cache_block_seq_len=64)) == []


def test_a_gpu_that_others_use_is_noted(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, BUSY)
    assert lmdeploy_preflight.notes(config("pytorch", model)) == [
        "GPU 0 (NVIDIA A100) is used already by the processes 41, 42: 60.0 of 80.0 GiB: "
        "its work and this run slow each other down."
    ]


def test_weights_that_do_not_fit_into_free_memory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Gpu("tiny", 1000, 500, (), 80)
    has(monkeypatch, small, small)
    (model / "model.safetensors").write_bytes(b"x" * 600)
    assert "The weights take" in only(config("pytorch", model))
    assert failed(config("pytorch", model, tp=2, distributed_executor_backend="mp")) == []


def test_a_key_that_the_installed_lmdeploy_does_not_know(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = lmdeploy_parts.fields_of("TurbomindEngineConfig")
    monkeypatch.setattr(lmdeploy_preflight, "fields_of", lambda name: known - {"moe_a2a_backend", "use_logn_attn"})
    assert failed(config("turbomind", model)) == []
    words = only(config("turbomind", model, moe_a2a_backend="default"))
    assert words.startswith("target.moe_a2a_backend is not known to LMDeploy ")


def test_a_dataset_that_cannot_be_read(model: Path) -> None:
    made = config("pytorch", model, dataset={"path": "/nowhere.json"})
    assert only(made) == "dataset.path = '/nowhere.json' cannot be read: give a file"


def test_all_failures_are_told_at_once(model: Path) -> None:
    made = config("pytorch", model, dataset={"path": "/nowhere.json"}, tp=4)
    with pytest.raises(TargetError) as refused:
        lmdeploy_preflight.refuse(made)
    assert len(str(refused.value).splitlines()) == 2


def test_the_longest_request_beside_the_session_length(model: Path) -> None:
    assert lmdeploy_preflight.session_fits(config("pytorch", model), 4096) == ""
    assert "4097 tokens with its output, and the model's longest context is 4096" in lmdeploy_preflight.session_fits(
        config("pytorch", model), 4097
    )
    assert "target.session_len is 100" in lmdeploy_preflight.session_fits(
        config("pytorch", model, session_len=100), 101
    )
    assert lmdeploy_preflight.session_fits(config("pytorch", "a/b"), 10**6) == ""


@pytest.mark.parametrize(
    ("chosen", "names"),
    [("0", ["a"]), ("1,0", ["b", "a"]), ("GPU-bbb", ["b"]), ("", []), ("5", []), ("0,9,1", ["a"]), ("-1", [])],
)
def test_visible_devices_are_chosen_as_cuda_does(chosen: str, names: list[str]) -> None:
    a, b = Gpu("a", 1, 0, (), 80), Gpu("b", 1, 0, (), 80)
    found = gpus._chosen({"0": a, "GPU-aaa": a, "1": b, "GPU-bbb": b}, chosen)
    assert [gpu.name for gpu in found.visible] == names
    assert bool(found.why_none) == (not names)
