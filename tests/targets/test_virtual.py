from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from lmtui.targets.clock import clock
from lmtui.targets.virtual import START_NS, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_hours_pass_at_once_and_to_the_nanosecond(loop: VirtualLoop) -> None:
    seen: list[int] = []

    async def sleeper() -> None:
        for _ in range(3):
            await asyncio.sleep(3600.000000001)
            seen.append(loop.now_ns() - START_NS)

    begun = time.monotonic()
    loop.run_until_complete(sleeper())
    assert seen == [3_600_000_000_001, 7_200_000_000_002, 10_800_000_000_003]
    assert time.monotonic() - begun < 60


def test_short_steps_do_not_drift(loop: VirtualLoop) -> None:
    async def sleeper() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0.0001)

    loop.run_until_complete(sleeper())
    assert loop.now_ns() - START_NS == 1_000_000_000


def test_timers_run_in_order_and_all_work_of_an_instant_comes_before_the_next(loop: VirtualLoop) -> None:
    seen: list[str] = []

    async def waiter(name: str, delay: float) -> None:
        await asyncio.sleep(delay)
        for hop in range(3):
            seen.append(f"{name}{hop}")
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(waiter("late", 0.2), waiter("early", 0.1))

    loop.run_until_complete(both())
    assert seen == ["early0", "early1", "early2", "late0", "late1", "late2"]


def test_settled_callbacks_come_after_everything_of_their_instant(loop: VirtualLoop) -> None:
    seen: list[tuple[str, int]] = []

    async def hops() -> None:
        for hop in range(5):
            seen.append((f"hop{hop}", loop.now_ns()))
            await asyncio.sleep(0)

    async def main() -> None:
        loop.call_settled(lambda: seen.append(("settled", loop.now_ns())))
        loop.call_later(0, lambda: seen.append(("timer", loop.now_ns())))
        await hops()
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert seen[-1] == ("settled", START_NS)
    assert len(seen) == 7


def test_the_clock_stands_still_while_a_thread_works_for_the_loop(loop: VirtualLoop) -> None:
    done = threading.Event()

    async def main() -> bool:
        loop.call_later(1000, done.set)
        return await asyncio.wait_for(asyncio.to_thread(done.wait, 0.05), timeout=10)

    assert not loop.run_until_complete(main())
    assert loop.now_ns() == START_NS


def test_another_thread_wakes_the_loop(loop: VirtualLoop) -> None:
    async def main() -> str:
        future: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, "woken"))
        thread.start()
        answer = await future
        thread.join()
        return answer

    assert loop.run_until_complete(main()) == "woken"


def test_closing_the_executor_does_not_jump_to_its_time_limit() -> None:
    release = threading.Event()

    async def main() -> None:
        # Left running when the loop ends: the shutdown has to wait for it in real time.
        _ = asyncio.get_running_loop().run_in_executor(None, release.wait, 0.05)

    loop = VirtualLoop()
    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    assert loop.now_ns() == START_NS
    loop.close()


def test_clock_is_the_loops_when_virtual_and_the_machines_otherwise(loop: VirtualLoop) -> None:
    real = asyncio.new_event_loop()
    assert clock(loop)() == START_NS
    assert clock(real) is time.monotonic_ns
    real.close()
