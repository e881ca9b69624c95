"""The README's promises that a machine can check: the key table, the pictures, the commands it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lmtui.cli import main
from lmtui.config import presets
from lmtui.tui.keys import markdown_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_key_table_is_the_applications() -> None:
    assert markdown_table() in README


def test_every_picture_is_there_and_says_which_run_it_shows() -> None:
    linked = set(re.findall(r"screenshots/([\w-]+)\.png", README))
    assert linked
    made = json.loads((ROOT / "screenshots" / "pictures.json").read_text(encoding="utf-8"))
    assert linked <= {name for row in made for name in row["pictures"]}
    for row in made:
        assert {"run_id", "grade", "version"} <= row.keys()
        for name in row["pictures"]:
            assert (ROOT / "screenshots" / f"{name}.png").stat().st_size > 10_000
            assert "<svg" in (ROOT / "screenshots" / f"{name}.svg").read_text(encoding="utf-8")


def test_no_place_is_left_to_fill() -> None:
    assert not re.findall(r"\b[A-Z]+_TABLE\b", README)
    assert re.search(r"^streams +chunks/s +TTFT mean", README, re.MULTILINE), "the selftest's table"


def test_the_presets_it_runs_exist() -> None:
    named = set(re.findall(r"lmtui (?:run|plan|doctor) ([a-z][\w-]+)", README)) - {"last"}
    assert named <= set(presets.names())


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"(?:`|^|&& |do )lmtui ([a-z-]+)", README, re.MULTILINE)) - {"measures"})
)
def test_the_commands_it_names_have_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert "usage" in capsys.readouterr().out
