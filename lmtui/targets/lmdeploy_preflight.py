"""What a run of an LMDeploy engine needs, looked at in milliseconds before anything is loaded.

Several of these mistakes otherwise abort the process, wait half an hour, or say nothing at all.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lmtui.config import engine_rules
from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.targets import lmdeploy_parts
from lmtui.targets.finding import Finding
from lmtui.targets.gpus import Gpus, visible_gpus
from lmtui.targets.lmdeploy_parts import fields_of
from lmtui.targets.lmdeploy_settings import (
    PYTORCH_CLASS,
    TURBOMIND_CLASS,
    pytorch_settings,
    speculative_settings,
    turbomind_settings,
    unknown,
)

OLDEST = (0, 15)
BUSY_SHARE = 0.05
"""Memory of a GPU in use beyond this share means that somebody else works on it."""
QUANTISED = ("awq", "gptq", "compressed-tensors", "fp8", "mxfp4")

__all__ = ["Finding", "fields_of", "findings", "gpu_words", "notes", "refuse", "session_fits", "vocabulary"]


def refuse(config: Config) -> None:
    """Raise TargetError with every failure, one sentence a line."""
    failed = [f"{finding.found}: {finding.remedy}." for finding in findings(config) if finding.state == "fail"]
    if failed:
        raise TargetError("\n".join(failed))


def notes(config: Config) -> list[str]:
    """Return sentences for the result."""
    return [f"{finding.found}: {finding.remedy}." for finding in findings(config) if finding.state == "note"]


def findings(config: Config) -> Iterator[Finding]:
    """Yield what was looked at for this config, in the order in which a person would mend it."""
    inside = engine_rules.engine(config)
    yield (package := _package())
    if package.state == "fail":
        return
    gpus = _gpus(config)
    if inside == "turbomind" or config.target.device in ("auto", "cuda"):
        yield from _driver(inside, gpus)
    yield from _model(config, inside)
    yield from _quantisation(config, inside)
    yield from _layout(config, inside, gpus)
    yield from _memory(config, gpus)
    yield from _fields(config, inside)
    yield from _dataset(config)


def session_fits(config: Config, longest: int) -> str:
    """Say why the longest request (prompt and output tokens) does not fit ("" when it does, or nobody knows)."""
    limit = config.target.session_len
    words = "target.session_len"
    if limit is None:
        limit = _context(model_config(config))
        words = "the model's longest context"
    if limit is None or longest <= limit:
        return ""
    return (
        f"The longest request has {longest} tokens with its output, and {words} is {limit}: the engine would cut its "
        "output short without a word. Set dataset.input_len or dataset.output_len lower, or target.session_len higher."
    )


def vocabulary(config: Config) -> int | None:
    """Return the size of the model's vocabulary; None when it is not on this machine."""
    size = _text_part(model_config(config)).get("vocab_size")
    return size if isinstance(size, int) else None


def gpu_words(config: Config) -> dict[str, int | float | str]:
    """Return the names of the visible GPUs as a limit; nothing when there are none."""
    gpus = _gpus(config).visible
    return {"gpus": ", ".join(gpu.name for gpu in gpus)} if gpus else {}


def model_config(config: Config) -> Mapping[str, Any]:
    """Return the model's config.json; empty when the model is no folder here or has none."""
    model = config.target.model
    return _json(str(Path(model).expanduser() / "config.json")) if model else {}


@cache
def _json(path: str) -> Mapping[str, Any]:
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for part in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(part), dict):
            inner: Mapping[str, Any] = config[part]
            return inner
    return config


def _context(config: Mapping[str, Any]) -> int | None:
    size = _text_part(config).get("max_position_embeddings")
    return size if isinstance(size, int) else None


def _gpus(config: Config) -> Gpus:
    return visible_gpus(config.target.env)


def _package() -> Finding:
    version = lmdeploy_parts.version()
    if version is None or lmdeploy_parts.folder() is None:
        return Finding(
            "lmdeploy", "fail", "LMDeploy is not installed here", "pip install 'lmtui[lmdeploy]', or set target.python"
        )
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Finding("lmdeploy", "fail", f"LMDeploy {version} is too old", f"install {oldest} or newer")
    if importlib.util.find_spec("torch") is None:
        return Finding("lmdeploy", "fail", "LMDeploy is installed without PyTorch", "pip install 'lmtui[lmdeploy]'")
    return Finding("lmdeploy", "ok", version)


def _driver(inside: str, gpus: Gpus) -> Iterator[Finding]:
    if inside == "turbomind":
        module, others = lmdeploy_parts.native_module()
        if module is None:
            why = f"it is built for another Python ({', '.join(others)})" if others else "it is not in the package"
            yield Finding(
                "TurboMind",
                "fail",
                f"TurboMind's native module cannot be used here, for {why}",
                'install the wheel of LMDeploy for this Python, or set target.kind = "pytorch"',
            )
        else:
            yield Finding("TurboMind", "ok", module.name)
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        yield Finding("driver", "fail", f"The NVIDIA driver is missing ({error})", "run where there is a GPU")
        return
    if gpus.visible:
        yield Finding("GPU", "ok", f"{len(gpus.visible)} x {gpus.visible[0].name}")
    else:
        yield Finding("GPU", "fail", f"No GPU is visible, for {gpus.why_none}", "correct CUDA_VISIBLE_DEVICES")


def _model(config: Config, inside: str) -> Iterator[Finding]:
    named = [("target.model", config.target.model), ("target.tokenizer", config.target.tokenizer)]
    if inside == "pytorch":
        named.append(("target.speculative_draft_model", config.target.speculative_draft_model))
    for key, name in named:
        if name is None:
            continue
        path = Path(name).expanduser()
        if path.is_dir():
            yield from _folder(key, path)
        elif path.exists():
            yield Finding("model", "fail", f"{key} = '{name}' is a file", "give the folder that holds the model")
        elif name.startswith(("/", ".", "~")) or name.count("/") != 1:
            remedy = "give a folder with a config.json, or a hub id such as Qwen/Qwen2.5-7B-Instruct"
            yield Finding("model", "fail", f"{key} = '{name}' is neither a folder here nor a hub id", remedy)
        else:
            yield Finding("model", "ok", f"{name} (from the hub or its cache)")


def _folder(key: str, path: Path) -> Iterator[Finding]:
    if key == "target.tokenizer":
        yield Finding("tokenizer", "ok", str(path))
        return
    read = _json(str(path / "config.json"))
    if not read:
        yield Finding(
            "model", "fail", f"{key} = '{path}' has no config.json that can be read", "give the folder of a model"
        )
    elif not (read.get("architectures") or read.get("auto_map") or read.get("language_config")):
        yield Finding(
            "model", "fail", f"{path / 'config.json'} names no architecture", "give the folder of a language model"
        )
    else:
        yield Finding("model", "ok", str(path))


def _quantisation(config: Config, inside: str) -> Iterator[Finding]:
    wanted = config.target.model_format
    quantised = model_config(config).get("quantization_config")
    method = quantised.get("quant_method") if isinstance(quantised, dict) else None
    if inside == "pytorch":
        if wanted not in (None, "fp8"):
            yield Finding(
                "model format",
                "fail",
                f"target.model_format = '{wanted}' is not for the PyTorch engine, which reads the format itself",
                "leave it out",
            )
        return
    if wanted is None or not model_config(config):
        return
    if wanted == "hf" and method is not None:
        found, remedy = f"target.model_format = 'hf' does not fit weights quantised as {method}", "leave it out"
        yield Finding("model format", "fail", found, remedy)
    elif wanted in QUANTISED and method != wanted:
        found = f"target.model_format = '{wanted}' does not fit the model, which is {method or 'not quantised'}"
        yield Finding("model format", "fail", found, "leave it out, or give the quantised model")


def _layout(config: Config, inside: str, gpus: Gpus) -> Iterator[Finding]:
    target, count = config.target, len(gpus.visible)
    if not count and inside != "turbomind" and target.device not in ("auto", "cuda"):
        return  # not NVIDIA's: nobody here can count them
    over = f"{count} GPUs" if count else "any number of GPUs"
    if inside == "turbomind":
        if (derive := lmdeploy_parts.layout()) is None:
            return
        try:
            found = derive(target.dp, target.tp, target.ep, target.cp, None, count * target.nnodes or None)
        except AssertionError as error:
            yield Finding(
                "layout",
                "fail",
                f"TurboMind cannot lay tp = {target.tp}, dp = {target.dp}, cp = {target.cp}, ep = {target.ep} out over "
                f"{over} ({error})",
                "lower them, or make more GPUs visible",
            )
            return
        if not count:
            yield Finding(
                "layout", "note", f"{_gpu_count(found.device_num)} at most; not checked whether they are there: no GPU"
            )
            return
        yield Finding("layout", "ok", f"{found.device_num} of {count} GPUs")
        if target.cache_block_seq_len % 64 and gpus.visible[0].capability < 80:
            yield Finding(
                "KV block",
                "fail",
                f"target.cache_block_seq_len = {target.cache_block_seq_len} does not work on {gpus.visible[0].name}",
                "use a multiple of 64",
            )
        return
    world = max(target.tp, target.ep)
    executor = target.distributed_executor_backend or ("uni" if world == 1 else "ray")
    if count and world > count:
        found_words = f"The engine needs {world} GPUs and {count} are visible, for which it would wait half an hour"
        yield Finding("layout", "fail", found_words, "lower target.tp and target.ep, or make more GPUs visible")
    elif executor == "uni" and world > 1:
        yield Finding("layout", "fail", f"The executor uni runs one GPU, not {world}", "use mp or ray, or leave it out")
    elif executor == "ray" and importlib.util.find_spec("ray") is None:
        yield Finding("layout", "fail", "Ray is not installed, and several GPUs need it", "pip install 'lmtui[ray]'")
    elif count:
        yield Finding("layout", "ok", f"{world} of {count} GPUs, executor {executor}")
    else:
        yield Finding(
            "layout", "note", f"{_gpu_count(world)}, executor {executor}; not checked whether they are there: no GPU"
        )


def _gpu_count(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _memory(config: Config, gpus: Gpus) -> Iterator[Finding]:
    for number, gpu in enumerate(gpus.visible):
        if gpu.used_bytes > BUSY_SHARE * gpu.total_bytes:
            by = f" by the processes {', '.join(map(str, gpu.pids))}" if gpu.pids else ""
            yield Finding(
                "GPU memory",
                "note",
                f"GPU {number} ({gpu.name}) is used already{by}: {gpu.used_bytes / 2**30:.1f} of "
                f"{gpu.total_bytes / 2**30:.1f} GiB",
                "its work and this run slow each other down",
            )
    weights = _weights_bytes(config)
    used = max(config.target.tp, config.target.ep)
    free = sum(gpu.total_bytes - gpu.used_bytes for gpu in gpus.visible[:used])
    if weights and free and weights > free and not config.target.empty_init:
        yield Finding(
            "GPU memory",
            "fail",
            f"The weights take {weights / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free on {used} GPUs",
            "raise target.tp, free the GPUs, or use a smaller model",
        )


def _weights_bytes(config: Config) -> int:
    """Return the bytes of the model's weight files; 0 when it is not on this machine."""
    folder = Path(config.target.model or "").expanduser()
    if not config.target.model or not folder.is_dir():
        return 0
    for pattern in ("*.safetensors", "*.bin"):
        if size := sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()):
            return size
    return 0


def _fields(config: Config, inside: str) -> Iterator[Finding]:
    """Compare names with the installed classes: TurboMind's takes what it does not know without a word."""
    if inside == "turbomind":
        parts = [(TURBOMIND_CLASS, turbomind_settings(config))]
    else:
        parts = [(PYTORCH_CLASS, pytorch_settings(config)), ("SpeculativeConfig", speculative_settings(config))]
    for name, settings in parts:
        for setting in unknown(settings, fields_of(name)):
            yield Finding(
                "engine keys",
                "fail",
                f"{setting.key} is not known to LMDeploy {lmdeploy_parts.version()} ({name} has no {setting.field})",
                "leave it out, or install a newer LMDeploy",
            )


def _dataset(config: Config) -> Iterator[Finding]:
    if config.dataset.path is None:
        return
    path = Path(config.dataset.path).expanduser()
    if not (path.is_file() and os.access(path, os.R_OK)):
        yield Finding("dataset", "fail", f"dataset.path = '{path}' cannot be read", "give a file")
