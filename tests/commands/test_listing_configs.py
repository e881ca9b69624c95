"""`lmtui configs` and `lmtui doctor`: one broken file or one missing server does not spoil the rest."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from lmtui import doctor
from lmtui.cli import main
from lmtui.config import store
from lmtui.config.document import Document
from lmtui.config.presets import load
from lmtui.errors import TARGET, USAGE

TEXT = 'name = "fine"\n[target]\nkind = "simulated"\n[dataset]\ninput_len = 8\noutput_len = 8\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))


def test_a_broken_file_is_a_row_with_its_problem(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("aaa", "fine", "zzz"):
        store.save(name, Document.parse(TEXT, "t"))
    store.path("broken").write_text("name = ")
    store.path("binary").write_bytes(b"\xff")
    store.path("folder").mkdir()
    assert main(["configs", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"aaa", "binary", "broken", "fine", "folder", "zzz", "quickstart"} <= rows.keys()
    assert all(rows[name]["problems"] == [] for name in ("aaa", "fine", "zzz"))
    for name in ("binary", "broken", "folder"):
        (problem,) = rows[name]["problems"]
        assert problem.startswith(f"{store.path(name)}: ")
        assert rows[name]["kind"] is None
    assert main(["configs"]) == 0
    assert "no: `lmtui plan broken` says why" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["run", "broken"], ["plan", "broken"]])
def test_a_broken_file_is_what_is_answered_about(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    store.path("aaa").write_text("also = broken = ")
    store.path("broken").write_text("name = ")
    assert main(command) == USAGE
    told = capsys.readouterr().err
    assert f"{store.path('broken')}: not TOML" in told
    assert "aaa" not in told


def test_doctor_waits_for_no_server(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SERVER_WITHIN_S", 0.6)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    document = load("vllm-server")
    document.set("target.base_url", f"http://127.0.0.1:{port}")
    store.save("mine", document)
    assert main(["doctor", "mine", "--json"]) == TARGET
    out, err = capsys.readouterr()
    (server,) = [check for check in json.loads(out) if check["name"] == "server"]
    assert "did not answer within 0.6 s" in server["found"]
    assert len([line for line in err.splitlines() if "waiting for" in line]) == 1
