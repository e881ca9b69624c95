"""What is installed of LMDeploy, read from its files: nothing is imported, so that it takes milliseconds."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.metadata
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


@cache
def folder() -> Path | None:
    """Return the package's folder; None when it is not installed."""
    spec = importlib.util.find_spec("lmdeploy")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def version() -> str | None:
    """Return the installed version; None when there is none."""
    try:
        return importlib.metadata.version("lmdeploy")
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def fields_of(name: str) -> frozenset[str]:
    """Return the fields of a configuration class of `lmdeploy.messages`; none when it has no such class."""
    place = folder()
    if place is None:
        return frozenset()
    tree = ast.parse((place / "messages.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return frozenset(
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            )
    return frozenset()


def native_module() -> tuple[Path | None, list[str]]:
    """Return TurboMind's native module for this Python (None: there is none), and the names of those for others."""
    place = folder()
    if place is None:
        return None, []
    found = sorted(path for part in ("turbomind", "lib") for path in (place / part).glob("_turbomind*.so"))
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    for path in found:
        if path.name[path.name.index(".") :] in suffixes:
            return path, []
    return None, [path.name for path in found]


def layout() -> Callable[..., Any] | None:
    """Return LMDeploy's own function that lays TurboMind out over GPUs (it needs no more than the standard library)."""
    place = folder()
    path = None if place is None else place / "turbomind" / "parallel_config.py"
    if path is None or not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("lmdeploy_parallel_config", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    derive: Callable[..., Any] = module.derive_parallel_config
    return derive
