"""Config → TOML text with every value resolved: what a run directory keeps."""

from __future__ import annotations

import tomlkit

from lmtui.config.declared import DECLARED
from lmtui.config.model import Config


def to_toml(config: Config) -> str:
    """Return the file; keys that are null are left out, for TOML has no null."""
    document = tomlkit.document()
    for declared in DECLARED:
        value = declared.of(config)
        if value is None:
            continue
        if isinstance(value, dict):
            table = tomlkit.inline_table()
            table.update(value)
            value = table
        if declared.section and declared.section not in document:
            document[declared.section] = tomlkit.table()
        (document[declared.section] if declared.section else document)[declared.name] = value
    return tomlkit.dumps(document)
