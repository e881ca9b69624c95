from __future__ import annotations

from tests.workload.conftest import home, sharegpt_file, sharegpt_items, tiny_folder

__all__ = ["home", "sharegpt_file", "sharegpt_items", "tiny_folder"]
