"""A guided run and its baseline from the application: one after the other, watched, then compared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmtui.runner import runs
from lmtui.runner.spawn import Series

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.runner.rundir import RunDirectory
    from lmtui.tui.app import LmtuiApp

LOOK_S = 0.2


async def perform(app: LmtuiApp, configs: tuple[Config, Config], notes: Sequence[str]) -> None:
    """Do the unguided and the guided run, which share a loaded engine, and show the comparison.

    Each is shown as it starts, and the comparison at the end, to who still watches the run before; to others it is
    said. A baseline that was stopped, or failed, ends it.

    Raises:
        LmtuiError: A run could not be started.
    """
    app.say("Two runs of the same plan, without guided decoding and with it; then they are compared")
    series = Series()
    try:
        free = await asyncio.to_thread(series.start, configs[0], notes)
        app.take_run(free)
        phase = await _until_over(free)
        if phase != "done":
            app.say(f"{free.run_id}, the run without guided decoding, ended as {phase}: the guided run is not started")
            return
        guided = await asyncio.to_thread(lambda: series.start(configs[1], notes, is_last=True))
        app.take_run(guided, instead_of=free)
        if await _until_over(guided) == "done":
            app.compare_runs((free.run_id, guided.run_id))
    finally:
        await asyncio.to_thread(series.__exit__)


async def _until_over(run: RunDirectory) -> str:
    """Return the phase in which a run ended."""
    while True:
        status = await asyncio.to_thread(runs.current, run)
        if status.is_final:
            return status.phase
        await asyncio.sleep(LOOK_S)
