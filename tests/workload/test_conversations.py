from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui import paths
from lmtui.config.model import Config
from lmtui.errors import DatasetError
from lmtui.workload import conversations
from lmtui.workload.conversations import Conversations
from lmtui.workload.draw import draw

MakeConfig = Callable[[dict[str, Any]], Config]


class Heard:
    """A progress callback that remembers."""

    def __init__(self) -> None:
        self.shares: list[float | None] = []

    def __call__(self, line: str, share: float | None) -> None:
        assert line
        self.shares.append(share)


def chat(*turns: object) -> dict[str, object]:
    return {"id": "x", "conversations": [{"from": "human", "value": turn} for turn in turns]}


def write(path: Path, items: list[Any]) -> Path:
    path.write_text(json.dumps(items), encoding="utf-8")
    return path


def content(found: Conversations) -> list[tuple[str, str]]:
    pairs = [found[index] for index in range(len(found))]
    found.close()
    return pairs


def drafts() -> list[Path]:
    return list(paths.cache().rglob("draft-*"))


def test_first_two_turns_are_kept_in_order_and_the_rest_is_counted(tmp_path: Path) -> None:
    items = [
        chat("q1", "a1", "q2"),
        chat("alone"),
        chat(),
        chat("", "answer to nothing"),
        chat("q3", None),
        {"conversations": "no list"},
        17,
        chat("frage ü", "文字 😀"),
        {"conversations": [{"from": "human"}, "text"]},
    ]
    found = conversations.read(write(tmp_path / "s.json", items), Heard())
    assert found.dropped == {
        "fewer than two turns": 2,
        "no text in the first two turns": 2,
        "no list under 'conversations'": 2,
    }
    assert found.with_prompt().tolist() == [0, 2]
    assert content(found) == [("q1", "a1"), ("", "answer to nothing"), ("frage ü", "文字 😀")]


def test_one_object_a_line_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(json.dumps(chat(f"q{k}", f"a{k}")) for k in range(3)) + "\n", encoding="utf-8")
    assert content(conversations.read(path, Heard())) == [("q0", "a0"), ("q1", "a1"), ("q2", "a2")]


def test_a_lone_surrogate_becomes_sendable(tmp_path: Path) -> None:
    found = content(conversations.read(write(tmp_path / "s.json", [chat("a\ud800b", "c")]), Heard()))
    assert found == [("a?b", "c")]


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "s.json", [chat(f"question {k}", "answer") for k in range(50)])
    heard = Heard()
    first = content(conversations.read(path, heard))
    assert heard.shares[-1] == 1.0
    assert heard.shares == sorted(share for share in heard.shares if share is not None)

    again = Heard()
    assert content(conversations.read(path, again)) == first
    assert again.shares == [], "a known file is not read again"

    moved = path.rename(tmp_path / "moved.json")
    assert content(conversations.read(moved, again)) == first
    assert len([entry for entry in paths.cache().glob("datasets-*/*") if entry.name != "files"]) == 1


def test_a_changed_file_is_read_again_even_at_the_same_size_and_time(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", [chat("aaaa", "b"), chat("cccc", "d")])
    stat = path.stat()
    conversations.read(path, Heard()).close()
    write(path, [chat("aaaa", "b"), chat("eeee", "d")])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size
    assert content(conversations.read(path, Heard()))[1] == ("eeee", "d")


def test_several_readers_at_once_make_one_cache(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", [chat(f"question {k}", "answer") for k in range(2000)])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: content(conversations.read(path, Heard())), range(4)))
    assert all(one == found[0] for one in found)
    assert not drafts()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no conversations"),
        ("[]", "holds no conversations"),
        ('[{"prompt": "x"}, {"prompt": "y"}]', "2 elements, none with a list under 'conversations'"),
        ('[{"conversations": [{"value": "a"}, {"value": "b"}]}', "ends too early"),
    ],
)
def test_an_unusable_file_is_told_and_leaves_nothing(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(text, encoding="utf-8")
    for _ in range(2):
        with pytest.raises(DatasetError, match=says):
            conversations.read(path, Heard())
    assert not drafts()


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"nowhere.json' cannot be read: No such file.* Correct dataset.path"):
        conversations.read(tmp_path / "nowhere.json", Heard())
    with pytest.raises(DatasetError, match="Is a directory"):
        conversations.read(tmp_path, Heard())


def test_too_few_conversations_are_told_with_what_was_dropped(tmp_path: Path, make_config: MakeConfig) -> None:
    fine = chat("one two three four five", "one two three four")
    items = [fine] * 5 + [chat("alone")] * 4 + [chat("short", "a b c d")] * 3 + [chat("a b c d", "short")] * 2
    items += [chat("word " * 1025, "a b c d"), chat("word " * 1000, "word " * 1049)]
    path = write(tmp_path / "s.json", items)
    keys = {"dataset.kind": "sharegpt", "dataset.path": str(path), "load.num_prompts": 6}
    with pytest.raises(DatasetError) as caught:
        draw(make_config(keys), Heard())
    assert str(caught.value) == (
        f"The dataset '{path}' has 5 usable conversations, and load.num_prompts asks for 6; dropped: "
        "4 with fewer than two turns, 3 with prompt under 4 words, 2 with output under 4 words, "
        "1 with prompt over 1024 words, 1 with prompt and output over 2048 words. "
        "Set load.num_prompts to 5 or less, or give a larger file."
    )
    plan = draw(make_config({**keys, "load.num_prompts": 5}), Heard())
    assert len(plan.requests) == 5
    assert plan.dropped["fewer than two turns"] == 4

    random = {**keys, "dataset.kind": "random", "dataset.input_len": 9, "dataset.output_len": 9}
    with pytest.raises(DatasetError, match=r"has 12 usable conversations, and load.num_prompts asks for 13; .*4 with"):
        draw(make_config({**random, "load.num_prompts": 13}), Heard())


def test_the_filters_keep_what_is_just_within(tmp_path: Path, make_config: MakeConfig) -> None:
    items = [chat("word " * 4, "word " * 4), chat("word " * 1024, "word " * 1024), chat("word " * 1000, "word " * 1048)]
    path = write(tmp_path / "s.json", items)
    keys = {"dataset.kind": "sharegpt", "dataset.path": str(path), "load.num_prompts": 3}
    assert sorted(one.input_len or 0 for one in draw(make_config(keys), Heard()).requests) == [4, 1000, 1024]


pieces = st.text(max_size=5) | st.none() | st.integers()
turns = st.lists(st.dictionaries(st.sampled_from(["from", "value", "x"]), pieces, max_size=2) | pieces, max_size=3)
items = st.lists(
    st.dictionaries(st.sampled_from(["id", "conversations"]), turns | pieces, max_size=2) | pieces, max_size=5
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=items.map(json.dumps).map(str.encode) | st.binary(max_size=50), kind=st.sampled_from(["sharegpt", "random"])
)
def test_no_file_is_a_traceback(data: bytes, kind: str, tmp_path: Path, make_config: MakeConfig) -> None:
    path = tmp_path / "fuzz.json"
    path.write_bytes(data)
    keys = {"dataset.kind": kind, "dataset.path": str(path), "dataset.input_len": 3, "dataset.output_len": 4}
    try:
        plan = draw(make_config({**keys, "load.num_prompts": 1}), Heard())
    except DatasetError as error:
        fault = str(error)
    else:
        assert len(plan.requests) == 1
        return
    assert str(path) in fault
