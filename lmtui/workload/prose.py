"""The text that ships in the package, cut so that no two prompts begin alike: for runs without a dataset file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import TypeVar

Piece = TypeVar("Piece", str, int)

_HEAD = 5

NOTE = "no dataset file: prompts are cut from the text that ships with lmtui"


@cache
def text() -> str:
    """Return the whole text."""
    return (resources.files("lmtui.workload") / "data" / "prose.txt").read_text(encoding="utf-8")


@cache
def words() -> tuple[str, ...]:
    """Return its words, punctuation attached."""
    return tuple(text().split())


def passage(pieces: Sequence[Piece], place: int, length: int) -> list[Piece]:
    """Cut `length` pieces from an endless repetition of `pieces`; different places begin differently.

    A passage begins at piece number `place` of the text and continues there on the first lap over the text; on each
    later lap it continues, after a few pieces, somewhere else. So len(pieces)² places share hardly more than those few,
    and a server's prefix cache, which works by blocks of 16 tokens or more, finds nothing by accident.

    Args:
        pieces: Words, or token ids.
        place: Any number from 0.
        length: How many pieces to return.
    """
    size = len(pieces)
    lap, first = divmod(place, size)
    head = _run(pieces, first, min(_HEAD, length))
    return head + _run(pieces, first + _HEAD + lap, length - len(head))


def _run(pieces: Sequence[Piece], start: int, length: int) -> list[Piece]:
    """Cut `length` pieces from `start` on, as if the text began again at its end."""
    start %= len(pieces)
    found = list(pieces[start : start + length])
    while len(found) < length:
        found.extend(pieces[: length - len(found)])
    return found


def chain(pieces: Sequence[Piece], places: Sequence[int], block: int, length: int) -> list[Piece]:
    """Join passages of `block` pieces from each place, up to `length`; the last passage goes on as far as it must."""
    found: list[Piece] = []
    for place in places[:-1]:
        found += passage(pieces, place, min(block, length - len(found)))
    return found + passage(pieces, places[-1], length - len(found))


def spread(count: int, size: int, shuffle: Callable[[list[int]], None]) -> list[int]:
    """Return `count` different places over a text of `size` pieces in a drawn order, one shuffle per lap."""
    places: list[int] = []
    for lap in range(-(-count // size)):
        order = list(range(lap * size, (lap + 1) * size))
        shuffle(order)
        places += order
    return places[:count]
