"""Whole runs against the real `transformers serve`, as a user starts them: it refuses `ignore_eos` with 422."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import RunningServer

pytestmark = pytest.mark.slow

REQUESTS, OUTPUT_LEN = 12, 8


@pytest.fixture
def server(transformers_server: RunningServer) -> RunningServer:
    return transformers_server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def lmtui(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "lmtui", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def config_file(folder: Path, server: RunningServer, api: str) -> str:
    """Write a config of this server; `request.ignore_eos` is left at its default, true."""
    path = folder / "server-config.toml"
    path.write_text(
        f"""
schema = 1
name = "serve"
[target]
kind = "server"
preset = "openai"
base_url = "{server.base_url}"
api = "{api}"
[dataset]
kind = "random"
input_len = 12
output_len = {OUTPUT_LEN}
[load]
concurrency = 4
num_prompts = {REQUESTS}
"""
    )
    return str(path)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_run_succeeds_and_tells_what_the_server_refused(server: RunningServer, api: str, tmp_path: Path) -> None:
    done = lmtui("run", config_file(tmp_path, server, api), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    assert result["phase"] == "done"
    assert result["target"]["model"] == server.model
    assert result["target"]["dropped_fields"] == ["request.ignore_eos"]
    (told,) = [note for note in result["notes"] if "ignore_eos" in note]
    assert "rejects ignore_eos" in told
    assert "left out" in told

    assert result["outcomes"]["ok"] == REQUESTS
    assert sum(result["outcomes"].values()) == REQUESTS
    metrics = result["metrics"]
    assert metrics["completed"] == REQUESTS
    assert result["tokens_from"] == "usage"
    (listed,) = json.loads(lmtui("runs", "--json").stdout)
    assert listed["planned"] == listed["done"] == sum(result["outcomes"].values())

    table = tmp_path / "requests.csv"
    exported = lmtui("export", "last", "--to", str(table))
    assert exported.returncode == 0, exported.stderr
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["index"]) for row in rows] == list(range(REQUESTS))
    counted = [int(row["output_tokens"]) for row in rows]
    # Without ignore_eos an answer may stop before; it never has more than were asked for.
    assert all(1 <= tokens <= OUTPUT_LEN for tokens in counted)
    assert metrics["total_output_tokens"] == sum(counted)
    assert {row["token_source"] for row in rows} == {"usage"}
    assert {row["outcome"] for row in rows} == {"ok"}
    assert all(int(row["server_input_tokens"]) > 0 for row in rows)


def test_a_refused_field_that_may_not_be_left_out_ends_the_run(server: RunningServer, tmp_path: Path) -> None:
    file = config_file(tmp_path, server, "completions")
    done = lmtui("run", file, "--json", "--set", "target.drop_rejected=false")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    (told,) = [line for line in done.stderr.splitlines() if "HTTP 422" in line]
    for words in (
        f"POST {server.base_url}/v1/completions",
        "The server rejects request.ignore_eos: change it",
        "set target.drop_rejected to true",
    ):
        assert words in told
    # What it says helps, both ways.
    for cure in ("request.ignore_eos=false", "target.drop_rejected=true"):
        again = lmtui("run", file, "--json", "--set", "target.drop_rejected=false", "--set", cure)
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["outcomes"]["ok"] == REQUESTS


def test_a_line_of_a_dataset_asks_for_its_own_model(server: RunningServer, tmp_path: Path) -> None:
    lines = [{"prompt": "hello there", "output_len": OUTPUT_LEN} for _ in range(REQUESTS)]
    lines[2]["model"], lines[5]["model"] = server.model, "another"
    dataset = tmp_path / "prompts.jsonl"
    dataset.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    keys = ["dataset.kind=jsonl", f"dataset.path={dataset}", "dataset.input_len=null", "dataset.output_len=null"]
    arguments = [config_file(tmp_path, server, "chat"), "--json", *(word for key in keys for word in ("--set", key))]
    planned = json.loads(lmtui("plan", *arguments).stdout)["requests"]
    assert {request["index"]: request["model"] for request in planned if "model" in request} == {
        2: server.model,
        5: "another",
    }
    done = lmtui("run", *arguments)
    result = json.loads(done.stdout)
    assert (result["outcomes"]["ok"], result["outcomes"]["http_error"]) == (REQUESTS - 1, 1)
    (group,) = result["errors"]
    assert "pinned to" in group["message"]
    assert any("2 of 12 lines name their own model" in note for note in result["notes"])
