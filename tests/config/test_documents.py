"""The TOML a user has: comments and mistakes kept, sets, and errors that name key, value and remedy."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lmtui.config.document import Document
from lmtui.errors import ConfigError

TEXT = """\
# Nightly run.
name = "nightly"  # also the file

[target]
kind = "simulated"  # no GPU needed

[load]
# what the router allows
concurrency = 8
"""


def messages(text: str) -> list[str]:
    return [problem.message for problem in Document.parse(text, "a.toml").check().problems]


def test_comments_order_and_spacing_are_kept() -> None:
    document = Document.parse(TEXT, "a.toml")
    assert document.text() == TEXT
    document.set("load.concurrency", 16)
    assert document.text() == TEXT.replace("concurrency = 8", "concurrency = 16")


def test_a_new_key_goes_into_its_section_and_a_new_section_to_the_end() -> None:
    document = Document.parse(TEXT, "a.toml")
    document.set("load.num_prompts", 5)
    document.set("cancel.rate", 0.5)
    document.set("seed", 3)
    again = Document.parse(document.text(), "a.toml")
    assert again.values() == {
        "name": "nightly",
        "seed": 3,
        "target": {"kind": "simulated"},
        "load": {"concurrency": 8, "num_prompts": 5},
        "cancel": {"rate": 0.5},
    }
    assert "# what the router allows\nconcurrency = 8\nnum_prompts = 5\n" in document.text()


def test_what_was_typed_wrong_is_kept() -> None:
    document = Document.parse(TEXT, "a.toml")
    document.set_text("load.concurrency", "abc")
    assert document.get("load.concurrency") == "abc"
    assert 'concurrency = "abc"' in document.text()
    (problem, *_) = [p for p in document.check().problems if p.key == "load.concurrency"]
    assert problem.message == 'load.concurrency = "abc": must be a whole number, such as 64.'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        (" 64 ", 64),
        ("0.5", 0.5),
        ("true", True),
        ('"64"', "64"),
        ("inf", math.inf),
        ("abc", "abc"),
        ("", ""),
        ("[1, 2]", [1, 2]),
        ("{ a = 1 }", {"a": 1}),
        ("1\nseed = 2", "1\nseed = 2"),
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("http://h:1/v1", "http://h:1/v1"),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_typed_text_is_a_toml_value_else_text(text: str, value: Any) -> None:
    document = Document.parse(TEXT, "a.toml")
    document.set_text("notes", text)
    assert document.get("notes") == value
    assert Document.parse(document.text(), "again").get("notes") == value


def test_null_unsets_what_may_be_null_and_is_text_elsewhere() -> None:
    document = Document.parse("[target]\nmodel = 'a'\n[guided]\nresponse_format = 'json_object'", "a.toml")
    document.set_text("target.model", "null")
    document.set_text("guided.response_format", "none")
    assert document.get("target.model") is None
    assert "model" not in document.text()
    assert document.get("guided.response_format") == "none"


def test_keys_below_a_table_are_set_in_it() -> None:
    document = Document.parse(TEXT, "a.toml")
    document.assign("target.env.CUDA_VISIBLE_DEVICES='0,1'")
    document.assign("target.extra_body.chat_template_kwargs.enable_thinking=false")
    document.assign("sweep.over.load.concurrency=[1, 2]")
    assert document.get("target.env") == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert document.get("target.extra_body") == {"chat_template_kwargs": {"enable_thinking": False}}
    assert document.get("sweep.over") == {"load.concurrency": [1, 2]}


def test_unset_gives_the_default_back() -> None:
    document = Document.parse(TEXT, "a.toml")
    document.unset("load.concurrency")
    document.unset("load.concurrency")
    document.unset("slo.ttft_ms")
    assert document.get("load.concurrency") is None
    assert "# what the router allows" in document.text()


@pytest.mark.parametrize("assignment", ["load.concurrency", "=5", "a..b=5", ".=1", ""])
def test_a_set_without_key_or_value_is_refused(assignment: str) -> None:
    with pytest.raises(ConfigError, match=r"must be KEY=VALUE, such as load\.concurrency=64"):
        Document.parse(TEXT, "a.toml").assign(assignment)


def test_a_set_through_a_value_names_the_key_that_was_meant() -> None:
    document = Document.parse(TEXT, "a.toml")
    with pytest.raises(ConfigError, match=r"the closest is load\.concurrency"):
        document.assign("load.concurrency.max=5")
    document.assign("target.env=5")
    with pytest.raises(ConfigError, match=r"target\.env = 5 is no table; mend it first"):
        document.assign("target.env.A=1")


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ConfigError, match="UTF-8"):
        Document.parse(TEXT, "a.toml").assign("notes=\udcff")
    with pytest.raises(ConfigError, match="UTF-8"):
        Document.parse(TEXT, "a.toml").assign("\udcff=1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", r"a\.toml: not TOML: .*line 1, column 8"),
        ("name = 'x'\nname = 'y'", r"a\.toml: not TOML: .*line 2"),
        ("\n\n[load\n", r"a\.toml: not TOML: .*line 3"),
        ("= 5", r"a\.toml: not TOML: .*line 1, column 1"),
        ("a = " + "[" * 3000, r"a\.toml: not TOML: .*nested"),
    ],
)
def test_a_syntax_error_names_file_line_and_column(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Document.parse(text, "a.toml")


def test_every_problem_is_found_at_once() -> None:
    document = Document.parse(TEXT, "a.toml")
    for assignment in (
        "load.concurrency=0",
        "seed=-1",
        "lod.mode=open",
        "load.concurency=4",
        "name=''",
        "cancel.rate=2",
    ):
        document.assign(assignment)
    assert [problem.key for problem in document.check().problems] == [
        "name",
        "seed",
        "dataset.input_len",
        "dataset.output_len",
        "load.concurrency",
        "cancel.rate",
        "load.concurency",
        "lod",
    ]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("load.concurency = 5", "load.concurrency"),
        ("concurrency = 5", "load.concurrency"),
        ("target.basurl = 'x'", "target.base_url"),
        ("dataset.num_prompts = 5", "load.num_prompts"),
        ("load.Rate = 5", "load.rate"),
        ('"load.rate" = 5', "load.rate"),
        ("target.async_ = 1", "target.async"),
        ("nam = 'x'", "name"),
        ("conc = 5", "load.concurrency"),
        ("load.conc = 5", "load.concurrency"),
        ("requests = 5", "load.num_prompts"),
        ("target.temp = 5", "request.temperature"),
        ("request_rate = 5", "load.rate"),
        ("temperature = 5", "request.temperature"),
    ],
)
def test_an_unknown_key_names_the_closest(typed: str, meant: str) -> None:
    (message,) = [m for m in messages(typed) if "known key" in m]
    assert message.endswith(f"is not a known key; the closest is {meant}.")


@pytest.mark.parametrize(
    ("typed", "where"),
    [
        ("load.zzz = 5", "[load] has mode, concurrency, num_prompts, "),
        ("target.zzz = 5", "the form of `lmtui` shows the "),
        ("zzz = 5", "there are sections [target], [dataset], "),
    ],
)
def test_an_unknown_key_that_is_like_none_says_where_keys_are(typed: str, where: str) -> None:
    (message,) = [m for m in messages(typed) if "known key" in m]
    assert "closest" not in message
    assert where in message


@pytest.mark.parametrize(
    ("key", "typed", "value"),
    [
        ("cancel.rate", ".5", 0.5),
        ("cancel.rate", "1.", 1.0),
        ("load.num_prompts", "1e3", 1000),
        ("load.num_prompts", "+3", 3),
        ("load.num_prompts", "007", 7),
        ("load.num_prompts", "5.", 5),
        ("load.num_prompts", "0x10", 16),
        ("load.rate", "1e3", 1000.0),
        ("load.rate", "inf", math.inf),
        ("load.num_prompts", "2.5", 2.5),
        ("load.num_prompts", "1e-3", 0.001),
        ("load.num_prompts", ".", "."),
        ("load.num_prompts", "e3", "e3"),
        ("load.num_prompts", "9" * 5000, "9" * 5000),
        ("load.num_prompts", "٣", "٣"),
        ("load.workers", "auto", "auto"),
        ("name", ".5", ".5"),
    ],
)
def test_numbers_are_read_as_people_type_them(key: str, typed: str, value: object) -> None:
    document = Document.parse(TEXT, "a.toml")
    document.set_text(key, typed)
    assert document.get(key) == value
    assert type(document.get(key)) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[load]\na = 1\n[dataset]\n[load]\n", "[load] is there already, and again at line 4"),
        ("name = 'x'\nname = 'y'", "name is there already, and again at line 2"),
        ("load = { rate = 1 }\nload.mode = 'x'", "[load] is there already, and again at line 2"),
        ("x = { a = 1, a = 2 }", "a is there already, and again at line 1"),
    ],
)
def test_what_is_there_twice_is_named_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Document.parse(text, "a.toml")
    assert str(caught.value).startswith(f"a.toml: not TOML: {words}: ")
    for leaked in ("(", "Cannot", "namespace"):
        assert leaked not in str(caught.value)


def test_an_unknown_section_names_the_closest() -> None:
    assert "[laod]: is not a known section; the closest is [load]." in messages("[laod]\nrate = 5")
    (message,) = [m for m in messages("[zzz]\nrate = 5") if "known section" in m]
    assert message.startswith("[zzz]: is not a known section; there are [target], [dataset], ")


@pytest.mark.parametrize("text", ["load = 5", "[[load]]\nrate = 5", "load = []", "load = 'x'", "load = 2020-01-01"])
def test_a_section_that_is_none_is_one_problem(text: str) -> None:
    found = [m for m in messages(text) if m.startswith("load")]
    assert len(found) == 1
    assert "must be a section: a line [load]" in found[0]


def test_a_target_that_is_no_section_does_not_also_miss_its_kind() -> None:
    assert [p.key for p in Document.parse("name = 'x'\ntarget = 5", "a.toml").check().problems] == ["target"]


def test_keys_of_another_kind_are_kept_ignored_and_noted() -> None:
    text = TEXT + "\n[dataset]\ninput_len = 8\noutput_len = 8\n[target.headers]\nX = 'y'\n"
    document = Document.parse(text, "a.toml")
    document.set("target.tp", 2)
    document.set("target.dp", 1)
    checked = document.check()
    assert checked.config is not None
    assert checked.config.target.tp == 2
    assert checked.notes == (
        'target.headers = {"X": "y"} does not apply to target.kind = "simulated": kept and ignored.',
        'target.tp = 2 does not apply to target.kind = "simulated": kept and ignored.',
    )


def test_values_are_shown_and_never_interpreted() -> None:
    (message,) = [m for m in messages('load.mode = "\\u001b[31mred\\u009b"') if m.startswith("load.mode")]
    assert message.isprintable()
    assert "\\u001b[31mred\\x9b" in message
    (message,) = [m for m in messages('"a\\u001bb" = 1') if "known key" in m]
    assert message.startswith("a\\x1bb = 1: ")


def test_long_values_are_cut() -> None:
    (message,) = [m for m in messages(f"load.mode = '{'x' * 10_000}'") if m.startswith("load.mode")]
    assert len(message) < 200
    (message,) = [m for m in messages(f"seed = 0x{'f' * 5000}") if m.startswith("seed")]
    assert "must be at most 4294967295" in message
    (message,) = [m for m in messages(f"load.mode = {[list(range(1000))]}") if m.startswith("load.mode")]
    assert len(message) < 200


def test_the_text_inf_is_a_rate() -> None:
    checked = Document.parse(TEXT + 'rate = "inf"\n[dataset]\ninput_len = 1\noutput_len = 1', "a.toml").check()
    assert checked.config is not None
    assert checked.config.load.rate == math.inf
    assert checked.config.flat()["load.rate"] == "inf"
