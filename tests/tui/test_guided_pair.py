"""A guided config, run from the first screen against a server: both runs, watched, then compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui import paths
from lmtui.config import store
from lmtui.config.document import Document
from lmtui.results import history
from lmtui.tui.app import LmtuiApp
from lmtui.tui.screens.compare import CompareScreen
from lmtui.tui.screens.configs import ConfigsScreen
from lmtui.tui.screens.live import LiveScreen
from tests.targets.fake_server import FakeServer, Reply, Seen, answer, fake_server
from tests.tui.driving import screen_text, settle

pytestmark = pytest.mark.slow
REQUESTS = 40


def save_guided(base_url: str, folder: Path) -> None:
    schema = folder / "schema.json"
    schema.write_text(json.dumps({"type": "object"}))
    document = Document.parse(
        f"""
schema = 1
name = "guided"
[target]
kind = "server"
base_url = "{base_url}"
api = "chat"
[dataset]
kind = "random"
input_len = 8
output_len = 4
[load]
concurrency = 4
num_prompts = {REQUESTS}
[guided]
response_format = "json_schema"
json_schema_path = "{schema}"
""",
        "guided.toml",
    )
    store.save("guided", document)


def guided_posts(server: FakeServer) -> list[bool]:
    return ["response_format" in body for body in server.posts]


async def test_r_does_both_runs_and_compares_them(tmp_path: Path) -> None:
    with fake_server() as (server, base_url):
        save_guided(base_url, tmp_path)
        app = LmtuiApp()
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await settle(pilot, lambda: isinstance(app.screen, ConfigsScreen) and "guided" in screen_text(app))
            await pilot.press("r")
            await settle(pilot, lambda: isinstance(app.screen, CompareScreen) and "TTFT" in screen_text(app), 60.0)
            assert isinstance(app.screen_stack[-2], LiveScreen)
            rows = history.read(paths.history())
            assert [row.text("guided.response_format") for row in rows] == ["none", "json_schema"]
            text = screen_text(app)
            for label, row in zip("AB", rows, strict=True):
                assert f"{label}  {row.text('run_id')}" in text
        posts = guided_posts(server)
        assert posts == sorted(posts), "the unguided run is over before the guided one begins"
        assert posts.count(True) >= REQUESTS
        assert posts.count(False) >= REQUESTS


async def test_a_baseline_that_fails_ends_it(tmp_path: Path) -> None:
    def refuse(seen: Seen) -> Reply:
        return Reply(500, {"error": "broken"}) if seen.method == "POST" else answer(seen)

    with fake_server(refuse) as (server, base_url):
        save_guided(base_url, tmp_path)
        app = LmtuiApp()
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await settle(pilot, lambda: isinstance(app.screen, ConfigsScreen) and "guided" in screen_text(app))
            await pilot.press("r")
            await settle(pilot, lambda: "the guided run is not started" in screen_text(app), 60.0)
        assert not any(guided_posts(server))
