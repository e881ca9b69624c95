"""LMDeploy's own profiler is the oracle: fed the same stamps, its numbers and lines are ours."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.metrics import lmdeploy_table, script_columns
from lmtui.metrics.sessions import Outcome, Sessions, TokenSource
from tests.metrics.made_sessions import MS, Made, made

HYPERPARAMS = (("Concurrency", 8), ("Cancel rate", 0.25), ("Stream output", "true"))


class ScriptedClock:
    """Stands in for the profiler's module `time`: gives the stamps of a list, in nanoseconds."""

    def __init__(self) -> None:
        self.stamps_ns: list[int] = []

    def perf_counter(self) -> float:
        return self.stamps_ns.pop(0) / 1e9


@pytest.fixture(scope="module")
def profiler_module() -> Any:
    """lmdeploy/profiler.py, loaded by its path: the package itself would import torch."""
    spec = importlib.util.find_spec("lmdeploy")
    if spec is None or not spec.submodule_search_locations:
        pytest.fail("lmdeploy is not installed: `pip install lmdeploy==0.18.0 --no-deps` (CI does)")
    path = Path(spec.submodule_search_locations[0]) / "profiler.py"
    file_spec = importlib.util.spec_from_file_location("lmdeploy_profiler_alone", path)
    assert file_spec is not None
    assert file_spec.loader is not None
    module = importlib.util.module_from_spec(file_spec)
    file_spec.loader.exec_module(module)
    return module


def feed(module: Any, sessions: Sessions, *, stream_output: bool) -> Any:
    """Play the sessions to a Profiler as the scripts do: every request ends as SUCCESS, whatever happened to it."""
    clock = ScriptedClock()
    module.time = clock
    profiler = module.Profiler(stream_output, [50, 75, 95, 99])
    clock.stamps_ns = [int(sessions.sent_ns.min())]
    profiler.start()
    for row in range(len(sessions.index)):
        session = profiler.new_session(int(sessions.input_len[row]), int(sessions.asked_len[row]))
        ticks = range(int(sessions.tick_start[row]), int(sessions.tick_start[row + 1]))
        clock.stamps_ns = [int(sessions.sent_ns[row]), *(int(sessions.tick_ns[i]) for i in ticks)]
        session.tick(0)
        for i in ticks:
            session.tick(int(sessions.tick_tokens[i]))
        session.finish(module.Session.SUCCESS)
    clock.stamps_ns = [int(sessions.end_ns.max())]
    profiler.finish()
    profiler.compute_metrics()
    return profiler


def printed(profiler: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        profiler.summarize(title="Profile Throughput", hyperparams=HYPERPARAMS)
    return out.getvalue()


@st.composite
def runs(draw: st.DrawFn) -> Sessions:
    """Runs with bursts, empty ticks, cancelled and failed requests, and at least one success."""
    base = draw(st.sampled_from([0, 7 * MS, 123_456_789_012_345]))
    requests = []
    for _ in range(draw(st.integers(1, 8))):
        sent = draw(st.integers(0, 5_000_000)) * 1e-3
        at, count, ticks = sent, 0, []
        for gap, tokens in draw(st.lists(st.tuples(st.integers(0, 900_000), st.integers(0, 4)), max_size=8)):
            at, count = at + gap * 1e-3, count + tokens
            ticks.append((base / MS + at, count))
        outcome = draw(st.sampled_from([Outcome.OK, Outcome.CANCELLED, Outcome.BAD_FINISH]))
        asked = draw(st.integers(1, 10))
        requests.append(
            Made(
                base / MS + sent,
                ticks,
                end=ticks[-1][0] if ticks else base / MS + sent,
                outcome=outcome,
                asked=asked,
                input_len=draw(st.integers(1, 500)),
            )
        )
    sure = base / MS + draw(st.integers(0, 1000))
    last = sure + 1 + draw(st.integers(0, 9_000_000)) * 1e-3
    requests.append(Made(sure, [(sure + 0.5, 1), (last, 4)], end=last, asked=4))
    return made(requests)


@settings(max_examples=150, deadline=None)
@given(sessions=runs(), stream_output=st.booleans())
def test_figures_table_and_row_equal_lmdeploys(
    profiler_module: Any, tmp_path_factory: pytest.TempPathFactory, sessions: Sessions, stream_output: bool
) -> None:
    profiler = feed(profiler_module, sessions, stream_output=stream_output)
    ours = lmdeploy_table.figures(sessions, stream_output=stream_output, closed_load=True)

    assert (ours.elapsed_s, ours.success) == (profiler.elapsed_time, profiler.success)
    assert (ours.total_input, ours.total_output) == (profiler.total_input, profiler.total_output)
    assert (ours.input_throughput, ours.output_throughput) == (profiler.input_throughput, profiler.output_throughput)
    assert ours.rps == profiler.rps
    assert (ours.e2e.mean, ours.e2e.percentiles) == (profiler.e2e_mean, profiler.e2e_stat)
    assert (ours.tpot.mean, ours.tpot.percentiles) == (profiler.tpot_mean, profiler.tpot_stat)
    if stream_output:
        assert (ours.ttft.mean, ours.ttft.percentiles) == (profiler.ttft_mean, profiler.ttft_stat)
        assert (ours.itl.mean, ours.itl.percentiles) == (profiler.itls_mean, profiler.itls_stat)
        assert (ours.tokens_per_tick.mean, ours.tokens_per_tick.percentiles) == (
            profiler.tpts_mean,
            profiler.tpts_stat,
        )
    assert ours.messages == ()

    text = lmdeploy_table.table(ours, "Profile Throughput", HYPERPARAMS)
    assert text.splitlines() == printed(profiler).splitlines()
    assert text == printed(profiler)

    file = tmp_path_factory.mktemp("csv") / "profile.csv"
    pairs = (("backend", "turbomind"), ("bs", 8), ("sharegpt_output_len", None))
    profiler.save_csv(str(file), pairs)
    profiler.save_csv(str(file), pairs)
    row = lmdeploy_table.csv_row(ours, [value for _, value in pairs])
    header = script_columns.line([*(name for name, _ in pairs), *script_columns.FIGURES])
    assert file.read_bytes() == header + row + row


@pytest.fixture
def quiet_numpy() -> Iterator[None]:
    with pytest.warns(RuntimeWarning, match="invalid value"):
        yield


@pytest.mark.usefixtures("quiet_numpy")
def test_without_a_success_cells_are_dashes_where_the_script_prints_inf_and_nan(profiler_module: Any) -> None:
    sessions = made([Made(0, [(50, 1), (70, 2)], asked=4, outcome=Outcome.SHORT), Made(5, asked=4, end=90)])
    ours = lmdeploy_table.figures(sessions, stream_output=True, closed_load=True)
    theirs = printed(feed(profiler_module, sessions, stream_output=True)).splitlines()
    mine = lmdeploy_table.table(ours, "Profile Throughput", HYPERPARAMS).splitlines()

    assert [line for line in theirs if "inf" in line or "nan" in line]
    assert not [line for line in mine if "inf" in line or "nan" in line]
    dashed = [line.replace("inf", "  -").replace("nan", "  -") for line in theirs]
    tokens_row = next(place for place, line in enumerate(mine) if line.startswith("Tokens per Tick"))
    assert theirs[tokens_row].split() == ["Tokens", "per", "Tick", "0.000", "0", "0", "0", "0"]
    assert mine[tokens_row].split() == ["Tokens", "per", "Tick", "-", "-", "-", "-", "-"]
    del mine[tokens_row], dashed[tokens_row]
    assert mine == dashed
    assert ours.messages == ("no request reached the tokens that were asked for: the latencies have no data (-)",)
    assert lmdeploy_table.csv_row(ours, [8]) == b"8,0,0,0,0.09,0.000,0.000,0.000,-,-,-,-\r\n"


def test_a_success_without_a_token_does_not_crash_the_report(profiler_module: Any) -> None:
    sessions = made([Made(0, [(50, 0)], asked=0, end=60), Made(0, [(50, 1), (90, 4)], asked=4)])
    with pytest.raises(ZeroDivisionError):
        feed(profiler_module, sessions, stream_output=True)
    ours = lmdeploy_table.figures(sessions, stream_output=True, closed_load=True)
    assert ours.success == 2
    assert ours.tpot.mean == pytest.approx(0.04 / 3)
    assert ours.messages == ("1 requests made no token and were asked for none: they are left out of TPOT",)


def test_when_no_time_passed_the_throughputs_are_dashes(profiler_module: Any) -> None:
    sessions = made([Made(5, [(5, 4)], asked=4, end=5)])
    with pytest.raises(ZeroDivisionError):
        feed(profiler_module, sessions, stream_output=False)
    ours = lmdeploy_table.figures(sessions, stream_output=False, closed_load=True)
    assert ours.rps is None
    assert "no time passed" in ours.messages[0]
    assert f"{'Request throughput (req/s)':<40}{'-':>10}" in lmdeploy_table.table(ours, "t", ())


def test_where_only_a_total_is_known_it_stands_at_the_last_tick() -> None:
    request = Made(0, [(50, None), (70, None), (90, None)], tokens=9, asked=9, source=TokenSource.USAGE)
    ours = lmdeploy_table.figures(made([request]), stream_output=True, closed_load=True)
    assert (ours.success, ours.total_output) == (1, 9)
    assert ours.tpot.mean == pytest.approx(0.04 / 8)


def test_an_unknown_input_length_is_a_dash() -> None:
    ours = lmdeploy_table.figures(
        made([Made(0, [(50, 1), (90, 4)], input_len=None)]), stream_output=True, closed_load=True
    )
    assert ours.total_input is None
    assert f"{'Total input tokens':<40}{'-':>10}" in lmdeploy_table.table(ours, "t", ())


def test_requests_that_were_never_sent_count_among_the_total() -> None:
    sessions = made([Made(0, [(50, 4)]), Made(None, outcome=Outcome.DROPPED)], planned=7)
    ours = lmdeploy_table.figures(sessions, stream_output=True, closed_load=True)
    assert (ours.total, ours.success) == (7, 1)
