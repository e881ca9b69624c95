"""The draft of a config: fields, errors, choices; what was typed stays."""

from __future__ import annotations

import pytest

from lmtui.config import presets
from lmtui.config.document import Document
from lmtui.tui.form_model import Draft, Field


def draft(preset: str = "quickstart", *, is_saved: bool = False) -> Draft:
    return Draft(presets.load(preset), preset, is_saved=is_saved)


def field(of: Draft, key: str) -> Field:
    return next(f for f in of.fields(None) if f.key == key)


def test_fields_of_other_targets_are_hidden() -> None:
    of = draft("simulated")
    keys = {f.key for f in of.fields(None)}
    assert "target.step_ms" in keys
    assert "target.base_url" not in keys
    of.commit("target.kind", "server")
    keys = {f.key for f in of.fields(None)}
    assert "target.step_ms" not in keys
    assert "target.base_url" in keys
    assert of.document.get("target.step_ms") == 15.0, "changing the kind loses nothing"


@pytest.mark.parametrize(
    ("key", "typed", "value"),
    [
        ("load.concurrency", "16", 16),
        ("load.rate", "4", 4),
        ("load.rate", "inf", float("inf")),
        ("load.workers", "auto", "auto"),
        ("load.workers", "2", 2),
        ("notes", "64", "64"),
        ("notes", "true", "true"),
        ("tags", "a, b", ["a", "b"]),
        ("request.ignore_eos", "false", False),
        ("slo.ttft_ms", "200", 200),
        ("slo.ttft_ms", "none", None),
        ("target.env", '{ A = "1" }', {"A": "1"}),
    ],
)
def test_what_is_typed_becomes_a_value(key: str, typed: str, value: object) -> None:
    of = draft()
    of.commit(key, typed)
    assert of.document.get(key) == value
    assert of.checked.config is not None, of.checked.problems


def test_what_is_wrong_stays_as_typed_and_says_why_in_its_row() -> None:
    of = draft()
    of.commit("load.concurrency", "many")
    wrong = field(of, "load.concurrency")
    assert wrong.value == "many"
    assert wrong.error.startswith("must be a whole number")
    assert of.first_error() == ("load", "load.concurrency")
    assert next(row for row in of.sections() if row.section == "load").errors == 1
    of.commit("load.concurrency", "0")
    assert "at least 1" in field(of, "load.concurrency").error
    of.unset("load.concurrency")
    assert field(of, "load.concurrency").value == "64"
    assert of.first_error() is None


def test_choices_go_round() -> None:
    of = draft()
    assert of.shown_value("load.mode") == "closed"
    assert of.step("load.mode", 1)
    assert of.shown_value("load.mode") == "open"
    assert of.step("load.mode", -1)
    assert of.step("load.mode", -1)
    assert of.shown_value("load.mode") == "trace"
    assert of.step("request.ignore_eos", 1)
    assert of.document.get("request.ignore_eos") is False
    assert not of.step("load.concurrency", 1)


def test_changed_fields_are_those_that_differ() -> None:
    of = draft()
    of.commit("load.concurrency", "64")
    assert not field(of, "load.concurrency").is_changed
    of.commit("load.concurrency", "65")
    assert field(of, "load.concurrency").is_changed
    assert "load.concurrency" in {f.key for f in of.fields(None, changed_only=True)}


def test_fields_are_found_by_words_keys_and_flags() -> None:
    of = draft()
    for words in ("concurr", "load.concurrency", "--concurrency"):
        assert "load.concurrency" in {f.key for f in of.fields(None, words=words)}


def test_saved_and_edited() -> None:
    of = draft(is_saved=True)
    assert (of.is_saved, of.is_edited) == (True, False)
    of.commit("notes", "x")
    assert (of.is_saved, of.is_edited) == (False, True)
    of.saved("quickstart")
    assert (of.is_saved, of.is_edited) == (True, False)
    assert not draft().is_saved, "a preset has no file of the user's"
    assert not draft().is_edited


def test_comments_stay_and_unknown_keys_are_told() -> None:
    of = Draft(
        Document.parse('# mine\nname = "a"\nbogus = 1\n[target]\nkind = "simulated"\n', "test"), "a", is_saved=True
    )
    of.commit("load.concurrency", "3")
    assert "# mine" in of.document.text()
    assert any("bogus" in error for error in of.stray_errors)


def test_every_field_can_be_shown_and_said() -> None:
    for preset in presets.names():
        of = draft(preset)
        for row in of.sections():
            assert of.fields(row.section)
        for f in of.fields(None):
            about = of.about(f.key)
            assert len(about) == 2
            assert f.key in about[1]
