"""CSVs as LMDeploy's scripts append them → rows of the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.errors import LmtuiError
from lmtui.metrics import guided_table, lmdeploy_table, script_columns
from lmtui.results import history
from lmtui.results.importer import read_script_csv
from tests.metrics.made_sessions import Made, made
from tests.results.made_results import result

ENGINE = ",".join(script_columns.ENGINE)
RESTFUL = ",".join(script_columns.RESTFUL)
ENGINE_ROW = "turbomind,256,random,,512,128,0.5,5000,4990,2555,630,101.25,49.284,25.2,6.2,2000.123,50.1,10.25,9.75"
RESTFUL_ROW = "vllm-chat,sharegpt,200,,,0.0,4.0,10,300,2000,3.5,2.857142857142857,85.7,571.4,1200.5,40.1,5.5,5.25"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "history.csv"


def write(folder: Path, *lines: str, name: str = "profile_throughput.csv") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\r\n" for line in lines), newline="")
    return path


def test_a_row_of_the_engine_scripts(tmp_path: Path, kept: Path) -> None:
    assert history.import_csv(write(tmp_path, ENGINE, ENGINE_ROW), kept) == 1
    (row,) = history.read(kept)
    assert row.text("source") == "profile_throughput.csv"
    assert (row.text("name"), row.text("phase"), row.text("grade")) == ("profile_throughput", "done", "")
    assert (row.text("target.kind"), row.text("load.mode"), row.count("load.concurrency")) == (
        "turbomind",
        "closed",
        256,
    )
    assert (row.text("dataset.kind"), row.count("dataset.input_len"), row.count("dataset.output_len")) == (
        "random",
        512,
        128,
    )
    assert (row.number("dataset.range_ratio"), row.count("load.num_prompts")) == (0.5, 5000)
    assert (row.count("completed"), row.count("outcomes.ok")) == (4990, 4990)
    assert (row.number("duration_s"), row.number("request_throughput")) == (101.25, 49.284)
    assert (row.number("e2e_ms.mean"), row.number("ttft_ms.mean")) == (2000.123, 50.1)
    assert (row.number("tpot_ms.mean"), row.number("itl_ms.mean")) == (10.25, 9.75)
    assert row.text("started_at") == ""


def test_a_row_that_our_own_drop_in_writes(tmp_path: Path, kept: Path) -> None:
    figures = lmdeploy_table.figures(made([Made(0, [(50, 1), (90, 4)])]), stream_output=True, closed_load=True)
    written = lmdeploy_table.csv_row(figures, ["pytorch", 8, "sharegpt", None, None, None, None, 10])
    path = tmp_path / "x.csv"
    path.write_bytes(script_columns.line(script_columns.ENGINE) + written)
    assert history.import_csv(path, kept) == 1
    (row,) = history.read(kept)
    assert row.number("ttft_ms.mean") == 50
    assert row.text("target.kind") == "pytorch"


def test_rows_of_the_guided_script(tmp_path: Path, kept: Path) -> None:
    path = tmp_path / "guided.csv"
    text = script_columns.line(script_columns.GUIDED)
    for label, itl in (("baseline", 90), ("guided", 130)):
        run = made([Made(0, [(50, 1), (itl, 4)]), Made(0, [(70, 1), (itl, 4)])])
        figures = guided_table.guided_figures(run, stream_output=label == "guided")
        text += guided_table.csv_row(figures, [label, "json_object", False, "pytorch", 8, 2, "sharegpt"])
    path.write_bytes(text)
    assert history.import_csv(path, kept) == 2
    baseline, guided = history.read(kept)
    assert [row.text("guided.response_format") for row in (baseline, guided)] == ["none", "json_object"]
    assert (guided.text("name"), guided.text("target.kind"), guided.text("target.backend")) == (
        "guided-guided", "pipeline", "pytorch",
    )  # fmt: skip
    assert (guided.count("load.concurrency"), guided.count("load.num_prompts"), guided.count("completed")) == (8, 2, 2)
    assert guided.text("request.ignore_eos") == "false"
    assert guided.number("duration_s") == pytest.approx(0.13)
    assert guided.number("ttft_ms.mean") == pytest.approx(60)
    assert guided.number("itl_ms.p99") == pytest.approx(79.8)
    assert guided.number("e2e_ms.p50") == pytest.approx(130)
    assert guided.number("imported.avg_output_len") == 4
    assert (baseline.text("ttft_ms.mean"), baseline.text("itl_ms.p99")) == ("", ""), "it did not stream"


@pytest.mark.parametrize(
    ("backend", "preset", "api"),
    [
        ("lmdeploy", "lmdeploy", "completions"),
        ("vllm-chat", "vllm", "chat"),
        ("sglang", "sglang", "sglang"),
        ("sglang-native", "sglang", "sglang"),
        ("sglang-oai", "sglang", "completions"),
        ("sglang-oai-chat", "sglang", "chat"),
        ("trt", "trt", "trt"),
    ],
)
def test_a_row_of_the_restful_script(tmp_path: Path, kept: Path, backend: str, preset: str, api: str) -> None:
    line = RESTFUL_ROW.replace("vllm-chat", backend)
    assert history.import_csv(write(tmp_path, RESTFUL, line), kept) == 1
    (row,) = history.read(kept)
    assert (row.text("target.kind"), row.text("target.preset"), row.text("target.api")) == ("server", preset, api)
    assert (row.text("load.mode"), row.number("load.rate")) == ("open", 4)
    assert (row.text("dataset.kind"), row.count("dataset.output_len")) == ("sharegpt", 200)
    assert row.number("request_throughput") == 2.857142857142857


def test_an_infinite_rate_stays_and_other_infinities_are_missing(tmp_path: Path, kept: Path) -> None:
    line = RESTFUL_ROW.replace(",4.0,10,", ",inf,0,").replace(",40.1,5.5,5.25", ",inf,nan,-")
    history.import_csv(write(tmp_path, RESTFUL, line), kept)
    (row,) = history.read(kept)
    assert row.number("load.rate") == float("inf")
    assert (row.text("ttft_ms.mean"), row.text("tpot_ms.mean"), row.text("itl_ms.mean")) == ("", "", "")
    assert row.count("completed") == 0


def test_one_file_may_hold_several_headers_and_rows_under_a_foreign_one(tmp_path: Path, kept: Path) -> None:
    legacy = "batch,num_promts,RPS,RPM,FTL(ave)(s),FTL(min)(s),FTL(max)(s),50%(s),throughput(out tok/s)"
    path = write(
        tmp_path,
        legacy,
        "64,1000,5.5,330,0.25,0.1,0.5,0.02,700.5",
        ENGINE,
        ENGINE_ROW,
        RESTFUL_ROW,  # the restful script appended to a file that the engine script began
        RESTFUL,
        RESTFUL_ROW.replace("vllm", "lmdeploy"),
        ENGINE_ROW.replace("turbomind", "pytorch"),
    )
    assert history.import_csv(path, kept) == 5
    rows = history.read(kept)
    assert [row.text("target.kind") for row in rows] == ["", "turbomind", "server", "server", "pytorch"]
    assert (rows[0].number("ttft_ms.mean"), rows[0].number("output_throughput")) == (250, 700.5)
    assert (rows[0].count("load.concurrency"), rows[0].count("load.num_prompts")) == (64, 1000)
    assert (rows[0].text("imported.50%(s)"), rows[0].text("imported.RPM")) == ("0.02", "330")
    assert rows[0].text("outcomes.ok") == ""
    assert [row.number("itl_ms.mean") for row in rows[1:]] == [9.75, 5.25, 5.25, 9.75]


def test_importing_again_adds_only_what_is_new(tmp_path: Path, kept: Path) -> None:
    path = write(tmp_path, ENGINE, ENGINE_ROW, ENGINE_ROW)
    assert history.import_csv(path, kept) == 2  # two equal runs are two runs
    assert history.import_csv(path, kept) == 0
    path = write(tmp_path, ENGINE, ENGINE_ROW, ENGINE_ROW, ENGINE_ROW, RESTFUL_ROW)
    assert history.import_csv(path, kept) == 2
    assert len(history.read(kept)) == 4


def test_imported_rows_stand_beside_measured_ones(tmp_path: Path, kept: Path) -> None:
    history.append(kept, result("mine"))
    history.import_csv(write(tmp_path, ENGINE, ENGINE_ROW), kept)
    mine, imported = history.read(kept)
    assert (mine.text("source"), imported.text("source")) == ("lmtui", "profile_throughput.csv")
    assert imported.text("seed") == ""
    assert imported.text("run_id").startswith("import-")


def test_a_bad_line_is_told_and_costs_only_itself_where_someone_listens(tmp_path: Path, kept: Path) -> None:
    path = write(tmp_path, ENGINE, "a,b,c", ENGINE_ROW, ENGINE_ROW.replace("4990", "many"), '"open')
    with pytest.raises(LmtuiError, match=r"line 2 has 3 cells .* Nothing was imported"):
        history.import_csv(path, kept)
    assert history.read(kept) == []
    told: list[str] = []
    assert history.import_csv(path, kept, told.append) == 1
    assert [sentence.split(": ", 1)[1] for sentence in told] == [
        "line 2 has 3 cells and fits no script's row (the header has 19)",
        "line 4 has 19 cells and fits no script's row (the header has 19)",
        "line 5 is no CSV and fits no script's row (the header has 19)",
    ]


def test_a_line_before_any_header_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    read_script_csv(write(tmp_path, ENGINE_ROW, ENGINE, ENGINE_ROW), told.append)
    assert told[0].endswith("line 1 has 19 cells and comes before any header")


@pytest.mark.parametrize("content", ["", "date,result\r\n1,2\r\n", "\0\0", "{}"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, kept: Path, content: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(LmtuiError, match="no header of LMDeploy's scripts"):
        history.import_csv(path, kept)
    assert not kept.exists()


def test_a_file_that_is_not_there_is_said(tmp_path: Path, kept: Path) -> None:
    with pytest.raises(LmtuiError, match="cannot be read: No such file"):
        history.import_csv(tmp_path / "none.csv", kept)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200), after=st.booleans())
def test_arbitrary_bytes_raise_nothing_but_our_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, after: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes((f"{ENGINE}\n".encode() if after else b"") + content)
    try:
        read_script_csv(path, lambda sentence: None)
    except LmtuiError:
        assert not after
