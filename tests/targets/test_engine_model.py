from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.targets.engine_model import EngineModel, EngineSpeed, Job

MS = 1_000_000
SPEED = EngineSpeed(
    prefill_tokens_per_s=1000, step_ms=10, step_ms_per_seq=1, kv_tokens=1000, max_batch_size=100, cancel_ms=3, leak=0
)


def run(model: EngineModel) -> dict[Job, list[int]]:
    """Let the engine work until it is idle; return the times of each job's tokens."""
    times: dict[Job, list[int]] = {}
    while (now := model.next_ns) is not None:
        for job in model.advance().ticks:
            times.setdefault(job, []).append(now)
    return times


def test_one_job() -> None:
    model = EngineModel(SPEED)
    job = model.add(100, 4, 5)
    assert run(model) == {job: [5 + 111 * MS, 5 + 122 * MS, 5 + 133 * MS, 5 + 144 * MS]}
    assert model.free_kv == 1000


def test_jobs_of_one_instant_share_the_step() -> None:
    model = EngineModel(SPEED)
    jobs = [model.add(10, 2, 0) for _ in range(4)]
    first = (10 + 4 + 40) * MS
    assert run(model) == {job: [first, first + 14 * MS] for job in jobs}


def test_a_job_that_comes_during_a_step_waits_for_its_end_and_slows_the_next() -> None:
    model = EngineModel(SPEED)
    early = model.add(10, 3, 0)
    model.advance()
    late = model.add(20, 1, 1)
    assert run(model) == {early: [21 * MS, (21 + 12 + 20) * MS, 64 * MS], late: [53 * MS]}


def test_a_job_that_answers_a_steps_outputs_misses_the_step_under_way() -> None:
    model = EngineModel(SPEED)
    model.add(0, 3, 0)
    model.advance()
    model.advance()
    answer = model.add(0, 1, 11 * MS)
    assert run(model)[answer] == [(22 + 12) * MS]


def test_an_engine_that_runs_dry_begins_with_all_that_comes_then() -> None:
    model = EngineModel(SPEED)
    model.add(0, 1, 0)
    model.advance()
    before = model.add(0, 1, 11 * MS)
    model.advance()
    assert model.is_idle
    after = model.add(0, 1, 11 * MS)
    assert run(model) == {before: [23 * MS], after: [23 * MS]}


def test_kv_limit_makes_waves_in_order_of_arrival() -> None:
    model = EngineModel(SPEED)
    jobs = [model.add(299, 1, 0) for _ in range(7)]
    first, second = (10 + 3 + 897) * MS, 2 * (10 + 3 + 897) * MS
    last = second + (10 + 1 + 299) * MS
    assert run(model) == dict(zip(jobs, [[first]] * 3 + [[second]] * 3 + [[last]], strict=True))


def test_a_full_batch_makes_jobs_wait() -> None:
    model = EngineModel(replace(SPEED, max_batch_size=2))
    jobs = [model.add(0, 2, 0) for _ in range(3)]
    assert run(model) == {jobs[0]: [12 * MS, 24 * MS], jobs[1]: [12 * MS, 24 * MS], jobs[2]: [35 * MS, 46 * MS]}


def test_a_big_job_at_the_head_holds_the_line() -> None:
    model = EngineModel(SPEED)
    small, big, next_small = model.add(0, 2, 0), model.add(899, 100, 0), model.add(0, 2, 0)
    times = run(model)
    assert times[small] == [11 * MS, 22 * MS]
    assert times[big][0] == (22 + 11 + 899) * MS
    assert times[next_small][0] > times[big][-1]


def test_a_job_that_never_fits_is_refused() -> None:
    model = EngineModel(SPEED)
    job, other = model.add(1000, 1, 0), model.add(10, 1, 0)
    assert model.advance().refused == [job]
    assert set(run(model)) == {other}


def test_a_cancel_wastes_the_step_under_way_and_takes_time() -> None:
    model = EngineModel(SPEED)
    cut, other = model.add(0, 10, 0), model.add(0, 4, 0)
    model.advance()
    model.advance()
    model.cancel(cut, 12 * MS)
    assert model.free_kv == 1000 - 14
    events = model.advance()
    assert events.ticks == [other]
    assert events.let_go == [(cut, (24 + 3) * MS)]
    assert (cut.tokens, cut.wasted) == (1, 1)
    assert model.free_kv == 1000 - 4
    assert run(model)[other] == [(24 + 3 + 11) * MS, (24 + 3 + 11 + 11) * MS]


def test_cancels_queue_for_the_engine() -> None:
    model = EngineModel(SPEED)
    jobs = [model.add(0, 10, 0) for _ in range(3)]
    model.advance()
    for job in jobs:
        model.cancel(job, 1)
    events = model.advance()
    assert events.let_go == [(jobs[0], 16 * MS), (jobs[1], 19 * MS), (jobs[2], 22 * MS)]
    assert model.next_ns == 22 * MS
    assert run(model) == {}


def test_a_cancel_that_comes_during_the_last_step_costs_nothing() -> None:
    model = EngineModel(SPEED)
    job = model.add(0, 1, 0)
    model.advance()
    model.cancel(job, 1)
    events = model.advance()
    assert events.let_go == [(job, 11 * MS)]
    assert (job.tokens, job.wasted, model.next_ns) == (0, 1, None)


def test_a_waiting_job_is_cancelled_without_any_token() -> None:
    model = EngineModel(SPEED)
    model.add(500, 500, 0)
    waiting = model.add(500, 1, 0)
    model.advance()
    model.cancel(waiting, 1)
    assert model.advance().let_go == [(waiting, (511 + 3) * MS)]
    assert (waiting.tokens, waiting.wasted) == (0, 0)


def test_leaks_use_up_the_kv() -> None:
    model = EngineModel(EngineSpeed(1000, 10, 1, kv_tokens=1000, max_batch_size=100, cancel_ms=0, leak=0.5))
    job = model.add(600, 200, 0)
    model.advance()
    model.cancel(job, 1)
    model.advance()
    assert model.free_kv == 600
    too_big, fits = model.add(500, 101, 10**12), model.add(500, 100, 10**12)
    assert model.advance().refused == [too_big]
    assert len(run(model)[fits]) == 100
    assert model.free_kv == 600


jobs_and_cuts = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 30), st.integers(0, 400), st.none() | st.integers(0, 600)),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(jobs_and_cuts)
def test_every_job_ends_once_with_its_tokens_and_all_kv_comes_back(
    asked: list[tuple[int, int, int, int | None]],
) -> None:
    model = EngineModel(SPEED)
    todo = sorted(((came * MS, n, "add") for n, (_, _, came, _) in enumerate(asked)), key=lambda entry: entry[0])
    todo += [((came + cut) * MS, n, "cut") for n, (_, _, came, cut) in enumerate(asked) if cut is not None]
    todo.sort(key=lambda entry: entry[0])
    jobs: dict[int, Job] = {}
    ends: dict[Job, str] = {}
    while todo or model.next_ns is not None:
        if todo and (model.next_ns is None or todo[0][0] <= model.next_ns):
            at, n, what = todo.pop(0)
            if what == "add":
                jobs[n] = model.add(asked[n][0], asked[n][1], at)
            elif jobs[n] not in ends:
                model.cancel(jobs[n], at)
            continue
        now = model.next_ns
        assert now is not None
        events = model.advance()
        assert model.next_ns is None or model.next_ns >= now
        assert model.free_kv >= 0
        for job in events.ticks:
            if job.tokens == job.output_len:
                assert job not in ends
                ends[job] = "done"
        for job, at in events.let_go:
            assert job not in ends
            assert at >= now
            ends[job] = "let go"
    assert set(ends) == set(jobs.values())
    assert model.free_kv == 1000
    for job, how in ends.items():
        assert (job.tokens == job.output_len) == (how == "done")


def test_an_infinitely_fast_engine_still_comes_to_an_end() -> None:
    model = EngineModel(EngineSpeed(1e30, 0, 0, kv_tokens=100, max_batch_size=100, cancel_ms=0, leak=0))
    job = model.add(1, 3, 7)
    assert run(model) == {job: [7, 7, 7]}


@pytest.mark.parametrize("late_ns", [1, 5 * MS])
def test_arrivals_after_a_boundary_that_was_handled_late_do_not_join_its_step(late_ns: int) -> None:
    model = EngineModel(SPEED)
    model.add(0, 3, 0)
    model.advance()
    late = model.add(0, 1, 11 * MS + late_ns)
    times = run(model)
    assert times[late] == [(22 + 12) * MS]
