from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.targets.detokenize import IncrementalText


class Bytes:
    """A tokenizer whose ids are UTF-8 bytes: characters come in pieces."""

    def encode(self, text: str, special_tokens: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_characters="\ufffd", exclude_categories=["Cs"]), max_size=30), st.data())
def test_pieces_of_any_size_give_the_whole_text(text: str, data: st.DataObject) -> None:
    ids = Bytes().encode(text)
    incremental = IncrementalText(Bytes())
    at = 0
    while at < len(ids):
        at = min(at + data.draw(st.integers(1, 5)), len(ids))
        incremental.add(ids[:at])
        assert text.startswith(incremental.text)
    assert incremental.text == text


def test_half_a_character_is_held_back() -> None:
    incremental = IncrementalText(Bytes())
    incremental.add([0x61])
    incremental.add([0x61, 0xC3])
    assert incremental.text == "a"
    incremental.add([0x61, 0xC3, 0xA4])
    assert incremental.text == "aä"
