"""Loads on targets out of the ordinary: one that takes all requests in one call, one that cannot be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.runner.load import GIVE_UP_S, LEAVE_S, Control, EndedBy
from lmtui.targets.base import Session
from lmtui.targets.clock import clock
from lmtui.workload.plan import PlannedRequest
from tests.runner.harness import MS, Script, outcomes, requests, run_load, share


class Batch(Script):
    """Takes all requests at once and does `at_once` of them at a time, 3 ticks of 10 ms each."""

    def __init__(self, at_once: int = 2) -> None:
        super().__init__()
        self.places = asyncio.Semaphore(at_once)
        self.lost: Exception | None = None
        self.forgets = False

    async def perform_all(self, sessions: Sequence[Session]) -> None:
        now = clock(asyncio.get_running_loop())
        for session in sessions:
            session.sent(now())
        await asyncio.gather(*(self._one(session) for session in sessions[1 if self.forgets else 0 :]))
        if self.lost is not None:
            raise self.lost

    async def _one(self, session: Session) -> None:
        now = clock(asyncio.get_running_loop())
        async with self.places:
            for tokens in range(1, 4):
                if session.cut_as is None:
                    await asyncio.sleep(0.01)
                    session.tick(now(), tokens)
            if session.cut_as is not None:
                session.end(session.cut_as, now(), error="cut")
            elif self.lost is not None:
                session.end(Outcome.BAD_FINISH, now(), error=str(self.lost))
            else:
                session.end(Outcome.OK, now(), output_tokens=3, token_source=TokenSource.ENGINE)


def test_all_requests_begin_together_and_the_target_orders_them(tmp_path: Path) -> None:
    found, control, load = run_load(tmp_path, Batch(), share(requests(6)))
    sessions = found.sessions
    assert outcomes(found) == {"ok": 6}
    assert (sessions.sent_ns == sessions.start_ns).all()
    assert (sessions.due_ns == sessions.start_ns).all()
    ends = np.sort(sessions.end_ns - sessions.start_ns) / MS
    assert ends.round(6).tolist() == [30, 30, 60, 60, 90, 90]
    assert (control.ended_by, load.planned, load.in_flight) == (EndedBy.PLAN, 6, 0)


def test_a_stop_cuts_them_after_the_grace_time(tmp_path: Path) -> None:
    async def stop(control: Control) -> None:
        await asyncio.sleep(0.025)
        control.stop()

    found, control, _ = run_load(tmp_path, Batch(), share(requests(6), grace_s=0.02), stop)
    assert control.ended_by is EndedBy.STOP
    assert outcomes(found) == {"ok": 2, "aborted": 4}


def test_a_lost_target_is_told_as_such(tmp_path: Path) -> None:
    target = Batch()
    target.lost = TargetError("the engine died")
    found, control, _ = run_load(tmp_path, target, share(requests(6)))
    assert (control.ended_by, control.error) == (EndedBy.TARGET, target.lost)
    assert outcomes(found) == {"bad_finish": 6}


def test_what_a_target_forgets_is_ended_and_a_bug(tmp_path: Path) -> None:
    target = Batch()
    target.forgets = True
    found, control, _ = run_load(tmp_path, target, share(requests(6)))
    assert control.ended_by is EndedBy.BUG
    assert str(control.error) == "the target left 1 requests without an end"
    assert outcomes(found) == {"ok": 5, "aborted": 1}


def test_too_many_errors_stop_it(tmp_path: Path) -> None:
    target = Batch()
    target.lost = TargetError("no")
    _, control, _ = run_load(tmp_path, target, share(requests(6), max_errors=1))
    assert control.ended_by is EndedBy.ERRORS


class Stubborn(Script):
    """Swallows a cancel and goes on, as TurboMind's streams do."""

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        session.sent(clock(asyncio.get_running_loop())())
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue


@pytest.mark.filterwarnings("ignore:.*was destroyed but it is pending")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_task_that_swallows_its_cancel_is_left_behind(tmp_path: Path) -> None:
    async def abort(control: Control) -> None:
        await asyncio.sleep(1)
        control.abort()

    found, control, load = run_load(tmp_path, Stubborn(), share(requests(2)), abort)
    assert control.ended_by is EndedBy.STOP
    assert outcomes(found) == {"aborted": 2}
    over_s = (found.sessions.end_ns - found.sessions.start_ns) / 1e9
    assert over_s.round(6).tolist() == [1 + GIVE_UP_S + LEAVE_S] * 2
    assert load.notes == (f"2 requests were cut and not let go of by the target within {GIVE_UP_S:g} s.",)
