"""The closed and the open load, exact on the virtual clock."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.runner.failures import Failures
from lmtui.runner.load import GIVE_UP_S, Control, EndedBy, Load
from lmtui.runner.recorder import Recorder
from lmtui.runner.share import split, whole
from lmtui.runner.turns import SharedPipe
from lmtui.targets.base import Session
from lmtui.targets.clock import clock
from lmtui.workload.draw import draw
from lmtui.workload.plan import Plan, PlannedRequest, cycled
from tests.runner.harness import MS, Script, config, outcomes, requests, run_load, share


class Ends(Script):
    """A target whose requests end at once, as told, without a message."""

    def __init__(self, **end: Any) -> None:
        super().__init__()
        self._end = end

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        session.sent(0)
        session.end(at_ns=0, **self._end)


def ms(times: np.ndarray, start: int) -> list[float]:
    return [round((int(time) - start) / MS, 6) for time in times]


def test_closed_load_keeps_its_slots_full(tmp_path: Path) -> None:
    target = Script()
    found, control, load = run_load(tmp_path, target, share(requests(5), concurrency=2))
    sessions = found.sessions
    assert ms(sessions.sent_ns, sessions.start_ns) == [0, 0, 30, 30, 60]
    assert ms(sessions.due_ns, sessions.start_ns) == [0, 0, 30, 30, 60]
    assert ms(sessions.end_ns, sessions.start_ns) == [30, 30, 60, 60, 90]
    assert ms(sessions.tick_ns[:3], sessions.start_ns) == [10, 20, 30]
    assert sessions.tick_tokens.tolist() == [1, 2, 3] * 5
    assert outcomes(found) == {"ok": 5}
    assert (control.ended_by, load.planned, target.most_in_flight) == (EndedBy.PLAN, 5, 2)


class HeardLate(Script):
    """A target whose requests end, by their stamps, 10 ms after they went; the loop hears of it 7 ms later."""

    def __init__(self, *, is_stamped: bool = True) -> None:
        super().__init__()
        self._is_stamped = is_stamped

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        now = clock(asyncio.get_running_loop())
        session.sent(now())
        await asyncio.sleep(0.010)
        end_ns = now() if self._is_stamped else UNKNOWN
        await asyncio.sleep(0.007)
        session.end(Outcome.OK, end_ns, output_tokens=3)


def test_a_slot_is_free_at_the_end_of_its_request_however_late_the_loop_hears_of_it(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, HeardLate(), share(requests(3), concurrency=1))
    sessions = found.sessions
    assert ms(sessions.sent_ns, sessions.start_ns) == [0, 17, 34]
    assert ms(sessions.due_ns, sessions.start_ns) == [0, 10, 27]


def test_a_slot_whose_request_has_no_end_stamp_is_free_when_the_loop_hears_of_it(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, HeardLate(is_stamped=False), share(requests(3), concurrency=1))
    sessions = found.sessions
    assert ms(sessions.due_ns, sessions.start_ns) == [0, 17, 34]


@pytest.mark.parametrize("end_ns", [0, 1 << 60])
def test_a_slot_is_free_neither_before_it_was_taken_nor_in_the_future(tmp_path: Path, end_ns: int) -> None:
    class Odd(Script):
        async def perform(self, request: PlannedRequest, session: Session) -> None:
            session.sent(clock(asyncio.get_running_loop())())
            session.end(Outcome.OK, end_ns, output_tokens=3)

    sessions = run_load(tmp_path, Odd(), share(requests(3), concurrency=1))[0].sessions
    assert ms(sessions.due_ns, sessions.start_ns) == [0, 0, 0]


class CountsLate(Script):
    """A target whose requests are over after 10 ms, and whose tokens are counted 50 ms later."""

    async def perform(self, request: PlannedRequest, session: Session) -> Coroutine[Any, Any, None]:
        now = clock(asyncio.get_running_loop())
        session.sent(now())
        await asyncio.sleep(0.010)
        over_ns = now()
        session.over(over_ns)
        return self._count(session, over_ns)

    async def _count(self, session: Session, over_ns: int) -> None:
        await asyncio.sleep(0.050)
        session.end(Outcome.OK, over_ns, output_tokens=3, token_source=TokenSource.TEXT)


@pytest.mark.parametrize("cap", [None, 1])
def test_a_place_is_free_while_the_tokens_of_its_last_request_are_counted(tmp_path: Path, cap: int | None) -> None:
    planned = requests(3) if cap is None else requests(3, gap_s=0.0)
    part = share(planned, is_closed=cap is None, concurrency=1, max_in_flight=cap)
    found, _, load = run_load(tmp_path, CountsLate(), part)
    sessions = found.sessions
    assert ms(sessions.sent_ns, sessions.start_ns) == [0, 10, 20]
    assert ms(sessions.end_ns, sessions.start_ns) == [10, 20, 30]
    assert (outcomes(found), load.in_flight) == ({"ok": 3}, 0)


def test_a_count_that_does_not_end_is_given_up_with_the_run(tmp_path: Path) -> None:
    class Forgets(CountsLate):
        async def _count(self, session: Session, over_ns: int) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                session.end(Outcome.OK, over_ns, output_tokens=1, token_source=TokenSource.CHUNKS)

    found, control, load = run_load(tmp_path, Forgets(), share(requests(1)), stop_then_abort)
    assert (outcomes(found), control.ended_by, load.notes) == ({"ok": 1}, EndedBy.STOP, ())


def test_a_count_that_fails_is_a_bug(tmp_path: Path) -> None:
    class Breaks(CountsLate):
        async def _count(self, session: Session, over_ns: int) -> None:
            raise ValueError("no such text")

    found, control, _ = run_load(tmp_path, Breaks(), share(requests(1)))
    assert (outcomes(found), control.ended_by) == ({"aborted": 1}, EndedBy.BUG)
    assert isinstance(control.error, ValueError)


def test_more_slots_than_requests(tmp_path: Path) -> None:
    target = Script()
    found, _, _ = run_load(tmp_path, target, share(requests(3), concurrency=64))
    assert (outcomes(found), target.most_in_flight) == ({"ok": 3}, 3)


def test_open_load_sends_on_the_schedule_whatever_is_in_flight(tmp_path: Path) -> None:
    target = Script()
    found, _, _ = run_load(tmp_path, target, share(requests(100, gap_s=0.0005), is_closed=False))
    sessions = found.sessions
    assert ms(sessions.due_ns, sessions.start_ns) == [i / 2 for i in range(100)]
    assert (sessions.sent_ns == sessions.due_ns).all()
    assert target.most_in_flight > 50


def test_all_at_once_when_no_time_is_given(tmp_path: Path) -> None:
    target = Script()
    found, _, _ = run_load(tmp_path, target, share(requests(50), is_closed=False))
    assert (found.sessions.sent_ns == found.sessions.start_ns).all()
    assert target.most_in_flight == 50


def test_a_cap_holds_requests_back_and_leaves_their_due_time(tmp_path: Path) -> None:
    target = Script()
    found, _, _ = run_load(tmp_path, target, share(requests(6, gap_s=0.001), is_closed=False, max_in_flight=2))
    sessions = found.sessions
    assert ms(sessions.due_ns, sessions.start_ns) == [0, 1, 2, 3, 4, 5]
    assert ms(sessions.sent_ns, sessions.start_ns) == [0, 1, 30, 31, 60, 61]
    assert target.most_in_flight == 2


def test_a_cap_holds_at_a_burst(tmp_path: Path) -> None:
    target = Script()
    found, _, _ = run_load(tmp_path, target, share(requests(9), is_closed=False, max_in_flight=2))
    assert (outcomes(found), target.most_in_flight) == ({"ok": 9}, 2)


def test_cut_by_tokens_when_more_have_come(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, Script(), share(requests(2, output_len=9, cancel_after=4)))
    assert outcomes(found) == {"cancelled": 2}
    assert np.diff(found.sessions.tick_start).tolist() == [5, 5]
    assert found.sessions.cancel_planned.all()


def test_cut_by_tokens_counts_ticks_when_tokens_are_not_told(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, Script(says_tokens=False), share(requests(1, output_len=9, cancel_after=2)))
    assert found.sessions.tick_tokens.tolist() == [UNKNOWN] * 3
    assert outcomes(found) == {"cancelled": 1}


def test_a_cut_at_the_last_token_comes_too_late(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, Script(), share(requests(1, output_len=3, cancel_after=3)))
    assert outcomes(found) == {"ok": 1}


def test_cut_by_time(tmp_path: Path) -> None:
    planned = requests(1, output_len=9, cancel_after_s=0.025)
    found, _, _ = run_load(tmp_path, Script(let_go_s=0.004), share(planned))
    assert outcomes(found) == {"cancelled": 1}
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [29]
    assert found.sessions.tick_tokens.tolist() == [1, 2]


@pytest.mark.parametrize(("after_s", "expected"), [(0.005, {"cancelled": 1}), (0.015, {"ok": 1})])
def test_cut_before_the_first_token_only(tmp_path: Path, after_s: float, expected: dict[str, int]) -> None:
    planned = requests(1, cancel_after_s=after_s, cancel_before_token=True)
    found, _, _ = run_load(tmp_path, Script(), share(planned))
    assert outcomes(found) == expected


def test_total_time_limit(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, Script(), share(requests(2, output_len=9), timeout_s=0.045))
    assert outcomes(found) == {"timeout": 2}
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [45, 45]


def test_duration_cycles_the_plan_of_a_closed_load(tmp_path: Path) -> None:
    plan = Plan(requests(3))
    part = whole(plan, config(load={"concurrency": 2, "duration_s": 0.1}))
    found, control, load = run_load(tmp_path, Script(), part)
    sessions = found.sessions
    assert control.ended_by is EndedBy.DURATION
    assert sessions.index.tolist() == list(range(8))
    assert ms(sessions.sent_ns, sessions.start_ns) == [0, 0, 30, 30, 60, 60, 90, 90]
    assert (outcomes(found), load.planned) == ({"ok": 8}, 8)


def test_duration_cuts_what_the_grace_time_leaves(tmp_path: Path) -> None:
    part = whole(
        Plan(requests(3, output_len=100)), config(load={"concurrency": 2, "duration_s": 0.1}, limits={"grace_s": 0.05})
    )
    found, _, load = run_load(tmp_path, Script(), part)
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [150, 150]
    assert (outcomes(found), load.planned) == ({"aborted": 2}, 2)


def test_duration_of_a_trace_goes_on_with_its_times(tmp_path: Path) -> None:
    plan = Plan(requests(3, gap_s=0.02))
    part = whole(plan, config(load={"mode": "trace", "duration_s": 0.15}, dataset={"kind": "trace", "path": "x"}))
    found, _, _ = run_load(tmp_path, Script(), part)
    sessions = found.sessions
    expected = [cycled(plan, i).due_s or 0.0 for i in range(len(sessions.index))]
    assert ms(sessions.due_ns, sessions.start_ns) == [round(due_s * 1000, 6) for due_s in expected]
    assert ms(sessions.due_ns, sessions.start_ns) == [0, 20, 40, 60, 80, 100, 120, 140]


def test_capped_requests_of_a_cycled_trace_count_as_dropped(tmp_path: Path) -> None:
    plan = Plan(requests(3, gap_s=0.02, output_len=10))
    part = whole(
        plan,
        config(load={"mode": "trace", "duration_s": 0.15, "max_in_flight": 1}, dataset={"kind": "trace", "path": "x"}),
    )
    found, _, load = run_load(tmp_path, Script(), part)
    assert (load.planned, outcomes(found)) == (8, {"ok": 2, "dropped": 6})


def test_an_open_load_with_a_duration_is_not_cycled(tmp_path: Path) -> None:
    part = whole(Plan(requests(4, gap_s=0.02)), config(load={"mode": "open", "rate": 50.0, "duration_s": 0.05}))
    found, control, load = run_load(tmp_path, Script(), part)
    assert (load.planned, outcomes(found)) == (4, {"ok": 3, "dropped": 1})
    assert control.ended_by is EndedBy.DURATION


async def stop_then_abort(control: Control) -> None:
    await asyncio.sleep(0.045)
    control.stop()
    await asyncio.sleep(0.001)
    control.abort()


async def stop(control: Control) -> None:
    await asyncio.sleep(0.045)
    control.stop()


def test_stop_drains(tmp_path: Path) -> None:
    found, control, _ = run_load(tmp_path, Script(), share(requests(20)), stop)
    assert outcomes(found) == {"ok": 4, "dropped": 16}
    assert control.ended_by is EndedBy.STOP
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [30, 30, 60, 60]


def test_stop_cuts_after_the_grace_time(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, Script(), share(requests(20), grace_s=0.01), stop)
    assert outcomes(found) == {"ok": 2, "aborted": 2, "dropped": 16}
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [30, 30, 55, 55]


def test_a_second_stop_cuts_at_once(tmp_path: Path) -> None:
    found, _, _ = run_load(tmp_path, Script(), share(requests(20)), stop_then_abort)
    assert outcomes(found) == {"ok": 2, "aborted": 2, "dropped": 16}
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [30, 30, 46, 46]


@pytest.mark.parametrize("cap", [None, 2])
def test_stop_of_an_open_load(tmp_path: Path, cap: int | None) -> None:
    part = share(requests(50, gap_s=0.01), is_closed=False, max_in_flight=cap)
    found, _, _ = run_load(tmp_path, Script(), part, stop)
    assert sum(outcomes(found).values()) == 50
    assert outcomes(found)["dropped"] >= 45


def test_a_target_that_does_not_let_go_is_left_behind(tmp_path: Path) -> None:
    target = Script()
    target.is_deaf = True
    found, _, load = run_load(tmp_path, target, share(requests(5)), stop_then_abort)
    assert outcomes(found) == {"aborted": 2, "dropped": 3}
    assert ms(found.sessions.end_ns, found.sessions.start_ns) == [46 + GIVE_UP_S * 1000] * 2
    assert "2 requests" in load.notes[0]


def test_a_lost_target_ends_the_load(tmp_path: Path) -> None:
    target = Script()
    target.fail = lambda index: TargetError("the server is gone") if index == 3 else None
    found, control, _ = run_load(tmp_path, target, share(requests(10)))
    assert control.ended_by is EndedBy.TARGET
    assert str(control.error) == "the server is gone"
    assert outcomes(found) == {"ok": 2, "aborted": 2, "dropped": 6}
    assert found.errors[3] == "the server is gone"


def test_a_bug_in_a_target_ends_the_load(tmp_path: Path) -> None:
    target = Script()
    target.fail = lambda index: ZeroDivisionError("oops") if index == 1 else None
    found, control, _ = run_load(tmp_path, target, share(requests(10)))
    assert control.ended_by is EndedBy.BUG
    assert isinstance(control.error, ZeroDivisionError)
    assert sum(outcomes(found).values()) == 10


def test_failures_are_counted_and_go_on(tmp_path: Path) -> None:
    target = Script()
    target.fail = lambda index: Outcome.HTTP_ERROR if index % 2 else None
    found, control, _ = run_load(tmp_path, target, share(requests(10)))
    assert (outcomes(found), control.ended_by) == ({"ok": 5, "http_error": 5}, EndedBy.PLAN)
    assert found.errors == dict.fromkeys(range(1, 10, 2), "told to fail as http_error")


def test_too_many_failures_stop_the_load(tmp_path: Path) -> None:
    target = Script()
    target.fail = lambda index: Outcome.STREAM_ERROR if index >= 4 else None
    found, control, _ = run_load(tmp_path, target, share(requests(50), max_errors=3))
    assert control.ended_by is EndedBy.ERRORS
    assert outcomes(found)["stream_error"] == 4
    assert sum(outcomes(found).values()) == 50


def test_failures_of_other_workers_count(tmp_path: Path) -> None:
    here = Failures.of(2)
    there = Failures(os.dup(here.fd))
    assert (here.tell(0, 3), there.tell(1, 4), here.total(), here.tell(0, 5)) == (3, 7, 7, 9)
    assert [one.max_errors for one in split(share(requests(9), max_errors=4), 2)] == [4, 4]


def test_warm_up_is_not_recorded(tmp_path: Path) -> None:
    target = Script()
    sent: list[int] = []
    target.fail = lambda index: sent.append(index)
    warm = requests(5)

    async def main() -> tuple[str, ...]:
        from lmtui.runner.load import Load
        from lmtui.runner.recorder import Recorder
        from lmtui.targets.clock import clock

        recorder = Recorder(tmp_path / "ticks-0.bin", clock(asyncio.get_running_loop()))
        load = Load(target, share(requests(2), warmup=warm, concurrency=2), recorder, Control())
        notes = await load.warm_up()
        assert (len(sent), target.most_in_flight, recorder.tally.sent) == (5, 2, 0)
        recorder.start()
        await load.run()
        load.close()
        recorder.close()
        return notes

    from lmtui.runner import recorded
    from tests.runner.harness import on_virtual_loop

    assert on_virtual_loop(main()) == ()
    assert outcomes(recorded.read(tmp_path, 2)) == {"ok": 2}


def test_a_warm_up_that_fails_without_a_message_is_told_by_how_it_ended(tmp_path: Path) -> None:
    def note(request: PlannedRequest, **end: Any) -> str:
        async def main() -> tuple[str, ...]:
            from lmtui.runner.load import Load
            from lmtui.runner.recorder import Recorder
            from lmtui.targets.clock import clock

            target = Ends(**end)
            recorder = Recorder(tmp_path / "ticks-0.bin", clock(asyncio.get_running_loop()))
            return await Load(target, share((), warmup=(request,)), recorder, Control()).warm_up()

        from tests.runner.harness import on_virtual_loop

        (sentence,) = on_virtual_loop(main())
        return sentence

    (request,) = requests(1)
    assert "ended by itself after 1 of 3 tokens" in note(request, outcome=Outcome.SHORT, output_tokens=1)
    assert "it ended as no_token" in note(request, outcome=Outcome.NO_TOKEN)


def test_the_start_waits_after_the_warm_up(tmp_path: Path) -> None:
    def warmed_s(pause_s: float) -> float:
        async def main() -> float:
            from lmtui.runner.load import Load
            from lmtui.runner.recorder import Recorder
            from lmtui.targets.clock import clock

            loop = asyncio.get_running_loop()
            part = share(requests(2), warmup=requests(1), warmup_pause_s=pause_s)
            await Load(Script(), part, Recorder(tmp_path / "ticks-0.bin", clock(loop)), Control()).warm_up()
            return loop.time()

        from tests.runner.harness import on_virtual_loop

        return on_virtual_loop(main())

    assert warmed_s(1.5) - warmed_s(0.0) == pytest.approx(1.5)


def test_shares_have_every_request_once_and_every_slot() -> None:
    part = share(requests(10), concurrency=7, warmup=requests(3))
    parts = split(part, 3)
    assert [[request.index for request in one.requests] for one in parts] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert [one.concurrency for one in parts] == [3, 2, 2]
    assert sum(len(one.warmup) for one in parts) == 3


@pytest.fixture
def pipe() -> Iterator[SharedPipe]:
    made = SharedPipe()
    yield made
    made.close()


def test_workers_that_take_turns_send_each_request_once_in_the_plans_order(pipe: SharedPipe) -> None:
    assert pipe.fill_turns(10)
    first, second, third = (share(requests(10), turns_fd=pipe.fd).sequence() for _ in range(3))
    assert [next(each).index for each in (first, first, third, first, second, first)] == list(range(6))
    assert [request.index for request in third] == [6, 7, 8, 9]
    assert [*first, *second] == []


def test_a_plan_whose_places_find_no_room_has_no_turns(pipe: SharedPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*asked: int) -> int:
        raise PermissionError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert not pipe.fill_turns(5_000_000)


def test_loads_that_share_their_places_have_no_more_in_flight_than_there_are(pipe: SharedPipe) -> None:
    assert pipe.fill_places(3)
    target, other_fd = Script(), os.dup(pipe.fd)  # two in one loop: each watches a descriptor of its own

    async def main() -> None:
        loads = []
        for fd in (pipe.fd, other_fd):
            part = share(requests(9), is_closed=False, max_in_flight=3, places_fds=(fd, pipe.end), warmup=requests(2))
            loads.append(Load(target, part, Recorder(None, clock(asyncio.get_running_loop())), Control()))
        for load in loads:
            await load.warm_up()
        target.most_in_flight = 0
        await asyncio.gather(*(load.run() for load in loads))
        for load in loads:
            load.close()

    asyncio.run(main())
    os.close(other_fd)
    assert target.most_in_flight == 3
    assert os.read(pipe.fd, 100) == bytes(3), "every place was given back, and no more"


def test_shares_of_a_cycled_plan_never_share_an_index() -> None:
    part = share(requests(7), is_cycled=True, duration_s=1.0, concurrency=8)
    seen: set[int] = set()
    for one in split(part, 3):
        sequence = one.sequence()
        mine = [next(sequence) for _ in range(20)]
        assert [request.index for request in mine] == [one.first + 3 * i for i in range(20)]
        assert not seen & {request.index for request in mine}
        seen |= {request.index for request in mine}


@pytest.mark.parametrize(("slots", "wanted", "got"), [(1, 8, 1), (4, 8, 4), (100, 8, 8)])
def test_no_more_shares_than_slots(slots: int, wanted: int, got: int) -> None:
    assert len(split(share(requests(20), concurrency=slots), wanted)) == got


def test_the_whole_plan_of_a_config_is_one_share() -> None:
    made = config(load={"mode": "open", "rate": 20.0, "num_prompts": 12, "max_in_flight": 3})
    part = whole(draw(made, lambda line, done: None), made)
    assert (len(part.requests), part.is_closed, part.max_in_flight, part.is_cycled) == (12, False, 3, False)
