"""`lmtui doctor` looks at what an LMDeploy engine needs, as a run does before it loads anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui.cli import main
from lmtui.errors import TARGET
from lmtui.targets import lmdeploy_preflight
from lmtui.targets.lmdeploy_preflight import Finding


def test_the_preflight_s_findings_are_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    told = [Finding("layout", "ok", "2 of 8 GPUs"), Finding("driver", "fail", "No driver", "install one")]
    monkeypatch.setattr(lmdeploy_preflight, "findings", lambda config: iter(told))
    assert main(["doctor", "lmdeploy-engine", "--json"]) == TARGET
    checks = json.loads(capsys.readouterr().out)
    assert [(check["name"], check["state"], check["found"], check["remedy"]) for check in checks[-2:]] == [
        ("layout", "ok", "2 of 8 GPUs", ""),
        ("driver", "fail", "No driver", "install one"),
    ]


def test_lmdeploy_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    monkeypatch.setattr(lmdeploy_preflight, "findings", lambda config: iter([Finding("lmdeploy", "ok", "0.18.0")]))
    main(["doctor", "lmdeploy-engine", "--json"])
    checks = json.loads(capsys.readouterr().out)
    assert [check["found"] for check in checks if check["name"] == "lmdeploy"] == ["0.18.0"]
