"""The commands that compare and export what runs gave."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from lmtui.output import print_json, takes_signs


def compare(names: Sequence[str], *, as_json: bool, ascii_only: bool) -> int:
    """Print runs side by side, the first one as what the others are measured against."""
    from lmtui.results.compare import compare as compared
    from lmtui.results.compare_text import compare_text
    from lmtui.runner import kept

    comparison = compared([kept.to_compare(name) for name in names])
    if as_json:
        print_json(comparison)
    else:
        width = shutil.get_terminal_size((80, 24)).columns
        print(compare_text(comparison, width, ascii_only=ascii_only or not takes_signs()))
    return 0


def export(names: Sequence[str], to: str, *, force: bool, with_ticks: bool) -> int:
    """Write runs to a file, in the format that its ending names, and say where."""
    from lmtui.results import export as exporting
    from lmtui.runner import kept

    path = Path(to)
    exporting.check(path, force=force, with_ticks=with_ticks)
    held = [kept.to_export(name) for name in names]
    exporting.export(held, path, force=force, with_ticks=with_ticks)
    print(f"{', '.join(run.result.run_id for run in held)} exported to {path}", file=sys.stderr)
    return 0
