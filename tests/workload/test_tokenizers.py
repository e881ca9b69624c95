from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui import paths
from lmtui.errors import ConfigError
from lmtui.workload import prose, tiny_tokenizer, tokenizers
from lmtui.workload.tokenizers import FastTokenizer, TransformersTokenizer


@pytest.fixture
def copied(tiny_folder: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "copy"))


def change(folder: Path, **settings: Any) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def test_the_tiny_tokenizer_keeps_every_text(tiny_folder: str) -> None:
    tokenizer = tokenizers.load(tiny_folder)
    assert isinstance(tokenizer, FastTokenizer)
    ids = tokenizer.encode(prose.text())
    assert tokenizer.decode(ids) == prose.text()
    assert max(ids) < tiny_tokenizer.VOCAB_SIZE
    assert len(ids) < 2 * len(prose.words()), "it has learnt words"


def test_its_recipe_gives_the_same_file_again(tiny_folder: str) -> None:
    again = tiny_tokenizer.path()
    assert again != Path(tiny_folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (again / name).read_bytes() == Path(tiny_folder, name).read_bytes()


def test_several_builders_at_once_make_one_folder() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: tiny_tokenizer.path(), range(4)))
    assert len(found) == 1
    assert [entry.name for entry in paths.cache().iterdir()] == [found.pop().name]


@pytest.fixture(scope="module")
def both(tiny_folder: str) -> tuple[FastTokenizer, TransformersTokenizer]:
    fast = tokenizers.load(tiny_folder)
    assert isinstance(fast, FastTokenizer)
    return fast, tokenizers._load_transformers(tiny_folder, is_folder=True, trust_remote_code=False)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60) | st.sampled_from(["", "a , b .", "<|begin|>x<|end|>", "  two  spaces\n\tand more"]))
def test_the_fast_way_gives_what_transformers_gives(
    both: tuple[FastTokenizer, TransformersTokenizer], text: str
) -> None:
    fast, full = both
    for special in (True, False):
        ids = fast.encode(text, special)
        assert ids == full.encode(text, special)
        assert fast.decode(ids) == full.decode(ids)


def test_transformers_loads_what_the_fast_way_may_not(copied: Path) -> None:
    change(copied, add_bos_token=True)
    assert isinstance(tokenizers.load(str(copied)), TransformersTokenizer)


@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer_class": "LlamaTokenizer"},
        {"tokenizer_class": None},
        {"clean_up_tokenization_spaces": True},
        {"bos_token": "<unheard of>"},
        {"added_tokens_decoder": {"2000": {"content": "<unheard of>", "special": True}}},
    ],
)
def test_the_fast_way_is_not_taken_where_ids_could_differ(settings: dict[str, Any], copied: Path) -> None:
    change(copied, **settings)
    assert tokenizers._load_fast(copied) is None


def test_truncation_and_padding_of_the_file_do_not_apply(copied: Path) -> None:
    path = copied / "tokenizer.json"
    content = json.loads(path.read_text())
    content["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(content))
    assert len(tokenizers.load(str(copied)).encode(prose.text())) > 1000


def test_what_cannot_be_loaded_is_told(tmp_path: Path, copied: Path) -> None:
    for name in ("/no/such/folder", "./missing", "~/missing", "a/b/c"):
        with pytest.raises(ConfigError, match=r"does not exist: correct the path"):
            tokenizers.load(name)
    with pytest.raises(ConfigError, match="is a file"):
        tokenizers.load(str(copied / "tokenizer.json"))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        tokenizers.load(str(tmp_path))
    (copied / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer.json' cannot be read"):
        tokenizers.load(str(copied))
    (copied / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokenizer_config.json' cannot be read"):
        tokenizers.load(str(copied))
