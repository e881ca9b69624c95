"""The built-in configs: each runs as it is, or says in one sentence what is missing."""

from __future__ import annotations

import shlex

import pytest

from lmtui.config import presets, store
from lmtui.config.command_line import command_line
from lmtui.errors import ConfigError


def test_every_file_is_listed() -> None:
    assert sorted(presets.names()) == sorted(file.stem for file in presets.FOLDER.glob("*.toml"))
    assert presets.names()[0] == "quickstart"


@pytest.mark.parametrize("name", presets.ORDER)
def test_a_preset_carries_its_name_and_explains_itself(name: str) -> None:
    document = presets.load(name)
    assert document.get("name") == name
    assert document.text().startswith("# ")
    assert all(len(line) <= 120 for line in document.text().splitlines())


@pytest.mark.parametrize("name", presets.ORDER)
def test_a_preset_runs_as_it_is(name: str) -> None:
    config, notes = store.resolve(name)
    assert config.name == name
    assert notes == ()


def test_servers_are_where_they_listen_by_default() -> None:
    ports = {name: store.resolve(name)[0].target.server_url for name in presets.ORDER if name.endswith("-server")}
    assert ports == {
        "lmdeploy-server": "http://127.0.0.1:23333",
        "vllm-server": "http://127.0.0.1:8000",
        "sglang-server": "http://127.0.0.1:30000",
    }


def test_a_loaded_preset_is_ones_own() -> None:
    presets.load("quickstart").set("load.concurrency", 1)
    assert presets.load("quickstart").get("load.concurrency") == 8


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(ConfigError, match="nope: is not a preset; there are quickstart"):
        presets.load("nope")


def test_the_command_line_of_a_form_holds_what_differs() -> None:
    document = presets.load("simulated")
    assert command_line(document, "simulated") == "lmtui run simulated"
    document.set("load.concurrency", 4)
    document.set("notes", "it's 5 $")
    document.set("target.env", {"A": "x y"})
    document.set("tags", ["a", "b"])
    document.set("name", "7")
    document.unset("target.step_ms")
    document.unset("target.kv_tokens")
    assert command_line(document, "simulated") == (
        "lmtui run simulated --set 'name=\"7\"' --set 'notes=it'\"'\"'s 5 $' --set 'tags=[\"a\", \"b\"]' "
        "--set 'target.env={A = \"x y\"}' --set target.step_ms=15.0 --set target.kv_tokens=null "
        "--set load.concurrency=4"
    )


@pytest.mark.parametrize("wrong", ["1e16", "-2e0", "1.0"])
def test_a_command_line_keeps_what_is_wrong_wrong(wrong: str) -> None:
    document = presets.load("simulated")
    document.set("load.num_prompts", float(wrong))
    again = presets.load("simulated")
    for assignment in shlex.split(command_line(document, "simulated"))[4::2]:
        again.assign(assignment)
    assert [problem.message for problem in again.check().problems] == [
        problem.message for problem in document.check().problems
    ]
    assert again.check().config is None
