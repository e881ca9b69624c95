"""The text that ships in the package, cut so that no two prompts begin alike: for runs without a dataset file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import TypeVar

Piece = TypeVar("Piece", str, int)

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

    The first piece is number `place` of the text. The following ones continue there on the first lap over the text and
    somewhere else on each later lap, so that len(pieces)² places share no more than chance gives them: a server's
    prefix cache finds nothing by accident.

    Args:
        pieces: Words, or token ids.
        place: Any number from 0.
        length: How many pieces to return.
    """
    size = len(pieces)
    lap, first = divmod(place, size)
    following = (first + 1 + lap) % size
    found = [pieces[first]][:length]
    while len(found) < length:
        part = pieces[following : following + length - len(found)]
        found.extend(part)
        following = 0
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
