"""Quiet: the collector is off while a load runs, with a bound on memory, and as it was before afterwards."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lmtui.runner.quiet import MAX_GROWTH_BYTES, MEMORY_EVERY_S, collector_off
from tests.runner.harness import on_virtual_loop

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the collector of the tests as it was, whatever a test does."""
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """What the collector does, one entry for each full collection."""
    seen: list[str] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(phase)

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


class Memory:
    """A process whose size a test sets."""

    def __init__(self) -> None:
        self.used = 100 * MIB

    def __call__(self) -> int:
        return self.used


async def turn() -> None:
    await asyncio.sleep(MEMORY_EVERY_S)


def test_one_collection_for_each_growth_past_the_bound(collections: list[str]) -> None:
    memory, counts = Memory(), []

    async def main() -> None:
        with collector_off(memory):
            collections.clear()  # it collects before it begins
            for grown in (0, MAX_GROWTH_BYTES, 1, 0, 0, MAX_GROWTH_BYTES - 1, 2):
                memory.used += grown
                await turn()
                counts.append(len(collections))

    on_virtual_loop(main())
    assert counts == [0, 0, 1, 1, 1, 1, 2]


def test_a_cycle_made_meanwhile_is_freed_past_the_bound_only() -> None:
    memory, freed = Memory(), []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            freed.append(True)

    async def main() -> None:
        with collector_off(memory):
            Cycle()
            await turn()
            assert not freed
            memory.used += MAX_GROWTH_BYTES + 1
            await turn()
            assert freed

    on_virtual_loop(main())


@pytest.mark.parametrize("was_enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_as_it_was_afterwards(was_enabled: bool, fails: bool, collections: list[str]) -> None:
    memory = Memory()
    (gc.enable if was_enabled else gc.disable)()

    async def main() -> None:
        try:
            with collector_off(memory):
                assert not gc.isenabled()
                assert gc.get_freeze_count() > 0
                if fails:
                    raise ValueError
        except ValueError:
            assert fails
        assert gc.isenabled() == was_enabled
        assert gc.get_freeze_count() == 0
        gc.disable()
        collections.clear()
        memory.used += 2 * MAX_GROWTH_BYTES
        await turn()
        await turn()
        assert not collections, "nobody looks at the memory any more"

    on_virtual_loop(main())
