"""Whatever is in a file or typed: a config or sentences, never a traceback; and nothing that was written is lost."""

from __future__ import annotations

import datetime
import math
import shlex
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lmtui.config.command_line import command_line
from lmtui.config.declared import DECLARED, Declared
from lmtui.config.document import Document
from lmtui.config.presets import load
from lmtui.errors import ConfigError

few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(-(10**80), 10**80),
    st.floats(),
    TEXTS,
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.timezone.utc)),
    st.dates(),
    st.times(),
)
NAMES = st.one_of(TEXTS.filter(bool), st.sampled_from(sorted({part for d in DECLARED for part in d.key.split(".")})))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
SECTIONS = ["target", "dataset", "load", "request", "cancel", "guided", "slo", "sweep", "limits"]
FILES = st.fixed_dictionaries(
    {},
    optional={
        "name": VALUES,
        "seed": VALUES,
        **{section: st.dictionaries(NAMES, VALUES, max_size=4) | VALUES for section in SECTIONS},
    },
)
DECLARATIONS = st.sampled_from(DECLARED)


def same(one: Any, other: Any) -> bool:
    """Equality that knows nan and tells true from 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def checks_in_sentences(document: Document) -> None:
    checked = document.check()
    assert (checked.config is None) == bool(checked.problems)
    assert len({problem.key for problem in checked.problems}) == len(checked.problems)
    for problem in checked.problems:
        assert problem.message.isprintable(), problem
        assert problem.message.endswith("."), problem
        assert "pydantic" not in problem.message
        assert "http://errors" not in problem.message
        assert len(problem.message) < 1000
    if checked.config is not None:
        again = Document.parse(checked.config.to_toml(), "written").check()
        assert again.config == checked.config, again.problems


@few
@given(st.text(max_size=60) | st.text("[]{}=.,\"'#\n \\ab1-_:T+einf", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    document = None
    try:
        document = Document.parse(text, "f.toml")
    except ConfigError as error:
        message = str(error)
    if document is None:
        assert message.startswith("f.toml: not TOML: ")
        assert message.isprintable()
    else:
        checks_in_sentences(document)


@few
@given(FILES)
def test_any_tree_is_checked(tree: dict[str, Any]) -> None:
    checks_in_sentences(Document.parse(tomlkit.dumps(tree), "f.toml"))


@few
@given(DECLARATIONS, VALUES)
def test_any_value_of_any_key_is_checked(declared: Declared, value: Any) -> None:
    document = load("simulated")
    document.set(declared.key, value)
    checks_in_sentences(document)


@few
@given(
    st.sampled_from([d.key for d in DECLARED] + ["target.env.A", "sweep.over.load.rate", "x.y.z", "q"]),
    st.text(max_size=20),
)
def test_anything_typed_is_kept_and_checked(key: str, text: str) -> None:
    document = load("simulated")
    document.set_text(key, text)
    again = Document.parse(document.text(), "f.toml")
    assert same(again.get(key), document.get(key))
    checks_in_sentences(again)


LAYOUTS = [
    "",
    "name = 'x'\n[target]\nkind = 'server'\n[load]\nrate = 1.0\n",
    "target.kind = 'server'\nload.rate = 1.0\ntarget.env.A = '1'\n",
    "[target.env]\nA = '1'\n[load]\nrate = 1\n[target.headers]\nB = '2'\n",
    "# a\n[load] # b\n# c\n\nrate = 1 # d\n\n# e\n[target]\nenv = { A = '1' } # f\n",
    "load = { rate = 1, mode = 'open' }\ntarget = {}\n",
    "[target]\n[target.env]\n[sweep.over]\n'load.rate' = [1, 2]\n[load]\n",
    "[[target]]\nkind = 'x'\n[[target]]\n",
    "name='x'\r\n[load]\r\nrate=1\r\n",
]


@settings(few, max_examples=150)
@given(
    st.sampled_from(LAYOUTS),
    st.lists(
        st.tuples(DECLARATIONS | st.sampled_from(["target.env.B", "sweep.over.cancel.rate"]), VALUES | st.none()),
        max_size=6,
    ),
)
def test_edits_change_only_what_they_name(layout: str, edits: list[tuple[Declared | str, Any]]) -> None:
    document = Document.parse(layout, "f.toml")
    for place, value in edits:
        key = place if isinstance(place, str) else place.key
        before = {d.key: document.get(d.key) for d in DECLARED if not key.startswith(d.key)}
        try:
            document.set(key, value)
        except ConfigError:
            assume(False)
        document = Document.parse(document.text(), "again")
        assert same(document.get(key), value), document.text()
        assert same({k: document.get(k) for k in before}, before), document.text()
    for comment in ("# a", "# b", "# c", "# e"):
        assert (comment in layout) == (comment in document.text())


@few
@given(st.lists(st.tuples(DECLARATIONS, VALUES | TEXTS | st.none()), max_size=4))
def test_the_command_line_of_a_form_gives_the_same_values(edits: list[tuple[Declared, Any]]) -> None:
    document = load("quickstart")
    for declared, value in edits:
        assume(value is not None or not declared.required)
        document.set(declared.key, value)
    words = shlex.split(command_line(document, "quickstart"))
    assert words[:3] == ["lmtui", "run", "quickstart"]
    again = load("quickstart")
    for flag, assignment in zip(words[3::2], words[4::2], strict=True):
        assert flag == "--set"
        again.assign(assignment)
    mine, theirs = document.check(), again.check()
    assert theirs.config == mine.config
    assert [p.key for p in theirs.problems if p.key != "name"] == [p.key for p in mine.problems if p.key != "name"]


@few
@given(st.data())
def test_every_right_value_survives_the_run_directory(data: st.DataObject) -> None:
    document = load("simulated")
    for declared in data.draw(st.lists(DECLARATIONS, max_size=8)):
        if declared.declaration.choices:
            document.set(declared.key, data.draw(st.sampled_from(declared.declaration.choices)))
        elif declared.type is str:
            document.set(declared.key, data.draw(TEXTS))
        elif declared.type is float:
            document.set(declared.key, data.draw(st.floats(0, 2)))
        elif declared.type is dict:
            document.set(declared.key, data.draw(st.dictionaries(NAMES, TEXTS, max_size=3)))
    checks_in_sentences(document)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_come_back_as_they_are(layout: str) -> None:
    assert Document.parse(layout, "f.toml").text() == layout
