"""Exports: formats hold what the run gave, hostile text is harmless, files are whole and never replaced unasked."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.errors import LmtuiError
from lmtui.metrics.result import Result
from lmtui.metrics.sessions import Outcome, Sessions, TokenSource
from lmtui.results.export import Exported, as_csv, export
from lmtui.results.markdown import report
from lmtui.results.request_rows import RequestRow, request_rows
from tests.metrics.made_sessions import Made, config, made, summary
from tests.results.made_results import result

ERRORS = {2: 'no answer, "really"\nsecond line'}


def sessions() -> Sessions:
    return made(
        [
            Made(0, [(50, 1), (70, 2), (90, 4)], prompt=11, cached=3, connect=1.5),
            Made(10, [(60, 2), (80, 4)], due=4),
            Made(5, end=9, outcome=Outcome.TIMEOUT, source=TokenSource.NONE),
            Made(20, [(45, 1)], end=46, outcome=Outcome.CANCELLED, cancel_planned=True, let_go=2, wasted=3),
        ]
    )


def whole() -> Result:
    return summary(sessions(), config(cancel={"rate": 0.5}), errors=ERRORS)


def test_rows_tell_every_request() -> None:
    first, second, third, fourth = request_rows(sessions(), ERRORS)
    assert first == RequestRow(
        index=0,
        outcome="ok",
        due_s=0.0,
        sent_s=0.0,
        end_s=0.09,
        connect_ms=1.5,
        queue_ms=0.0,
        ttft_ms=50.0,
        tpot_ms=40 / 3,
        itl_max_ms=20.0,
        e2e_ms=90.0,
        ticks=3,
        output_tokens=4,
        asked_output_tokens=4,
        token_source="engine",
        input_tokens=10,
        server_input_tokens=11,
        cached_tokens=3,
        cancel_planned=False,
        let_go_ms=None,
        wasted_tokens=None,
        error=None,
    )
    assert (second.due_s, second.sent_s, second.queue_ms) == (0.004, 0.01, 6.0)
    assert (third.outcome, third.error, third.token_source) == ("timeout", ERRORS[2], None)
    assert (third.ttft_ms, third.tpot_ms, third.itl_max_ms, third.e2e_ms) == (None,) * 4
    assert (third.ticks, third.output_tokens) == (0, 0)
    assert (fourth.ttft_ms, fourth.tpot_ms, fourth.let_go_ms, fourth.wasted_tokens) == (25.0, None, 2.0, 3)


def test_times_count_from_the_earliest_due_or_sent() -> None:
    late = made([Made(1010, [(1060, 1)], due=1000), Made(None, due=1005, outcome=Outcome.DROPPED)])
    first, second = request_rows(late, {}, with_ticks=True)
    assert (first.due_s, first.sent_s, first.end_s, first.tick_s) == (0.0, 0.01, 0.06, [0.06])
    assert (second.due_s, second.sent_s, second.queue_ms, second.ttft_ms, second.tick_s) == (
        0.005,
        None,
        None,
        None,
        [],
    )


def test_rows_agree_with_the_result() -> None:
    found = whole()
    ok = [row for row in request_rows(sessions(), ERRORS) if row.outcome == "ok"]
    assert np.mean([row.ttft_ms for row in ok if row.ttft_ms]) == pytest.approx(found.metrics.ttft_ms.mean)
    assert np.mean([row.e2e_ms for row in ok if row.e2e_ms]) == pytest.approx(found.metrics.e2e_ms.mean)
    assert max(row.itl_max_ms for row in ok if row.itl_max_ms) == found.metrics.itl_ms.max
    assert sum(row.output_tokens for row in ok) == found.metrics.total_output_tokens


def test_json_is_the_result_and_its_requests(tmp_path: Path) -> None:
    export([Exported(whole(), sessions(), ERRORS)], tmp_path / "run.json")
    held = json.loads((tmp_path / "run.json").read_text())
    requests = held.pop("requests")
    assert held == json.loads(msgspec.json.encode(whole()))
    assert [row["index"] for row in requests] == [0, 1, 2, 3]
    assert requests[2]["error"] == ERRORS[2]
    assert "tick_s" not in requests[0]

    export([Exported(whole(), sessions(), ERRORS)], tmp_path / "ticks.json", with_ticks=True)
    (first, *_) = json.loads((tmp_path / "ticks.json").read_text())["requests"]
    assert (first["tick_s"], first["tick_tokens"]) == ([0.05, 0.07, 0.09], [1, 2, 4])
    untold = made([Made(0, [(5, None), (9, None)], source=TokenSource.CHUNKS)])
    assert request_rows(untold, {}, with_ticks=True)[0].tick_tokens == [None, None]

    export([Exported(whole(), None, {})], tmp_path / "old.json")
    assert json.loads((tmp_path / "old.json").read_text())["requests"] is None


def test_csv_has_a_row_per_request(tmp_path: Path) -> None:
    export([Exported(whole(), sessions(), ERRORS)], tmp_path / "run.CSV")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "run.CSV").read_text())))
    assert [row["outcome"] for row in rows] == ["ok", "ok", "timeout", "cancelled"]
    assert (rows[0]["ttft_ms"], rows[0]["let_go_ms"], rows[0]["cancel_planned"]) == ("50.0", "", "false")
    assert rows[2]["error"] == ERRORS[2]
    assert rows[2]["ttft_ms"] == ""
    assert "tick_s" not in rows[0]


def test_several_runs_share_a_file(tmp_path: Path) -> None:
    other = msgspec.structs.replace(whole(), run_id="the-other")
    both = [Exported(whole(), sessions(), ERRORS), Exported(other, sessions(), ERRORS)]
    for ending in ("csv", "json", "md"):
        export(both, tmp_path / f"both.{ending}")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "both.csv").read_text())))
    assert [row["run_id"] for row in rows] == [whole().run_id] * 4 + ["the-other"] * 4
    assert [row["index"] for row in rows] == ["0", "1", "2", "3"] * 2
    objects = json.loads((tmp_path / "both.json").read_text())
    assert [(one["run_id"], len(one["requests"])) for one in objects] == [(whole().run_id, 4), ("the-other", 4)]
    text = (tmp_path / "both.md").read_text()
    assert text.count(report(whole())) == 1
    assert text.endswith(report(other))
    with pytest.raises(LmtuiError, match="the-other has no tick log"):
        export([both[0], Exported(other, None, {})], tmp_path / "some.csv")
    assert not (tmp_path / "some.csv").exists()


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_message_survives_csv_and_cannot_break_the_report(message: str) -> None:
    text = as_csv([Exported(whole(), sessions(), {2: message})], Path("run.csv"))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[3][rows[0].index("error")] == message
    assert {len(row) for row in rows} == {len(rows[0])}
    lines = report(summary(sessions(), config(), errors={2: message})).split("\n")
    (line,) = (one for one in lines if one.startswith("| timeout | 1 | "))
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 4


def test_the_report_tells_what_matters() -> None:
    found = msgspec.structs.replace(
        whole(),
        name="fast_*run*",
        environment={"host": "box", "packages": {"numpy": "2"}},
        target={"kind": "server", "model": "a|b", "versions": {"vllm": "0.9"}},
        notes=("a <note>",),
    )
    text = report(found)
    assert text.startswith("# fast\\_\\*run\\* (SIMULATED)\n")
    for words in (
        "| **grade** | suspect |",
        "few samples",
        "| TTFT ms | 50.00 |",
        "| ok | 2 |",
        "| timeout | 1 | no answer",
        "1 planned, 1 done, 0 missed",
        "| `cancel.rate` | 0.5 |",
        "| packages.numpy | 2 |",
        "| target.versions.vllm | 0.9 |",
        "server, a\\|b",
        "- a \\<note\\>",
        "Every other key has its default",
    ):
        assert words in text, words
    assert "`load.concurrency`" not in text, "it has its default"
    assert "| – |" in text or "\\~" in text
    assert "None" not in text.replace("None: no request", "")


def test_a_report_of_nothing_says_so() -> None:
    text = report(summary(made([Made(0, end=5, outcome=Outcome.TIMEOUT)]), config()))
    assert "None: no request was ok." in text
    assert "| output tok/s |" not in text
    assert "| 0.00 |" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run.html", "not built yet"),
        ("run.png", "not built yet"),
        ("run.xlsx", "ends in .csv, .json or .md"),
        ("run", "ends in .csv, .json or .md"),
        ("nowhere/run.md", "no folder"),
        ("folder.md", "is a folder"),
        ("there.md", "--force"),
    ],
)
def test_files_that_cannot_be_are_refused_in_a_sentence(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "there.md").write_text("mine")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LmtuiError, match=words) as refused:
        export([Exported(result(), sessions(), {})], tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there.md").read_text() == "mine"


def test_ticks_are_only_for_json_and_csv_needs_requests(tmp_path: Path) -> None:
    with pytest.raises(LmtuiError, match="holds ticks"):
        export([Exported(result(), sessions(), {})], tmp_path / "run.csv", with_ticks=True)
    with pytest.raises(LmtuiError, match="no tick log any more"):
        export([Exported(result(), None, {})], tmp_path / "run.csv")
    assert list(tmp_path.iterdir()) == []


def test_force_replaces_the_file_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    export([Exported(result(), None, {})], tmp_path / "link.md", force=True)
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text().startswith("# t")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.md"
    path.write_text("old")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LmtuiError, match="No space left"):
        export([Exported(result(), None, {})], path, force=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
