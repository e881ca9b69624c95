"""The GPUs that a run would see, asked of NVML: no CUDA context is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its name, memory, who uses it already, and its compute capability as major * 10 + minor."""

    name: str
    total_bytes: int
    used_bytes: int
    pids: tuple[int, ...]
    capability: int


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs that are visible, or why there are none."""

    visible: tuple[Gpu, ...]
    why_none: str = ""


def visible_gpus(env: Mapping[str, str]) -> Gpus:
    """Return the GPUs that a process with `env` over this one's environment sees."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Gpus((), f"the NVIDIA driver does not answer: {error}")
    try:
        found = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            gpu = Gpu(
                name=str(pynvml.nvmlDeviceGetName(handle)),
                total_bytes=int(memory.total),
                used_bytes=int(memory.used),
                pids=tuple(process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
                capability=major * 10 + minor,
            )
            found[str(index)] = gpu
            found[str(pynvml.nvmlDeviceGetUUID(handle))] = gpu
    except pynvml.NVMLError as error:
        return Gpus((), f"the NVIDIA driver cannot be asked about the GPUs: {error}")
    finally:
        pynvml.nvmlShutdown()
    chosen = env.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if chosen is None:
        gpus = tuple(gpu for name, gpu in found.items() if name.isdecimal())
        return Gpus(gpus, "" if gpus else "the driver reports no GPU")
    return _chosen(found, chosen)


def _chosen(found: Mapping[str, Gpu], chosen: str) -> Gpus:
    """Apply CUDA_VISIBLE_DEVICES: indexes or (beginnings of) UUIDs; the first that is wrong hides the rest."""
    gpus = []
    for name in (part.strip() for part in chosen.split(",")):
        matching = [gpu for key, gpu in found.items() if key == name or (len(name) > 4 and key.startswith(name))]
        if not matching:
            break
        gpus.append(matching[0])
    return Gpus(tuple(gpus), "" if gpus else f"CUDA_VISIBLE_DEVICES = {chosen!r} leaves none")
