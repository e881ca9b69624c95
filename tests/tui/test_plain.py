"""Text of others is made safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lmtui.tui import plain


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;Zm9v\x1b\\after", "after"),
        ("a\x00b\x08c\x7f", "abc"),
        ("\x9b31mred", "red"),
        ("tab\there", "tab here"),
        ("right\u202eleft", "rightleft"),
        ("[bold]stays[/bold]", "[bold]stays[/bold]"),
        ("two\r\nlines", "two\nlines"),
        ("中文 naïve", "中文 naïve"),
    ],
)
def test_escape_codes_and_controls_go(text: str, safe: str) -> None:
    assert plain.plain(text) == safe


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_nothing_that_a_terminal_acts_on_is_left(text: str) -> None:
    safe = plain.plain(text)
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in safe)
    assert "\n" not in plain.line(text)


@given(st.text(max_size=30), st.integers(0, 20), st.booleans())
def test_a_cell_has_its_width(text: str, width: int, right: bool) -> None:
    assert cell_len(plain.cell(plain.line(text), width, right=right)) == width


def test_what_does_not_fit_says_so() -> None:
    assert plain.cell("abcdef", 4) == "abc…"
    assert plain.cell("ab", 4, right=True) == "  ab"
    assert plain.cell("中文中文", 4) == "中 …"


def test_of_a_progress_bar_the_last_state_is_kept() -> None:
    assert plain.log_lines("10%\r50%\r100%\r\nnext") == ["100%", "next"]


@given(st.text(max_size=30))
def test_ascii_is_ascii_and_as_wide(text: str) -> None:
    safe = plain.line(text)
    assert plain.to_ascii(safe).isascii()
    assert cell_len(plain.to_ascii(safe)) == cell_len(safe)
