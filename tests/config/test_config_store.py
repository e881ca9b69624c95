"""Named configs: what WHAT means, and files that are never half written or lost."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lmtui import paths
from lmtui.config import presets, store
from lmtui.config.document import Document
from lmtui.errors import ConfigError

TEXT = '# mine\nname = "mine"\n[target]\nkind = "simulated"\n[dataset]\ninput_len = 8\noutput_len = 8\n'


def save(name: str, text: str = TEXT) -> None:
    store.save(name, Document.parse(text, "t"))


def test_saved_configs_are_listed_and_come_back_as_they_were() -> None:
    save("b")
    save("a")
    assert store.names() == ["a", "b"]
    assert store.load("a").text() == TEXT
    assert stat.S_IMODE(store.path("a").stat().st_mode) == 0o600
    assert sorted(file.name for file in paths.configs().iterdir()) == ["a.toml", "b.toml"]


def test_mistakes_are_saved() -> None:
    save("wrong", 'name = 5\nlod = 1\nload = "x"\n')
    assert store.load("wrong").text() == 'name = 5\nlod = 1\nload = "x"\n'


def test_a_broken_file_is_listed_and_named_when_it_is_read() -> None:
    save("fine")
    store.path("broken").write_text("name = ")
    store.path("binary").write_bytes(b"name = '\xff'")
    assert store.names() == ["binary", "broken", "fine"]
    with pytest.raises(ConfigError, match=r"broken\.toml: not TOML: .*line 1, column 8"):
        store.load("broken")
    with pytest.raises(ConfigError, match=r"binary\.toml: is not text in UTF-8: byte 8"):
        store.load("binary")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    save("a")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"a\.toml: cannot be written: No space left on device"):
        save("a", "name = 'other'\n")
    assert store.load("a").text() == TEXT
    assert [file.name for file in paths.configs().iterdir()] == ["a.toml"]


def test_deleted_configs_lie_in_the_trash() -> None:
    for _ in range(2):
        save("a")
        assert store.delete("a").read_text() == TEXT
    assert store.names() == []
    assert len(list(paths.trash().iterdir())) == 2
    with pytest.raises(ConfigError, match='"a": is neither'):
        store.delete("a")


def test_a_duplicate_carries_its_own_name_and_replaces_nothing() -> None:
    save("mine")
    store.duplicate("mine", "yours")
    assert store.load("yours").text() == TEXT.replace('"mine"', '"yours"')
    store.duplicate("quickstart", "quick")
    assert store.load("quick").get("name") == "quick"
    assert "# tokens of a prompt" in store.load("quick").text()
    with pytest.raises(ConfigError, match="name of a saved config already"):
        store.duplicate("mine", "yours")
    with pytest.raises(ConfigError, match="the closest is mine"):
        store.duplicate("mien", "other")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a\0b", "x.toml", " a", "a\n", "n" * 101])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a config"):
        save(name)
    assert store.names() == []


def test_what_means_a_file_then_a_saved_config_then_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart.toml").write_text("notes = 'file'\n")
    (tmp_path / "plain").write_text("notes = 'no ending'\n")
    assert store.find("quickstart.toml").get("notes") == "file"
    assert store.find("./plain").get("notes") == "no ending"
    assert store.find("quickstart").text() == presets.load("quickstart").text()
    save("quickstart")
    assert store.find("quickstart").text() == TEXT


def test_a_file_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "c.toml").write_text(TEXT)
    assert store.find("~/c.toml").get("name") == "mine"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("quickstrt", '"quickstrt": is neither a saved config nor a preset; the closest is quickstart'),
        ("nothing-like-it", "is neither a saved config nor a preset; `lmtui configs` lists them all"),
        ("", '"": is neither'),
        ("..", r'"\.\.": is neither'),
        ("./none.toml", r"none\.toml: cannot be read: No such file"),
        ("none.toml", r"none\.toml: cannot be read: No such file"),
        ("/", "/: cannot be read: Is a directory"),
        ("a\0/b", r"a\\x00/b: cannot be read: embedded null byte"),
        ("~no-such-user/x", "cannot be read: No such file"),
        ("x" * 5000 + "/y", "cannot be read: File name too long"),
    ],
)
def test_what_is_not_there_is_named(what: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        store.find(what)


def test_only_a_regular_file_of_a_sane_size_is_read(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match=r"pipe\.toml: cannot be read: it is no regular file"):
        store.find(str(pipe))
    with pytest.raises(ConfigError, match="no regular file"):
        store.find("/dev/zero")
    (large := tmp_path / "large.toml").write_bytes(b"#" * (store.LARGEST_BYTES + 1))
    with pytest.raises(ConfigError, match=r"large\.toml: cannot be read: it is over 10 MiB long"):
        store.find(str(large))
    large.write_bytes(b"\xef\xbb\xbfname = 'x'\r\n" + b"#" * 1000)
    assert store.find(str(large)).get("name") == "x"


def test_sets_are_applied_before_anything_is_checked() -> None:
    save("half", "[target]\nkind = 'nothing'\n")
    config, notes = store.resolve(
        "half",
        [
            "name=x",
            "target.kind=server",
            "target.preset=vllm",
            "dataset.input_len=8",
            "dataset.output_len=9",
            "target.tp=2",
            "load.concurrency=0",
            "load.concurrency=7",
        ],
    )
    assert (config.name, config.target.server_url) == ("x", "http://127.0.0.1:8000")
    assert (config.dataset.output_len, config.load.concurrency) == (9, 7)
    assert notes == ('target.tp = 2 does not apply to target.kind = "server": kept and ignored.',)


def test_problems_are_listed_one_per_line() -> None:
    with pytest.raises(ConfigError) as raised:
        store.resolve("simulated", ["load.concurrency=0", "load.concurency=5", "seed=x"])
    assert str(raised.value).splitlines() == [
        'seed = "x": must be a whole number, such as 0.',
        "load.concurrency = 0: must be at least 1 (how many requests are in flight at once).",
        "load.concurency = 5: is not a known key; the closest is load.concurrency.",
    ]
    assert raised.value.exit_code == 2
