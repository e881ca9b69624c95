"""The guided script's comparison: full-length answers beside LMDeploy's profiler, natural stops by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from lmtui.metrics import guided_table, lmdeploy_table, script_columns
from lmtui.metrics.guided_table import GuidedFigures
from lmtui.metrics.sessions import Outcome, Sessions
from tests.metrics.made_sessions import Made, made


def slow(factor: float, *, outcome: Outcome = Outcome.OK, asked: int = 4) -> Sessions:
    return made(
        [
            Made(0, [(50 * factor, 1), (70 * factor, 2), (110 * factor, 4)], asked=asked, outcome=outcome),
            Made(0, [(60 * factor, 1), (80 * factor, 3)], asked=3),
        ]
    )


def found(factor: float, stream_output: bool = True) -> GuidedFigures:
    return guided_table.guided_figures(slow(factor), stream_output=stream_output)


def test_full_length_answers_have_the_profilers_figures() -> None:
    ours = guided_table.guided_figures(slow(1), stream_output=True)
    assert ours.profile == lmdeploy_table.figures(slow(1), stream_output=True, closed_load=False)
    assert (ours.mean_output_len, ours.median_output_len) == (3.5, 3.5)


def test_a_natural_stop_counts_with_the_tokens_that_it_made() -> None:
    ours = guided_table.guided_figures(slow(1, asked=500), stream_output=True)
    dropped = lmdeploy_table.figures(slow(1, asked=500), stream_output=True, closed_load=False)
    assert (ours.profile.success, dropped.success) == (2, 1)
    assert ours.profile.total_output == 7
    assert ours.profile == guided_table.guided_figures(slow(1), stream_output=True).profile


@pytest.mark.parametrize("outcome", [Outcome.SHORT, Outcome.BAD_FINISH, Outcome.TRUNCATED])
def test_an_answer_that_failed_short_of_its_length_does_not_count(outcome: Outcome) -> None:
    ours = guided_table.guided_figures(slow(1, outcome=outcome, asked=500), stream_output=True)
    assert ours.profile.success == 1
    assert ours.mean_output_len == 3.0


def test_the_comparison_shows_what_each_token_costs() -> None:
    lines = guided_table.comparison(found(1), found(1.5), label="json_object @ bs=8", ignores_eos=False).splitlines()
    width = 36 + 3 * 14
    assert lines[0] == ""
    assert lines[1] == lines[-1] == "=" * width
    assert lines[2] == f"{' Guided Decoding Benchmark: json_object @ bs=8 ':=^{width}}"
    assert lines[3] == " Mode: ignore_eos=False (natural stop)"
    assert lines[5] == f"{'Metric':<36}{'Baseline':>14}{'Guided':>14}{'Diff':>14}"
    assert f"{'TPOT mean (ms)':<36}{'15.00':>14}{'22.50':>14}{'+50.0%':>14}" in lines
    assert f"{'** Per-token overhead (TPOT)':<36}{'+50.0%':>14}" in lines
    assert f"{'Successful requests':<36}{'2':>14}{'2':>14}{'+0.0%':>14}" in lines
    assert f"{'Avg output tokens / request':<36}{'3.50':>14}{'3.50':>14}{'+0.0%':>14}" in lines
    assert [line for line in lines if line.startswith("ITL mean")]
    assert all(len(line) <= width for line in lines)


def test_without_a_baseline_there_is_one_column() -> None:
    lines = guided_table.comparison(None, found(1), label="x", ignores_eos=True).splitlines()
    assert lines[3] == " Mode: ignore_eos=True (forced length)"
    assert lines[5] == f"{'Metric':<36}{'Guided':>14}"
    assert not [line for line in lines if "overhead" in line]


def test_without_streaming_there_is_no_ttft_and_no_itl() -> None:
    ours = found(1, stream_output=False)
    shown = guided_table.comparison(None, ours, label="x", ignores_eos=True)
    assert "TTFT mean" not in shown
    assert "ITL" not in shown
    values = row(ours)
    assert values["ttft_mean"] == values["itl_p99"] == "-"


def row(figures: GuidedFigures) -> dict[str, str]:
    hyperparams = ["guided", "json_object", False, "turbomind", 8, 2, "sharegpt"]
    written = guided_table.csv_row(figures, hyperparams)
    assert written.endswith(b"\r\n")
    header = ",".join(script_columns.GUIDED) + "\r\n"
    (values,) = csv.DictReader(io.StringIO(header + written.decode(), newline=""))
    assert None not in values
    return values


def test_the_row_has_every_column_in_seconds() -> None:
    ours = found(1)
    values = row(ours)
    assert list(values) == list(script_columns.GUIDED)
    assert values["run"] == "guided"
    assert values["ignore_eos"] == "False"
    assert values["tpot_mean"] == repr(ours.profile.tpot.mean)
    assert values["e2e_p50"] == repr(ours.profile.e2e.percentiles[0])
    assert values["success"] == "2"


def test_without_a_success_cells_are_dashes() -> None:
    sessions = made([Made(0, end=4, outcome=Outcome.BAD_FINISH)])
    ours = guided_table.guided_figures(sessions, stream_output=True)
    assert ours.mean_output_len is None
    shown = guided_table.comparison(ours, replace(found(1)), label="x", ignores_eos=False)
    assert f"{'TPOT mean (ms)':<36}{'-':>14}{'15.00':>14}{'-':>14}" in shown
    assert "overhead" not in shown
