"""`lmtui compare` and `lmtui export` end to end, over runs of the simulated engine on a virtual clock."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT_CSV = (
    "backend,bs,dataset_name,sharegpt_output_len,random_input_len,random_output_len,random_range_ratio,num_prompts,"
    "completed,total_input_tokens,total_output_tokens,duration,request_throughput,input_throughput,output_throughput,"
    "mean_e2e_latency_ms,mean_ttft_ms,mean_tpot_ms,mean_itl_ms\n"
    "pytorch,64,random,,512,128,0.5,200,200,76000,19000,20.0,10.0,3800.0,950.0,2400.0,150.0,25.0,25.0\n"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    return tmp_path


def lmtui(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "lmtui", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def run(*sets: str) -> dict[str, Any]:
    """Run the simulated engine and return its result."""
    flags = [flag for one in ("target.clock=virtual", "load.num_prompts=120", *sets) for flag in ("--set", one)]
    done = lmtui("run", "simulated", *flags, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_two_runs_side_by_side(home: Path) -> None:
    slow, fast = run(), run("target.step_ms=5.0")
    done = lmtui("compare", slow["run_id"], fast["run_id"], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["run_id"] for one in found["runs"]] == [slow["run_id"], fast["run_id"]]
    assert found["warnings"] == []
    assert [(one["key"], one["values"]) for one in found["differs"]] == [("target.step_ms", ["15.0", "5.0"])]
    lines = {one["figure"]["column"]: one for one in found["lines"]}
    for column in ("output_throughput", "tpot_ms.p50", "itl_ms.mean", "e2e_ms.p99"):
        sample, _, name = column.rpartition(".")
        values = [(one["metrics"][sample] if sample else one["metrics"])[name] for one in (slow, fast)]
        assert lines[column]["values"] == values
        assert lines[column]["best"] == 1
        assert lines[column]["changes"][0]["verdict"] == "better"
    low, high = lines["e2e_ms.p50"]["changes"][0]["interval"]
    assert low < lines["e2e_ms.p50"]["changes"][0]["absolute"] < high < 0

    text = lmtui("compare", slow["run_id"][:-1], "last", "--ascii").stdout
    assert "target.step_ms: A 15.0, B 5.0" in text
    assert text.count("SIMULATED") == 2
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


def test_a_terminal_without_unicode_gets_ascii(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    done = lmtui("compare", "last", "last")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "B - A" in done.stdout


def test_the_same_plan_twice_has_no_winner(home: Path) -> None:
    first, second, third = run(), run(), run("seed=1")
    found = json.loads(lmtui("compare", first["run_id"], second["run_id"], third["run_id"], "--json").stdout)
    judged = [one for one in found["lines"] if one["changes"][0]["verdict"] is not None]
    assert judged
    assert {one["changes"][0]["verdict"] for one in judged} == {"same"}
    assert any("seed: A 0, B 0, C 1" in warning for warning in found["warnings"])


def test_an_imported_row_and_a_run_whose_folder_is_gone(home: Path) -> None:
    kept, gone = run(), run()
    shutil.rmtree(home / "runs" / gone["run_id"])
    (home / "script.csv").write_text(SCRIPT_CSV)
    assert lmtui("import", str(home / "script.csv")).returncode == 0
    imported = json.loads(lmtui("results", "--json").stdout)[-1]["run_id"]
    found = json.loads(lmtui("compare", kept["run_id"], gone["run_id"], imported, "--json").stdout)
    assert [one["has_requests"] for one in found["runs"]] == [True, False, False]
    (tokens,) = (one for one in found["lines"] if one["figure"]["column"] == "output_throughput")
    assert tokens["values"] == [kept["metrics"]["output_throughput"]] * 2 + [950.0]
    assert any("C is not" in warning for warning in found["warnings"]), "one is simulated, one is not"
    refused = lmtui("export", imported, "--to", str(home / "x.md"))
    assert refused.returncode == 2
    assert imported in refused.stderr


def test_exports_hold_the_run(home: Path) -> None:
    result = run("cancel.rate=0.3")
    for ending in ("csv", "json", "md"):
        done = lmtui("export", "last", "--to", str(home / f"run.{ending}"))
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert f"run.{ending}" in done.stderr
    held = json.loads((home / "run.json").read_text())
    requests = held.pop("requests")
    assert held == result == json.loads(lmtui("show", "last", "--json").stdout)
    rows = list(csv.DictReader((home / "run.csv").read_text().splitlines()))
    assert len(rows) == len(requests) == 120
    for outcome in ("ok", "cancelled"):
        assert sum(row["outcome"] == outcome for row in rows) == result["outcomes"][outcome]
    assert sum(int(row["output_tokens"]) for row in rows) == result["metrics"]["all_output_tokens"]
    report = (home / "run.md").read_text()
    assert "SIMULATED" in report
    assert "| `cancel.rate` | 0.3 |" in report

    again = run("cancel.rate=0.3")
    both = [again["run_id"], result["run_id"]]
    done = lmtui("export", *both, "--to", str(home / "both.csv"))
    assert (done.returncode, done.stderr) == (0, f"{', '.join(both)} exported to {home / 'both.csv'}\n")
    rows = list(csv.DictReader((home / "both.csv").read_text().splitlines()))
    assert [row["run_id"] for row in rows] == [name for name in both for _ in range(120)]

    assert lmtui("export", "last", "--to", str(home / "ticks.json"), "--ticks").returncode == 0
    ticked = json.loads((home / "ticks.json").read_text())["requests"]
    assert all(len(row["tick_s"]) == row["ticks"] for row in ticked)


def test_what_the_user_can_mend_is_a_sentence(home: Path) -> None:
    run()
    (home / "there.md").write_text("mine")
    for arguments, words in (
        (["compare", "last"], "required: B"),
        (["compare", "last", "nosuch"], "no run has the id nosuch"),
        (["export", "last"], "--to"),
        (["export", "nosuch", "--to", str(home / "x.md")], "nosuch"),
        (["export", "last", "--to", str(home / "x.html")], "not built yet"),
        (["export", "last", "--to", str(home / "x.txt")], ".csv, .json or .md"),
        (["export", "last", "--to", str(home / "no" / "x.md")], "no folder"),
        (["export", "last", "--to", str(home / "there.md")], "--force"),
    ):
        done = lmtui(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    assert (home / "there.md").read_text() == "mine"
    assert lmtui("export", "last", "--to", str(home / "there.md"), "--force").returncode == 0
    assert (home / "there.md").read_text().startswith("# simulated")
