"""What outputs are held to, as engines and servers are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.errors import ConfigError, TargetError
from lmtui.targets import guided
from lmtui.targets.server_body import BodyMaker
from lmtui.workload.plan import PlannedRequest


def config(preset: str = "lmdeploy", **keys: Any) -> Config:
    return Config.model_validate(
        {
            "name": "x",
            "target": {"kind": "server", "api": "chat", "preset": preset},
            "dataset": {"input_len": 8, "output_len": 8},
            "guided": {"baseline": False, **keys},
        }
    )


def test_free_outputs_are_asked_for_nothing() -> None:
    assert guided.response_format(config()) is None
    assert guided.server_fields(config()) == {}
    guided.refuse_uncompilable(None)


def test_the_scripts_own_formats_where_none_is_given() -> None:
    schema = guided.response_format(config(response_format="json_schema"))
    assert schema is not None
    assert schema["json_schema"]["name"] == "benchmark"
    assert schema["json_schema"]["schema"]["required"] == ["answer"]
    regex = guided.response_format(config(response_format="regex_schema"))
    assert regex == {"type": "regex_schema", "regex_schema": guided.REGEX}
    for wanted in (schema, regex, guided.response_format(config(response_format="json_object"))):
        guided.refuse_uncompilable(wanted)


def test_ones_own_schema_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}}))
    wanted = guided.response_format(config(response_format="json_schema", json_schema_path=str(file)))
    assert wanted is not None
    assert wanted["json_schema"]["schema"]["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_file_that_holds_no_schema_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"guided\.json_schema_path = "):
        guided.response_format(config(response_format="json_schema", json_schema_path=str(file)))


def test_a_schema_that_cannot_be_compiled_is_refused() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    with pytest.raises(TargetError, match=r"guided\.json_schema_path cannot be compiled into a grammar"):
        guided.refuse_uncompilable(wanted)


@pytest.mark.parametrize(
    ("preset", "field"),
    [
        ("lmdeploy", {"response_format": {"type": "regex_schema", "regex_schema": "a+"}}),
        ("vllm", {"structured_outputs": {"regex": "a+"}}),
        ("sglang", {"regex": "a+"}),
    ],
)
def test_servers_are_asked_by_their_own_names(preset: str, field: dict[str, Any]) -> None:
    made = BodyMaker(config(preset, response_format="regex_schema", regex="a+"), "m", {})
    body = made.fields(PlannedRequest(index=0, prompt="hi", output_len=5))
    assert body.items() >= field.items()
    assert body["ignore_eos"] is True
    assert made.ignores_eos is False  # the grammar may end the answer all the same
