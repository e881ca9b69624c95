"""What stands in the shell once the application is left."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lmtui import paths

if TYPE_CHECKING:
    from lmtui.runner.rundir import RunDirectory


def farewell(last: RunDirectory) -> str:
    """Return the last run's summary and where its row went; of a live one, how to come back to it."""
    result = last.result()
    if result is None:
        phase = last.phase()
        return (
            f"{last.run_id}: {phase}. `lmtui attach {last.run_id}` shows it, `lmtui stop {last.run_id}` ends it.\n"
            f"log: {last.log_path}"
        )
    from lmtui.metrics.table import result_table

    return f"{result_table(result, shutil.get_terminal_size().columns)}\nkept as {result.run_id} in {paths.history()}"
