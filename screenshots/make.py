"""Make the pictures of the README from real runs: `python screenshots/make.py`.

It runs the preset `quickstart` at four concurrencies, for something to compare and plot, and then in the application
itself, driven by its keys, in a home of its own; it takes every screen at 80×24 and 120×40 as SVG and PNG.
`pictures.json` says which run the live screens show: its run_id, grade and version. PNG needs a monospace font with
braille, such as DejaVu Sans Mono.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import resvg_py
from textual.pilot import Pilot

from lmtui import __version__, headless
from lmtui.config import store
from lmtui.tui.app import LmtuiApp

HERE = Path(__file__).parent
SIZES = ((80, 24), (120, 40))
FONT = "DejaVu Sans Mono"
GIVE_UP_S = 120.0
CONCURRENCIES = (1, 2, 4, 16)
"""Of the runs that are there to compare and to plot."""
RUN_SHARE = 0.6
"""The live screen is taken when this share of the requests is done."""


async def until(pilot: Pilot[None], holds: Callable[[], bool], key: str = "") -> None:
    """Let the application work until `holds`, pressing the key from time to time when one is given."""
    give_up = time.monotonic() + GIVE_UP_S
    while not holds():
        if time.monotonic() > give_up:
            raise TimeoutError("the application did not come to the next picture")
        if key:
            await pilot.press(key)
        await pilot.pause(0.2)
    await pilot.pause(0.5)


def take(app: LmtuiApp, name: str, width: int, height: int) -> str:
    """Write the screen as SVG and PNG; return the name of the pictures."""
    stem = f"{name}-{width}x{height}"
    svg = app.export_screenshot(title=f"lmtui {__version__}")
    svg = re.sub(r"terminal-\d+", "terminal-lmtui", svg)
    (HERE / f"{stem}.svg").write_text(svg, encoding="utf-8")
    plain = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", FONT)
    (HERE / f"{stem}.png").write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=plain, monospace_family=FONT)))
    return stem


async def tour(width: int, height: int) -> tuple[list[str], str]:
    """Go through the screens at one size; return the pictures and the run they show."""
    app = LmtuiApp()
    pictures: list[str] = []
    async with app.run_test(size=(width, height)) as pilot:

        def picture(name: str) -> None:
            pictures.append(take(app, name, width, height))

        await until(pilot, lambda: app.screen.id == "_default" or len(app.screen_stack) > 1)
        picture("configs")
        await pilot.press("r")
        await until(pilot, lambda: _done_share(app) >= RUN_SHARE)
        picture("live")
        await until(pilot, lambda: _is_over(app))
        await pilot.pause(1.0)
        picture("done")
        await until(pilot, lambda: _place(app) == "details", "enter")
        picture("details")
        await pilot.press("escape")
        await pilot.press("d")
        await pilot.press("h")
        await until(pilot, lambda: _place(app) == "results")
        picture("results")
        await pilot.press("question_mark")
        await until(pilot, lambda: _place(app) not in ("results", "configs"))
        picture("help")
        await pilot.press("escape")
        await pilot.press("p")
        await until(pilot, lambda: _place(app) == "plot")
        picture("plot")
        await pilot.press("escape", "home", "space", "down", "space", "c")
        await until(pilot, lambda: _place(app) == "compare")
        picture("compare")
        await pilot.press("escape")
        await until(pilot, lambda: _place(app) != "compare")
        await pilot.press("escape")
        await pilot.press("q")
        await pilot.press("n")
        await pilot.pause(0.5)
        picture("new")
        await pilot.press("escape")
        await pilot.press("home", "e")
        await until(pilot, lambda: _place(app) == "form")
        await pilot.press("tab", "tab")
        await pilot.pause(0.3)
        picture("form")
        run = app.last_run
    assert run is not None
    return pictures, run.run_id


def runs_before() -> None:
    """Do the runs that stand in the history before the application is opened."""
    for concurrency in CONCURRENCIES:
        sets = (f"load.concurrency={concurrency}", f"load.num_prompts={40 + 10 * concurrency}")
        config, notes = store.resolve("quickstart", sets)
        directory, _ = headless.perform(config, notes, quiet=False)
        print(f"{concurrency} in flight: {directory.run_id}", file=sys.stderr)


def _place(app: LmtuiApp) -> str:
    return str(getattr(app.screen, "PLACE", ""))


def _done_share(app: LmtuiApp) -> float:
    status = app.last_run.status() if app.last_run else None
    return status.counts.done / status.counts.planned if status and status.counts.planned else 0.0


def _is_over(app: LmtuiApp) -> bool:
    return app.last_run is not None and app.last_run.result() is not None


def main() -> int:
    """Make all pictures."""
    made = []
    with tempfile.TemporaryDirectory(prefix="lmtui-pictures-") as home:
        os.environ["LMTUI_HOME"] = home
        os.environ["COLORTERM"] = "truecolor"
        os.environ.pop("NO_COLOR", None)
        from lmtui.runner import runs

        runs_before()
        for width, height in SIZES:
            pictures, run_id = asyncio.run(tour(width, height))
            result = runs.find(run_id).result()
            assert result is not None
            made.append(
                {
                    "pictures": pictures,
                    "run_id": run_id,
                    "config": result.name,
                    "grade": result.client.grade,
                    "reasons": list(result.client.reasons),
                    "version": __version__,
                }
            )
            print(f"{width}×{height}: {len(pictures)} pictures of {run_id} ({result.client.grade})", file=sys.stderr)
    (HERE / "pictures.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
