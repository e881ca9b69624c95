"""The script commands' flags beside what LMDeploy's parsers were seen to have, recorded in tests/data/script_flags.

`source` of a recorded flag: `script` (its own argument), `ArgumentHelper` (LMDeploy's shared ones, which the script
calls), `reported` (ArgumentHelper's, known to be in newer releases of the script).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmtui.config.declared import by_key
from lmtui.config.script_flags import QUANT_POLICIES, SCRIPTS, Flag, Script
from lmtui.scripts.parser import fill, quant_policy

FACTS = Path(__file__).parents[1] / "data" / "script_flags"
OWN = {"--dry-run", "--json", "--tui", "-h", "--help"}
COMMANDS = list(SCRIPTS)


def recorded(command: str) -> list[dict[str, Any]]:
    flags: list[dict[str, Any]] = json.loads((FACTS / f"{command}.json").read_text())["flags"]
    return flags


def parser_of(script: Script) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=script.command)
    fill(parser, script)
    return parser


def actions(command: str) -> dict[str, argparse.Action]:
    found: dict[str, argparse.Action] = {}
    for action in parser_of(SCRIPTS[command])._actions:
        for name in action.option_strings or [action.dest]:
            found[name] = action
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_of_the_script_is_there_with_its_type_choices_and_default(command: str) -> None:
    ours = actions(command)
    for fact in recorded(command):
        for name in fact["names"]:
            assert name in ours, f"{command} lacks {name}"
        action = ours[fact["names"][0]]
        assert action.option_strings == [name for name in fact["names"] if name.startswith("-")]
        assert action.dest == fact["dest"]
        assert action.required is fact["required"]
        assert action.nargs == fact["nargs"]
        assert isinstance(action, argparse._StoreTrueAction) is (fact["action"] == "store_true")
        assert action.default == (math.inf if fact["default"] == "inf" else fact["default"]), fact["names"]
        assert (None if action.choices is None else set(action.choices)) == (
            None if fact["choices"] is None else set(fact["choices"])
        ), fact["names"]
        types: dict[Any, str | None] = {int: "int", float: "float", str: "str", None: None}
        kind = types.get(action.type, "function")
        assert kind == fact["type"], fact["names"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_flag_is_invented(command: str) -> None:
    known = {name for fact in recorded(command) for name in fact["names"]}
    extra = {name for name in actions(command) if name not in known}
    assert extra == (OWN | {"--yes"} if command == "profile-restful-api" else OWN), "it alone downloads"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_help_is_one(command: str) -> None:
    parser = parser_of(SCRIPTS[command])
    example = SCRIPTS[command].example
    parser.parse_args(example.split())
    said = " ".join(parser.format_help().split())
    assert f"example: lmtui {command} {example}" in said
    assert "(default: " in said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_a_key_or_says_what_it_does(command: str) -> None:
    for flag in SCRIPTS[command].flags:
        assert bool(flag.key) != bool(flag.does), flag.names
        if flag.key:
            assert by_key(flag.key) is not None, flag.key
    for key in SCRIPTS[command].fixed:
        assert by_key(key) is not None, key


@pytest.mark.parametrize("command", COMMANDS)
def test_choices_that_set_a_key_are_choices_of_the_key(command: str) -> None:
    for flag in SCRIPTS[command].flags:
        declared = by_key(flag.key) if flag.key else None
        if declared is not None and flag.choices:
            assert set(flag.choices) <= set(declared.declaration.choices), flag.names


@pytest.mark.parametrize(("text", "number"), [*QUANT_POLICIES.items(), ("INT8", 8), ("0", 0), ("42", 42)])
def test_a_quant_policy_is_a_word_or_its_number(text: str, number: int) -> None:
    assert quant_policy(text) == number


@pytest.mark.parametrize("text", ["int5", "5", "-4", ""])
def test_a_wrong_quant_policy_is_an_error_of_the_parser(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parser_of(SCRIPTS["profile-throughput"]).parse_args(["data", "model", f"--quant-policy={text}"])
    assert left.value.code == 2
    assert "turbo_quant" in capsys.readouterr().err


def test_positionals_come_anywhere_as_in_the_script() -> None:
    parser = parser_of(SCRIPTS["profile-throughput"])
    options = parser.parse_args(["-c", "4", "data.json", "-temp", "0.5", "model", "--async", "0"])
    assert (options.dataset, options.model_path) == ("data.json", "model")
    assert (options.concurrency, options.temperature, options.async_) == (4, 0.5, 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_there_without_anything_heavy(command: str) -> None:
    program = (
        "import sys; from lmtui.cli import main\n"
        "try: main([sys.argv[1], '--help'])\n"
        "except SystemExit as left: assert left.code == 0\n"
        "heavy = {'numpy', 'httpx', 'textual', 'pydantic', 'tomlkit', 'transformers', 'torch', 'lmdeploy'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "HEAVY []" in done.stdout
    for flag in SCRIPTS[command].flags:
        assert flag.names[-1] in done.stdout or flag.is_positional


RECORD = """
import argparse, json, sys
from lmdeploy.cli.utils import ArgumentHelper
wanted, told = json.load(sys.stdin), {}
for helper, given in wanted:
    parser = argparse.ArgumentParser(add_help=False)
    getattr(ArgumentHelper, helper)(parser, **given)
    types = {None: None, int: "int", float: "float", str: "str"}
    told[helper] = [
        {"names": a.option_strings, "dest": a.dest, "type": types.get(a.type, "function"), "nargs": a.nargs,
         "choices": None if a.choices is None else list(a.choices), "default": a.default, "required": a.required}
        for a in parser._actions
    ]
print("TOLD", json.dumps(told))
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_record_is_what_the_installed_lmdeploy_has(command: str) -> None:
    """A newer LMDeploy with another flag or default fails here, and says which."""
    facts = [fact for fact in recorded(command) if "helper" in fact]
    wanted = [(fact["helper"], fact.get("with", {})) for fact in facts]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RECORD], input=json.dumps(wanted), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.rpartition("TOLD ")[2])
    for helper in told:
        here = {fact["names"][0]: fact for fact in facts if fact["helper"] == helper}
        assert [flag["names"][0] for flag in told[helper]] == list(here), f"ArgumentHelper.{helper}"
        for flag in told[helper]:
            fact = here[flag["names"][0]]
            assert {name: fact[name] for name in flag} == flag, f"ArgumentHelper.{helper}"


def test_a_flag_knows_its_name_on_the_options() -> None:
    assert Flag(("-c", "--cache-max"), "").attribute == "cache_max"
    assert Flag(("--async",), "", dest="async_").attribute == "async_"
    assert Flag(("dataset",), "").is_positional
