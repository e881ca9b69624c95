"""What was typed: files and folders that must be there, and sentences that name flags where they would name keys."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.config.script_flags import RESTFUL, SCRIPTS, Flag
from lmtui.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from lmtui.config.model import Config

_KEY = re.compile(r"\b(?:(?:target|dataset|load|request|cancel|guided)\.[a-z0-9_]+|seed(?= = ))( = )?")


def refuse_missing(config: Config) -> None:
    """Refuse a dataset, a model or a tokenizer that is not there, before anything is made for a run.

    A name that may be one on the hub is left to the run.

    Raises:
        DatasetError, ConfigError: Names the key, what was given, and the remedy.
    """
    if (given := config.dataset.path) is not None:
        path = Path(given).expanduser()
        if not path.exists():
            raise DatasetError(f"dataset.path = {given} does not exist: give the path of a ShareGPT file")
        if path.is_dir():
            raise DatasetError(f"dataset.path = {given} is a folder: give the path of a ShareGPT file in it")
        if not os.access(path, os.R_OK):
            raise DatasetError(f"dataset.path = {given} cannot be read: give a file that you may read")
    target = config.target
    folders = {"target.tokenizer": target.tokenizer}
    if target.kind != "server":  # a server's model is a name there
        folders |= {"target.model": target.model, "target.speculative_draft_model": target.speculative_draft_model}
    for key, name in folders.items():
        if name is None or Path(name).expanduser().is_dir():
            continue
        if Path(name).expanduser().exists():
            raise ConfigError(f"{key} = {name} is a file: give the folder that holds it, or a hub id")
        if name.startswith(("/", ".", "~")) or name.count("/") > 1:
            raise ConfigError(f"{key} = {name} does not exist: correct the path, or give a hub id")


def in_flags(text: str, options: argparse.Namespace) -> str:
    """Return a sentence with the flags that were typed in place of the config keys that they set."""

    def typed(found: re.Match[str]) -> str:
        key, sets = found[0].removesuffix(" = "), found[1]
        if key == "target.base_url" and not getattr(options, "base_url", None):
            return "--host and --port"
        known = next(_flags_of(key, options), None)
        if known is None:
            return found[0]
        name = known.names[0].upper() if known.is_positional else known.names[-1]
        if sets and (known.key != key or known.type == "switch"):
            return f"{name}: {key} = "  # the value is not the one that was typed
        return name + " " * bool(sets)

    return _KEY.sub(typed, text)


def _flags_of(key: str, options: argparse.Namespace) -> Iterator[Flag]:
    """Yield the flags that set a key with these options."""
    script = SCRIPTS[options.script]
    is_multi = script is RESTFUL and options.multi
    for flag in script.flags:
        if is_multi and flag.key == "load.rate":
            continue  # then --request-rate-range sets it
        fits = not flag.datasets or options.dataset_name in flag.datasets
        if fits and (flag.key == key or key in re.findall(r"[\w.]+\w", flag.does)):
            yield flag
