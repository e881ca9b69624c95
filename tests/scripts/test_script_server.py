"""What the restful command finds out before it samples."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from lmtui.errors import TargetError
from lmtui.scripts import server
from tests.targets.fake_server import Reply, Seen, fake_server


def options(**given: Any) -> argparse.Namespace:
    missing = dict.fromkeys(("model", "model_path", "tokenizer", "base_url"))
    return argparse.Namespace(**{**missing, "backend": "sglang", **given})


@pytest.mark.parametrize(
    ("given", "tokenizer"),
    [
        ({"tokenizer": "t", "model_path": "p", "model": "m"}, "t"),
        ({"model_path": "p", "model": "m"}, "p"),
        ({"model": "m"}, "m"),
    ],
)
def test_the_tokenizer_is_the_one_given_else_the_models_path_else_its_name(
    given: dict[str, Any], tokenizer: str
) -> None:
    made = options(**given)
    assert server.name_tokenizer(made, "http://127.0.0.1:9") is None
    assert made.tokenizer == tokenizer
    assert made.model == given.get("model")


def test_with_neither_the_server_is_asked_for_its_first_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test")
    made = options()
    with fake_server() as (served, url):
        note = server.name_tokenizer(made, url)
        (seen,) = served.seen
    assert note == "no --tokenizer is given: that of the server's first model, fake-model, is loaded."
    assert (made.model, made.tokenizer) == ("fake-model", "fake-model")
    assert (seen.path, seen.headers["authorization"]) == ("/v1/models", "Bearer sk-of-this-test")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(500, {}), "500"),
        (Reply(body={"data": []}), "lists no model"),
        (Reply(body={"models": 3}), "lists no model"),
        (Reply(pieces=["not json"]), "lists no model"),
    ],
)
def test_a_server_that_does_not_tell_is_one_sentence(reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def answer(seen: Seen) -> Reply:
        return reply

    with fake_server(answer) as (_, url), pytest.raises(TargetError, match=words) as failed:
        server.name_tokenizer(options(), url)
    assert "give --model and --tokenizer" in str(failed.value)


def test_no_server_is_one_sentence() -> None:
    with pytest.raises(TargetError, match=r"no server at .*: start it, or correct --backend \(now sglang\), --host or"):
        server.name_tokenizer(options(), "http://127.0.0.1:9")
    with pytest.raises(TargetError, match=r"start it, or correct --base-url$"):
        server.name_tokenizer(options(base_url="http://127.0.0.1:9"), "http://127.0.0.1:9")


def test_a_model_without_a_chat_template_is_told(tmp_path: Path) -> None:
    assert server.template_note(None) is None
    assert server.template_note(str(tmp_path)) is None, "no tokenizer here: loading it will say so"
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    assert "has no chat template" in (server.template_note(str(tmp_path)) or "")
    settings.write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert server.template_note(str(tmp_path)) is None
    settings.write_text("{}")
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert server.template_note(str(tmp_path)) is None
    settings.write_text("{")
    assert server.template_note(str(tmp_path)) is None


@pytest.mark.parametrize("name", ["nobody/has-this-model", "a/b/c", "/nowhere/at/all", "fake-model"])
def test_a_model_that_is_not_here_is_not_told_about(name: str) -> None:
    assert server.template_note(name) is None
