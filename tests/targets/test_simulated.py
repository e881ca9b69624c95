"""The simulated target, held to closed-form answers on the virtual clock, and to honesty on the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets.base import TargetInfo
from lmtui.targets.build import build
from lmtui.targets.simulated import SimulatedTarget
from lmtui.targets.virtual import VirtualLoop
from lmtui.workload.plan import PlannedRequest
from tests.targets.making import config, request
from tests.targets.recording import RecordingSession

T = TypeVar("T")
SPEED: dict[str, Any] = {
    "prefill_tokens_per_s": 1000.0,
    "step_ms": 10.0,
    "step_ms_per_seq": 1.0,
    "kv_tokens": 1000,
    "max_batch_size": 100,
}


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def on(loop: VirtualLoop, body: Callable[[SimulatedTarget], Awaitable[T]], **target: Any) -> T:
    async def main() -> T:
        engine = SimulatedTarget(config("simulated", **{**SPEED, **target}))
        await engine.open(lambda _: None)
        result = await body(engine)
        await engine.close()
        return result

    return loop.run_until_complete(main())


async def closed_load(
    engine: SimulatedTarget, requests: list[PlannedRequest], concurrency: int
) -> list[RecordingSession]:
    """Keep `concurrency` requests in flight, as the runner's closed load does."""
    sessions = [RecordingSession(one) for one in requests]
    todo = iter(sessions)

    async def worker() -> None:
        for session in todo:
            await engine.perform(session.request, session)

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return sessions


def test_one_request(loop: VirtualLoop) -> None:
    (session,) = on(loop, lambda engine: closed_load(engine, [request(input_len=100, output_len=5)], 1))
    assert session.ttft_ms == 100 + 10 + 1
    assert session.gaps_ms == [11] * 4
    assert [tokens for _, tokens in session.ticks] == [1, 2, 3, 4, 5]
    assert (session.outcome, session.end_ns) == (Outcome.OK, session.last_ns)
    assert (session.output_tokens, session.token_source, session.prompt_tokens) == (5, TokenSource.ENGINE, 100)
    assert (session.let_go_ns, session.wasted_tokens) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize("concurrency", [1, 2, 7, 32])
def test_closed_load_of_equal_requests_goes_in_waves(loop: VirtualLoop, concurrency: int) -> None:
    requests = [request(n, input_len=10, output_len=20) for n in range(3 * concurrency)]
    sessions = on(loop, lambda engine: closed_load(engine, requests, concurrency), kv_tokens=100_000)
    step = 10 + concurrency
    for session in sessions:
        assert session.ttft_ms == pytest.approx(10 * concurrency + step, abs=1e-6)
        assert session.gaps_ms == pytest.approx([step] * 19, abs=1e-6)
    whole_ms = (max(s.end_ns for s in sessions) - min(s.sent_ns for s in sessions)) / 1e6
    assert whole_ms == pytest.approx(3 * (10 * concurrency + 20 * step), abs=1e-6)


def test_the_kv_limit_queues_requests_in_waves(loop: VirtualLoop) -> None:
    requests = [request(n, input_len=90, output_len=10) for n in range(30)]
    sessions = on(loop, lambda engine: closed_load(engine, requests, 30))
    wave = 10 * 90 + 10 * 20
    for n, session in enumerate(sessions):
        assert session.ttft_ms == (n // 10) * wave + 900 + 20
        assert session.gaps_ms == [20] * 9


def test_an_arrival_slows_the_others_by_its_prefill(loop: VirtualLoop) -> None:
    async def body(engine: SimulatedTarget) -> tuple[RecordingSession, RecordingSession]:
        first, second = RecordingSession(request(output_len=6, input_len=0)), RecordingSession(request(1, output_len=1))
        task = asyncio.create_task(engine.perform(first.request, first))
        await asyncio.sleep(0.025)
        await engine.perform(second.request, second)
        await task
        return first, second

    first, second = on(loop, body)
    assert first.gaps_ms == [11, 11, 12 + 32, 11, 11]
    assert second.ttft_ms == (33 - 25) + 12 + 32


def test_a_cancel_by_tokens_lets_go_after_the_step_under_way(loop: VirtualLoop) -> None:
    requests = [request(0, output_len=50, input_len=0, cancel_after=3), request(1, output_len=10, input_len=0)]
    cut, other = on(loop, lambda engine: closed_load(engine, requests, 2), cancel_ms=7.0)
    assert (cut.outcome, cut.output_tokens, cut.wasted_tokens, cut.error) == (Outcome.CANCELLED, 4, 1, "")
    assert cut.let_go_ns == (12 + 7) * 1_000_000
    assert cut.end_ns == cut.cut_ns + cut.let_go_ns
    assert cut.ticks_after_cut == 0
    assert other.gaps_ms == [12, 12, 12, 12, 7 + 11, 11, 11, 11, 11]


def test_a_cut_that_comes_with_the_last_token_is_missed(loop: VirtualLoop) -> None:
    (session,) = on(loop, lambda engine: closed_load(engine, [request(output_len=4, cancel_after=3)], 1))
    assert (session.outcome, session.output_tokens, session.let_go_ns) == (Outcome.OK, 4, UNKNOWN)


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.ABORTED, Outcome.TIMEOUT])
def test_a_cut_from_outside_in_the_middle_of_a_step(loop: VirtualLoop, outcome: Outcome) -> None:
    async def body(engine: SimulatedTarget) -> RecordingSession:
        session = RecordingSession(request(output_len=50, input_len=0))
        asyncio.get_running_loop().call_later(0.030, session.cut, outcome)
        await engine.perform(session.request, session)
        return session

    session = on(loop, body, cancel_ms=2.0)
    assert (session.outcome, session.output_tokens, session.wasted_tokens) == (outcome, 2, 1)
    assert session.let_go_ns == (3 + 2) * 1_000_000
    assert bool(session.error) == (outcome is not Outcome.CANCELLED)


def test_a_cut_while_waiting_has_no_tokens(loop: VirtualLoop) -> None:
    async def body(engine: SimulatedTarget) -> RecordingSession:
        running, waiting = RecordingSession(request(output_len=500)), RecordingSession(request(1, output_len=500))
        task = asyncio.create_task(engine.perform(running.request, running))
        await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_later(1, waiting.cut, Outcome.CANCELLED)
        asyncio.get_running_loop().call_later(2, running.cut, Outcome.CANCELLED)
        await engine.perform(waiting.request, waiting)
        await task
        return waiting

    waiting = on(loop, body, kv_tokens=600)
    assert (waiting.outcome, waiting.output_tokens, waiting.wasted_tokens) == (Outcome.CANCELLED, 0, 0)
    assert waiting.ticks == []


def test_a_session_that_is_cut_before_it_is_sent_is_dropped(loop: VirtualLoop) -> None:
    async def body(engine: SimulatedTarget) -> RecordingSession:
        session = RecordingSession(request(), cut_as=Outcome.ABORTED)
        await engine.perform(session.request, session)
        return session

    assert on(loop, body).outcome is Outcome.DROPPED


def test_a_load_that_gives_up_waiting_hears_no_more_of_the_request(loop: VirtualLoop) -> None:
    async def body(engine: SimulatedTarget) -> RecordingSession:
        session = RecordingSession(request(output_len=50, input_len=0))
        task = asyncio.create_task(engine.perform(session.request, session))
        await asyncio.sleep(0.025)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session.end(Outcome.ABORTED, engine._now_ns(), error="given up")
        await asyncio.sleep(10)
        return session

    session = on(loop, body)
    assert (session.outcome, len(session.ticks)) == (Outcome.ABORTED, 2)


def test_leaks_shrink_the_batch_until_requests_are_refused(loop: VirtualLoop) -> None:
    requests = [request(n, input_len=0, output_len=500, cancel_after=0) for n in range(3)]
    sessions = on(loop, lambda engine: closed_load(engine, requests, 1), leak=1.0)
    assert [session.outcome for session in sessions] == [Outcome.CANCELLED, Outcome.CANCELLED, Outcome.BAD_FINISH]
    assert "needs 500 tokens of KV" in sessions[2].error


def test_runs_are_equal_to_the_nanosecond() -> None:
    requests = [
        request(n, input_len=n % 40, output_len=1 + n * 7 % 30, cancel_after=n % 9 if n % 3 == 0 else None)
        for n in range(300)
    ]

    def run() -> list[tuple[int, Outcome | None, list[tuple[int, int]], int]]:
        loop = VirtualLoop()
        sessions = on(loop, lambda engine: closed_load(engine, requests, 16), cancel_ms=1.0)
        loop.close()
        return [(s.sent_ns, s.outcome, s.ticks, s.let_go_ns) for s in sessions]

    assert run() == run()


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_on_the_real_clock_nothing_comes_before_its_time(name: str) -> None:
    async def main() -> tuple[TargetInfo, list[RecordingSession]]:
        engine = SimulatedTarget(config("simulated", **{**SPEED, "step_ms": 2.3, "step_ms_per_seq": 0.1}))
        info = await engine.open(lambda _: None)
        sessions = await closed_load(engine, [request(n, input_len=4, output_len=10) for n in range(8)], 4)
        await engine.close()
        return info, sessions

    if name == "uvloop":
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    info, sessions = loop.run_until_complete(main())
    loop.close()
    assert info.simulated
    assert "SIMULATED" in info.notes[0]
    for session in sessions:
        assert session.outcome is Outcome.OK
        assert session.ttft_ms >= 4 + 2.4
        # Lateness never adds up, so the last token cannot be early either.
        assert (session.last_ns - session.sent_ns) / 1e6 >= 4 + 10 * 2.4


def test_build_gives_it() -> None:
    assert isinstance(build(config("simulated")), SimulatedTarget)


def test_without_a_tokenizer_words_are_tokens(loop: VirtualLoop) -> None:
    asked = PlannedRequest(index=0, prompt="three words here", output_len=1)
    (session,) = on(loop, lambda engine: closed_load(engine, [asked], 1))
    assert session.prompt_tokens == 3
    assert session.ttft_ms == 3 + 11
