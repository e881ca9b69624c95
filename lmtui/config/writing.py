"""Values → TOML: on one line each, and a whole config with every value resolved, which a run directory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.items import Item

if TYPE_CHECKING:
    from lmtui.config.model import Config


def inline(value: Any) -> Item:
    """Return a value that stays on its key's line, lists of tables included (tomlkit makes sections of those)."""
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for name, inner in value.items():
            table[name] = inline(inner)
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        for inner in value:
            array.append(inline(inner))
        return array
    item: Item = tomlkit.item(value)
    return item


def to_toml(config: Config) -> str:
    """Return the file; keys that are null are left out, for TOML has no null."""
    from lmtui.config.declared import DECLARED

    document = tomlkit.document()
    for declared in DECLARED:
        value = declared.of(config)
        if value is None:
            continue
        if declared.section and declared.section not in document:
            document[declared.section] = tomlkit.table()
        place: Any = document[declared.section] if declared.section else document
        place[declared.name] = inline(value)
    return tomlkit.dumps(document)
