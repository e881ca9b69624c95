"""Comparing runs: values and differences, what is judged and what is not, what differs, what is warned of, the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.errors import LmtuiError
from lmtui.metrics.result import Distribution, Metrics, Result
from lmtui.metrics.sessions import Sessions
from lmtui.results.columns import cells
from lmtui.results.compare import Comparison, Line, Subject, Verdict, compare, subject
from lmtui.results.compare_text import compare_text
from lmtui.results.figures import FIGURES, Better
from lmtui.results.rows import Row
from tests.metrics.made_sessions import Made, config, made, summary
from tests.results.made_results import result


def run(seed: int, ttft_ms: float = 50, gap_ms: float = 10, n: int = 150, **sections: Any) -> Subject:
    """Return a run of n requests, each with some noise of its own."""
    noise = np.random.default_rng(seed).gamma(4, 0.25, size=(n, 4))
    rows = []
    for place, (first, *gaps) in enumerate(noise):
        at = np.cumsum([place * 5 + ttft_ms * first, *(gap_ms * gap for gap in gaps)])
        rows.append(Made(place * 5, [(float(ms), tokens + 1) for tokens, ms in enumerate(at)]))
    sessions = made(rows)
    whole = summary(sessions, config(**sections))
    return subject(msgspec.structs.replace(whole, run_id=f"run-{seed}"), sessions)


def line(comparison: Comparison, column: str) -> Line:
    (found,) = (one for one in comparison.lines if one.figure.column == column)
    return found


def with_metrics(**changes: Any) -> Subject:
    whole = result(run_id=f"run-{sorted(changes.items())}")
    return subject(msgspec.structs.replace(whole, metrics=msgspec.structs.replace(whole.metrics, **changes)))


def test_values_differences_and_directions() -> None:
    found = compare([with_metrics(output_throughput=100.0), with_metrics(output_throughput=150.0)])
    tokens = line(found, "output_throughput")
    assert tokens.values == (100.0, 150.0)
    (change,) = tokens.changes
    assert (change.absolute, change.percent, change.interval, change.verdict) == (50.0, 50.0, None, Verdict.BETTER)
    assert tokens.best == 1

    slow = Distribution(mean=30.0, p50=20.0, max=90.0, n=5)
    fast = Distribution(mean=15.0, p50=20.0, max=80.0, n=5)
    found = compare([with_metrics(ttft_ms=slow), with_metrics(ttft_ms=fast)])
    assert line(found, "ttft_ms.mean").changes[0].verdict is Verdict.BETTER
    assert line(found, "ttft_ms.mean").best == 1
    assert line(found, "ttft_ms.p50").changes[0].verdict is Verdict.SAME
    assert line(found, "ttft_ms.p50").best is None
    assert line(found, "ttft_ms.max").changes[0].verdict is None, "a maximum is one request"
    found = compare([with_metrics(ttft_ms=fast), with_metrics(ttft_ms=slow)])
    assert line(found, "ttft_ms.mean").changes[0].verdict is Verdict.WORSE
    assert line(found, "ttft_ms.mean").best == 0


def test_missing_stays_missing() -> None:
    found = compare([with_metrics(goodput=None), with_metrics(goodput=3.0), with_metrics(goodput=2.0)])
    goodput = line(found, "goodput")
    assert goodput.values == (None, 3.0, 2.0)
    assert [(change.absolute, change.verdict) for change in goodput.changes] == [(None, None), (None, None)]
    assert goodput.best == 1
    assert "–" in compare_text(found)
    nobody = compare([with_metrics(goodput=None), with_metrics(goodput=None)])
    assert not [one for one in nobody.lines if one.figure.column == "goodput"]


def test_from_nothing_there_is_no_percentage() -> None:
    change = line(compare([with_metrics(goodput=0.0), with_metrics(goodput=2.0)]), "goodput").changes[0]
    assert (change.absolute, change.percent, change.verdict) == (2.0, None, Verdict.BETTER)


def test_every_figure_is_a_column_and_says_its_direction() -> None:
    whole = result()
    columns = set(cells(whole))
    for figure in FIGURES:
        assert figure.column in columns
        if figure.better is not None:
            assert (figure.better is Better.HIGHER) is ("throughput" in figure.column or "goodput" in figure.column)
    assert {name for name in Metrics.__struct_fields__ if name.endswith("_ms")} <= {one.sample for one in FIGURES}


def test_a_clear_difference_is_told_from_an_unclear_one() -> None:
    found = compare([run(1), run(2, ttft_ms=80)])
    ttft, e2e_gap = line(found, "ttft_ms.p50"), line(found, "itl_ms.mean")
    (change,) = ttft.changes
    assert change.verdict is Verdict.WORSE
    assert change.interval is not None
    assert change.interval[0] < change.absolute < change.interval[1]  # type: ignore[operator]
    assert change.interval[0] > 0
    assert ttft.best == 0
    for value, bounds in zip(ttft.values, ttft.intervals, strict=True):
        assert value is not None
        assert bounds is not None
        assert bounds[0] < value < bounds[1]
    (change,) = e2e_gap.changes
    assert change.verdict in (Verdict.UNCLEAR, Verdict.SAME)
    assert e2e_gap.best is None
    assert "one run each" in found.notes[0]


def test_the_best_of_several_is_better_than_each() -> None:
    found = compare([run(1), run(2, ttft_ms=25), run(3, ttft_ms=25), run(4, ttft_ms=200)])
    ttft = line(found, "ttft_ms.mean")
    assert [change.verdict for change in ttft.changes] == [Verdict.BETTER, Verdict.BETTER, Verdict.WORSE]
    assert ttft.best is None, "the second and the third are equally good"
    assert line(compare([run(1), run(2, ttft_ms=25), run(4, ttft_ms=200)]), "ttft_ms.mean").best == 1


def test_the_same_comparison_gives_the_same_intervals_and_leaves_global_generators_alone() -> None:
    np.random.seed(7)
    first = np.random.random()
    np.random.seed(7)
    assert compare([run(1), run(2)]) == compare([run(1), run(2)])
    assert np.random.random() == first


def test_a_percentile_that_a_sample_cannot_resolve_is_not_judged() -> None:
    found = compare([run(1), run(2, ttft_ms=80, n=60)])
    p99 = line(found, "ttft_ms.p99")
    assert p99.unresolved == (False, True)
    assert p99.changes[0].verdict is None
    assert p99.changes[0].absolute is not None
    assert p99.intervals[0] is not None
    assert p99.intervals[1] is None
    assert "~" in compare_text(found)


def test_rows_without_requests_are_compared_without_intervals() -> None:
    one = run(1)
    found = compare([one, Subject(run(2, ttft_ms=80).row)])
    ttft = line(found, "ttft_ms.p50")
    assert ttft.intervals[0] is not None
    assert ttft.intervals[1] is None
    assert (ttft.changes[0].interval, ttft.changes[0].verdict) == (None, Verdict.WORSE)
    assert any(note.startswith("no intervals for B") for note in found.notes)


def test_survivors_stand_beside_a_run_without_cancels() -> None:
    plain = run(1)
    picked = [
        Made(place * 5, [(place * 5 + 60, 1), (place * 5 + 70, 4)], cancel_planned=place % 2 == 0)
        for place in range(150)
    ]
    sessions: Sessions = made(picked)
    cut = subject(summary(sessions, config(cancel={"rate": 0.5})), sessions)
    survivors = line(compare([plain, cut]), "cancel.survivors.ttft_ms.p50")
    assert survivors.values == (plain.row.number("ttft_ms.p50"), 60.0)
    assert survivors.changes[0].interval is not None
    assert not [one for one in compare([plain, run(2)]).lines if one.figure.column.startswith("cancel.")]


def test_what_differs_is_named_by_key() -> None:
    changed = result(
        run_id="other",
        target={"kind": "simulated", "versions": {"vllm": "0.9"}},
        environment={"host": "b", "packages": {"numpy": "2.0"}},
    )
    sections: dict[str, Any] = {"load": {"concurrency": 8}, "target": {"kind": "simulated", "step_ms": 20.0, "tp": 2}}
    whole = msgspec.structs.replace(changed, config=summary(made([]), config(**sections)).config)
    found = compare([subject(result(environment={"host": "a", "packages": {"numpy": "2.0"}})), subject(whole)])
    assert [(one.group, one.key, one.values) for one in found.differs] == [
        ("config", "load.concurrency", ("64", "8")),
        ("target", "target.step_ms", (cells(result())["target.step_ms"], "20.0")),
        ("versions", "target.versions.vllm", ("", "0.9")),
        ("machine", "environment.host", ("a", "b")),
    ], "target.tp means nothing to a simulated engine"
    text = compare_text(found)
    assert "load.concurrency: A 64, B 8" in text
    assert "target.versions.vllm: A –, B 0.9" in text


def imported(**cells_of: str) -> Subject:
    row = {"run_id": "import-1", "name": "profile", "phase": "done", "started_at": "", "source": "profile.csv"}
    row |= {"output_throughput": "90.5", "load.concurrency": "64", **cells_of}
    return Subject(Row({column: place for place, column in enumerate(row)}, list(row.values())))


def test_an_imported_row_does_not_differ_in_what_it_does_not_say() -> None:
    found = compare([subject(result()), imported()])
    assert found.differs == ()
    assert line(found, "output_throughput").values[1] == 90.5
    assert line(found, "ttft_ms.mean").values[1] is None
    assert any("not known" in warning for warning in found.warnings)
    (one,) = compare([subject(result()), imported(**{"load.concurrency": "8"})]).differs
    assert (one.key, one.values) == ("load.concurrency", ("64", "8"))
    assert "imported from profile.csv" in compare_text(found)


def graded(run_id: str, grade: str, *reasons: str) -> Subject:
    whole = result(run_id=run_id)
    client = msgspec.structs.replace(whole.client, grade=grade, reasons=reasons)
    return subject(msgspec.structs.replace(whole, client=client))


GOOD = graded("good", "good")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (graded("good", "good"), "A and B are the same run"),
        (subject(result("real", simulated=False)), "A is SIMULATED, B is not"),
        (subject(result("usage", tokens_from="usage")), "A engine, B usage"),
        (graded("bad", "suspect", "few samples"), "B is suspect: few samples"),
        (subject(result("cut", phase="stopped")), "B did not finish (stopped)"),
        (subject(msgspec.structs.replace(result("seed"), config={**result().config, "seed": 9})), "seed: A 0, B 9"),
    ],
)
def test_what_to_beware_of(other: Subject, words: str) -> None:
    found = compare([GOOD, other])
    assert any(words in warning for warning in found.warnings), found.warnings
    text = " ".join(compare_text(found).split())
    assert all(f"! {warning}" in text for warning in found.warnings)


def test_nothing_to_beware_of() -> None:
    assert compare([GOOD, graded("twin", "good")]).warnings == ()


def test_tokens_counted_differently_are_shown_but_not_judged() -> None:
    def of(source: str, throughput: float) -> Subject:
        whole = result(run_id=source, tokens_from=source)
        metrics = msgspec.structs.replace(whole.metrics, output_throughput=throughput, request_throughput=throughput)
        return subject(msgspec.structs.replace(whole, metrics=metrics))

    found = compare([of("usage", 10.0), of("chunks", 20.0)])
    tokens = line(found, "output_throughput")
    assert tokens.changes[0].absolute == 10.0
    assert (tokens.changes[0].verdict, tokens.best) == (None, None)
    assert line(found, "request_throughput").changes[0].verdict is Verdict.BETTER


def test_one_run_or_too_many_are_refused() -> None:
    for count in (0, 1, 27):
        with pytest.raises(LmtuiError, match="name two to 26"):
            compare([GOOD] * count)


def texts(comparison: Comparison) -> Sequence[str]:
    return [
        compare_text(comparison, width, ascii_only=plain) for width in (20, 80, 120, 200) for plain in (False, True)
    ]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_text_fits_and_shows_every_run(count: int) -> None:
    found = compare([run(seed, load={"concurrency": seed}) for seed in range(1, count + 1)])
    for width, text in zip((77, 77, 80, 80, 120, 120, 200, 200), texts(found), strict=True):
        lines = text.split("\n")
        assert max(map(len, lines)) <= width
        assert not [one for one in lines if one != one.rstrip()]
        for one in found.runs:
            assert f"{one.label}  {one.run_id}" in text
        assert sum("output tok/s" in one for one in lines) >= 1
    assert all(text.isascii() for text in texts(found)[1::2])
    assert "≈" in texts(found)[0]


def test_long_and_hostile_names_do_not_break_the_text() -> None:
    hostile = "\x1b[2J[bold]" + "名" * 90 + "\n| *"
    one = result(run_id=hostile, target={"kind": "server", "model": "m" * 400}, name=hostile)
    found = compare([subject(one), subject(result("b", environment={"gpu": hostile}))])
    text = compare_text(found)
    assert "\x1b" not in text
    assert all(len(one) <= 77 for one in text.split("\n"))
    assert text.replace("\n", "").replace(" ", "").count("m" * 400) == 1, "values are wrapped, not cut"


@given(st.lists(st.sampled_from([None, 0.0, 1.0, -3.5, 1e9, 123456.789, 1e-9]), min_size=2, max_size=5))
@settings(max_examples=40, deadline=None)
def test_any_values_keep_their_places(values: list[float | None]) -> None:
    rows: list[Result] = []
    for place, value in enumerate(values):
        whole = result(run_id=f"r{place}")
        rows.append(msgspec.structs.replace(whole, metrics=msgspec.structs.replace(whole.metrics, goodput=value)))
    found = compare([subject(one) for one in rows])
    goodput = [one for one in found.lines if one.figure.column == "goodput"]
    assert bool(goodput) is any(value is not None for value in values)
    for one in goodput:
        assert list(one.values) == values
        if one.best is not None:
            assert one.values[one.best] == max(value for value in values if value is not None)
    assert max(map(len, compare_text(found).split("\n"))) <= 77
    assert msgspec.json.decode(msgspec.json.encode(found))["runs"][0]["label"] == "A"
