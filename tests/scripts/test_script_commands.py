"""The script commands end to end: runs in processes of their own, the scripts' tables and rows."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pexpect
import pytest

from lmtui.cli import main
from lmtui.config.model import Config
from lmtui.runner import recorded, runs
from lmtui.scripts import command
from lmtui.scripts import points as pointing
from lmtui.scripts.points import Point
from lmtui.workload import tokenizers
from tests.metrics.test_lmdeploy_table import feed, profiler_module
from tests.targets.fake_server import Reply, Seen, answer, completion, fake_server

__all__ = ["profiler_module"]
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scripts write where they are started."""
    folder = tmp_path / "started-here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return folder


@pytest.fixture
def engines_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine of a script is the simulated one, on its virtual clock: the path of a run without a GPU."""
    really = pointing.checked

    def checked(point: Point) -> tuple[Config, tuple[str, ...]]:
        document = point.document
        document.set("target.tokenizer", document.get("target.model"))
        document.set("target.kind", "simulated")
        document.set("target.clock", "virtual")
        for key in ("response_format", "baseline"):
            document.unset(f"guided.{key}")
        return really(point)

    monkeypatch.setattr(pointing, "checked", checked)


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def printed_and_saved(
    module: Any, title: str, shown: list[tuple[str, object]], columns: tuple[tuple[str, object], ...], stream: bool
) -> tuple[str, bytes]:
    """Return what LMDeploy's profiler prints and saves when it is fed the last run's stamps."""
    sessions = recorded.read(runs.find("last").path).sessions
    profiler = feed(module, sessions, stream_output=stream)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        profiler.summarize(title=title, hyperparams=shown)
    file = Path("oracle.csv")
    profiler.save_csv(str(file), columns)
    saved = file.read_bytes()
    file.unlink()
    return out.getvalue(), saved


@pytest.mark.usefixtures("engines_are_simulated")
@pytest.mark.parametrize("stream", [True, False])
def test_throughput_prints_and_appends_what_the_script_does(
    stream: bool, sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str], profiler_module: Any
) -> None:
    arguments = ["profile-throughput", str(sharegpt_file), tiny_folder, "-n", "40", "-c", "8", "--cancel-rate=0.3"]
    arguments += [] if stream else ["--no-stream-output"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    shown: list[tuple[str, object]] = [
        ("Concurrency", 8),
        ("Cancel rate", 0.3),
        ("Stream output", str(stream).lower()),
        ("Skip tokenize", "false"),
        ("Skip detokenize", "false"),
    ]
    columns = (
        ("backend", "turbomind"),
        ("bs", 8),
        ("dataset_name", "sharegpt"),
        ("sharegpt_output_len", None),
        ("random_input_len", None),
        ("random_output_len", None),
        ("random_range_ratio", 0.0),
        ("num_prompts", 40),
    )
    table, saved = printed_and_saved(profiler_module, "Profile Throughput", shown, columns, stream)
    totals, title, rest = said.out.partition("\n" + table.splitlines()[1])
    assert title + rest == table
    sessions = recorded.read(runs.find("last").path).sessions
    asked = f"#Input tokens: {sessions.input_len.sum()}\n#Output tokens: {sessions.asked_len.sum()}\n"
    assert totals == asked
    file = Path("profile_throughput.csv")
    assert file.read_bytes() == saved
    assert "kept as" in said.err
    assert "40 planned" in said.err

    assert main(arguments) == 0
    assert file.read_bytes().count(b"backend,bs") == 1
    assert len(rows(file)) == 2


@pytest.mark.usefixtures("engines_are_simulated")
def test_a_file_with_fewer_conversations_is_run_to_its_end(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile-throughput", str(sharegpt_file), tiny_folder, "-n", "5000", "--csv=mine.csv"]) == 0
    said = capsys.readouterr()
    sessions = recorded.read(runs.find("last").path).sessions
    assert 0 < sessions.planned == len(sessions.index) < 400
    assert f"#Input tokens: {sessions.input_len.sum()}\n" in said.out
    assert f"{sessions.planned} requests are sent" in " ".join(said.err.split())
    (row,) = rows(Path("mine.csv"))
    assert row["num_prompts"] == "5000"


@pytest.mark.usefixtures("engines_are_simulated")
def test_pipeline_with_random_lengths(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str], profiler_module: Any
) -> None:
    code = main(
        ["profile-pipeline-api", str(sharegpt_file), tiny_folder, "-n", "30", "-c", "8", "--dataset-name=random",
         "--random-input-len=50", "--random-output-len=9", "--csv=other.csv", "--stream-output"]
    )  # fmt: skip
    said = capsys.readouterr().out
    assert code == 0
    shown: list[tuple[str, object]] = [("Concurrency", 8), ("Stream output", "true")]
    columns = (
        ("backend", "turbomind"),
        ("bs", 8),
        ("dataset_name", "random"),
        ("sharegpt_output_len", None),
        ("random_input_len", 50),
        ("random_output_len", 9),
        ("random_range_ratio", 0.0),
        ("num_prompts", 30),
    )
    table, saved = printed_and_saved(profiler_module, "Profile Pipeline API", shown, columns, True)
    assert said.endswith(table)
    assert Path("other.csv").read_bytes() == saved
    capsys.readouterr()
    sessions = recorded.read(runs.find("last").path).sessions
    raised = int(said.splitlines()[1].removeprefix("#Output tokens: "))
    assert said.startswith(f"#Input tokens: {sessions.input_len.sum()}\n")
    assert raised <= sessions.asked_len.sum(), "the script prints the lengths before a 0 is raised to 1"


@pytest.mark.usefixtures("engines_are_simulated")
def test_guided_compares_two_runs(sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["benchmark-guided", str(sharegpt_file), tiny_folder, "-n", "12", "-c", "4",
                 "--response-format=json_object", "--ignore-eos", "--stream-output", "--csv=guided.csv"]  # fmt: skip
    assert main(arguments) == 0
    captured = capsys.readouterr()
    said = captured.out
    assert "load.rate = inf" not in captured.err
    assert said.index(" Baseline (no response_format) ") < said.index(" Guided (json_object) ")
    assert " Guided Decoding Benchmark: json_object @ bs=4 " in said
    assert f"{'** Per-token overhead (TPOT)':<36}{'+0.0%':>14}" in said
    assert said.count("#Output tokens (requested): ") == said.count("#Input tokens: ") == 1
    assert [(row["run"], row["success"]) for row in rows(Path("guided.csv"))] == [("baseline", "12"), ("guided", "12")]
    assert main([*arguments, "--no-baseline", "--csv="]) == 0
    assert " Baseline " not in capsys.readouterr().out
    assert len(rows(Path("guided.csv"))) == 2


def restful(url: str, sharegpt_file: Path, tiny_folder: str, *arguments: str) -> int:
    return main(
        ["profile-restful-api", "--backend=lmdeploy", f"--base-url={url}", f"--dataset-path={sharegpt_file}",
         f"--tokenizer={tiny_folder}", "--num-prompts=6", *arguments]
    )  # fmt: skip


def test_restful_prints_its_own_table_and_row(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_server() as (server, url):
        assert restful(url, sharegpt_file, tiny_folder) == 0
        bodies = server.posts
    said = capsys.readouterr()
    tokenizer = tokenizers.load(tiny_folder)
    texts = ["".join(f" t{place}" for place in range(body["max_tokens"])) for body in bodies[-6:]]
    encoded = sum(len(tokenizer.encode(text, special_tokens=False)) for text in texts)
    assert encoded > sum(body["max_tokens"] for body in bodies[-6:])
    assert f"{'Total generated tokens (retokenized):':<40} {encoded:<10}\n" in said.out
    counted = sum(body["max_tokens"] for body in bodies[-6:])
    told = f"The texts of 6 ok requests have {encoded} tokens when encoded again; the server counted {counted}."
    assert told in recorded_notes()
    assert f"{' Serving Benchmark Result ':=^50}" in said.out
    assert f"{'Backend:':<40} {'lmdeploy':<10}\n" in said.out
    assert f"{'Successful requests:':<40} {6:<10}\n" in said.out
    assert "6 planned: 6 ok" in said.err
    (row,) = rows(Path(f"lmdeploy_{time.strftime('%m%d')}_6_sharegpt.csv"))
    sessions = recorded.read(runs.find("last").path).sessions
    assert row["completed"] == "6"
    assert row["request_rate"] == "inf"
    assert row["total_input_tokens"] == str(sessions.input_len.sum())
    assert row["total_output_tokens"] == str(sessions.asked_len.sum())
    assert {(body["temperature"], body["best_of"], body["stream"], body["ignore_eos"]) for body in bodies} == {
        (0.0, 1, True, True)
    }
    assert {body["model"] for body in bodies} == {"fake-model"}
    prompts = [body["prompt"] for body in bodies]
    assert {prompt: prompts[-6:].count(prompt) for prompt in prompts[-6:]} == dict.fromkeys(prompts[-6:], 1)
    assert prompts.count(prompts[-7]) == 2, "the warm-up is the first request"


def recorded_notes() -> tuple[str, ...]:
    result = runs.find("last").result()
    assert result is not None
    return tuple(result.notes)


def test_multi_runs_each_rate_with_the_same_prompts(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_server() as (server, url):
        code = restful(
            url, sharegpt_file, tiny_folder, "--multi", "--request-rate-range=200,300", "--disable-warmup",
            "--dataset-name=random", "--random-input-len=9", "--random-output-len=3", "--disable-tqdm", "--json",
        )  # fmt: skip
        prompts = [body["prompt"] for body in server.posts]
    said = capsys.readouterr()
    assert code == 0
    results = [json.loads(line) for line in said.out.splitlines()]
    assert [result["config"]["load"]["rate"] for result in results] == [200, 300]
    file = Path(f"lmdeploy_{time.strftime('%m%d')}_6_9_3.jsonl")
    assert [(row["request_rate"], row["completed"]) for row in rows(file)] == [("200", "6"), ("300", "6")]
    assert len(set(prompts) - {"", "Hi"}) <= 8, "six prompts, and what a preflight asks"


def test_fields_of_the_extra_body_reach_every_request(sharegpt_file: Path, tiny_folder: str) -> None:
    with fake_server() as (server, url):
        assert restful(url, sharegpt_file, tiny_folder, '--extra-request-body={"model": "b", "max_tokens": 2}') == 0
        bodies = server.posts
    assert {(body["model"], body["max_tokens"]) for body in bodies[-6:]} == {("b", 2)}
    (row,) = rows(Path(f"lmdeploy_{time.strftime('%m%d')}_6_sharegpt.csv"))
    assert row["total_output_tokens"] == "12"


def test_the_duration_of_a_rate_has_the_wait_after_the_last_request(sharegpt_file: Path, tiny_folder: str) -> None:
    with fake_server() as (_, url):
        code = restful(
            url, sharegpt_file, tiny_folder, "--multi", "--request-rate-range=10,12", "--sharegpt-output-len=4",
            "--disable-warmup", "--disable-tqdm", "--output-file=mine.csv",
        )  # fmt: skip
    assert code == 0
    generator = np.random.RandomState(1)
    for row in rows(Path("mine.csv")):
        waits = generator.exponential(1 / float(row["request_rate"]), size=6)
        assert float(row["duration"]) >= waits.sum() - 1e-9


def failing_after(count: int) -> Iterator[Reply]:
    for _ in range(count):
        yield Reply(pieces=completion(1))
    while True:
        yield Reply(503, {"message": "no room"})


def test_failures_count_on_stderr_and_in_the_exit_code(
    sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = failing_after(4)

    def reply(seen: Seen) -> Reply:
        return answer(seen) if seen.method == "GET" else next(replies)

    with fake_server(reply) as (_, url):
        code = restful(url, sharegpt_file, tiny_folder, "--output-file=mine.csv", "--disable-ignore-eos")
    said = capsys.readouterr()
    assert code == 4
    assert "http_error" in said.err
    (row,) = rows(Path("mine.csv"))
    assert 0 < int(row["completed"]) < 6, "the script's row has what was answered"


def test_an_interrupt_stops_the_rate_and_leaves_out_the_others(sharegpt_file: Path, tiny_folder: str) -> None:
    answered, may_go_on = threading.Event(), threading.Event()

    def reply(seen: Seen) -> Reply:
        if seen.method == "POST" and seen.body.get("max_tokens") == 7:
            answered.set()
            may_go_on.wait(60)
        return answer(seen)

    with fake_server(reply) as (_, url):
        arguments = ["-m", "lmtui", "profile-restful-api", "--backend=lmdeploy", f"--base-url={url}",
                     f"--dataset-path={sharegpt_file}", f"--tokenizer={tiny_folder}", "--num-prompts=6",
                     "--sharegpt-output-len=7", "--disable-warmup", "--multi", "--request-rate-range=1,2",
                     "--output-file=mine.csv"]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen([sys.executable, *arguments], env=environment, stderr=subprocess.PIPE, text=True)
        assert answered.wait(60)
        child.send_signal(signal.SIGINT)
        may_go_on.set()
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "no row appended to mine.csv: the run was cut short (stopped)" in said
    assert not Path("mine.csv").exists()
    assert "lmtui: not started: 2 req/s\n" in said
    assert len(runs.all_runs()) == 1


def test_an_interrupt_between_two_runs_waits_for_the_row_and_leaves_out_the_others(
    sharegpt_file: Path, tiny_folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really = command._conclude

    def conclude(*arguments: Any, **more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return really(*arguments, **more)

    monkeypatch.setattr(command, "_conclude", conclude)
    with fake_server() as (_, url):
        code = restful(
            url, sharegpt_file, tiny_folder, "--multi", "--request-rate-range=200,300,400,500", "--disable-warmup",
            "--output-file=mine.csv",
        )  # fmt: skip
    assert code == 130
    assert [(row["request_rate"], row["completed"]) for row in rows(Path("mine.csv"))] == [("200", "6")]
    said = capsys.readouterr()
    assert said.out.count(" Serving Benchmark Result ") == 1
    assert "lmtui: not started: 300 req/s, 400 req/s, 500 req/s\n" in said.err
    assert len(runs.all_runs()) == 1


def test_a_server_that_dies_between_two_rates_costs_only_what_follows(
    sharegpt_file: Path, tiny_folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pointing, "checked", _hurried(pointing.checked))
    really = command._conclude
    is_dead = threading.Event()

    def conclude(*arguments: Any, **more: Any) -> Any:
        is_dead.set()
        return really(*arguments, **more)

    def reply(seen: Seen) -> Reply:
        return Reply(503, {"message": "going down"}) if is_dead.is_set() else answer(seen)

    monkeypatch.setattr(command, "_conclude", conclude)
    with fake_server(reply) as (_, url):
        code = restful(
            url, sharegpt_file, tiny_folder, "--multi", "--request-rate-range=200,300,400,500", "--disable-warmup",
            "--output-file=mine.csv",
        )  # fmt: skip
    said = capsys.readouterr()
    assert code == 3
    assert [row["request_rate"] for row in rows(Path("mine.csv"))] == ["200"]
    assert said.out.count(" Serving Benchmark Result ") == 1
    assert "sent nothing: " in said.err
    assert "lmtui: not started: 400 req/s, 500 req/s\n" in said.err
    assert len(runs.all_runs()) == 2


def test_no_server_is_exit_code_3_and_no_row(
    sharegpt_file: Path,
    tiny_folder: str,
    own_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pointing, "checked", _hurried(pointing.checked))
    assert restful("http://127.0.0.1:9", sharegpt_file, tiny_folder) == 3
    assert list(own_folder.iterdir()) == []
    said = capsys.readouterr()
    assert said.out == "", "no table of zeros"
    assert "sent nothing:" in said.err
    assert "correct --base-url" in said.err


def _hurried(really: Any) -> Any:
    def checked(point: Point) -> Any:
        point.document.set("target.ready_timeout_s", 0.2)
        return really(point)

    return checked


def test_with_tui_it_is_watched_and_leaves_the_same(sharegpt_file: Path, tiny_folder: str) -> None:
    with fake_server() as (_, url):
        arguments = ["-m", "lmtui", "profile-restful-api", "--backend=lmdeploy", f"--base-url={url}", "--tui",
                     f"--dataset-path={sharegpt_file}", f"--tokenizer={tiny_folder}", "--num-prompts=6",
                     "--output-file=mine.csv", "--disable-warmup"]  # fmt: skip
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
        child = pexpect.spawn(sys.executable, arguments, env=environment, encoding="utf-8", dimensions=(40, 120))
        child.expect(r"done  \d:\d\d", timeout=60)
        child.sendcontrol("q")
        child.expect("Serving Benchmark Result", timeout=60)
        child.expect("row appended to mine.csv", timeout=60)
        assert "6 planned" not in str(child.before), "the application has told it when it was left"
        child.expect(pexpect.EOF, timeout=60)
        child.close()
    assert child.exitstatus == 0
    assert [row["completed"] for row in rows(Path("mine.csv"))] == ["6"]


def test_tui_needs_a_terminal(sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert restful("http://127.0.0.1:9", sharegpt_file, tiny_folder, "--tui") == 2
    assert "needs a terminal" in capsys.readouterr().err
    assert restful("http://127.0.0.1:9", sharegpt_file, tiny_folder, "--tui", "--json") == 2
    assert "--tui and --json do not go together" in capsys.readouterr().err
    assert runs.all_runs() == []


@pytest.mark.parametrize(("file", "words"), [("nowhere/all.csv", "there is no folder nowhere"), (".", "is a folder")])
def test_a_file_that_cannot_be_written_is_found_before_the_run(
    file: str, words: str, sharegpt_file: Path, tiny_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["profile-throughput", str(sharegpt_file), tiny_folder, "-n", "5", f"--csv={file}"])
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert f"--csv {file}" in said.err
    assert words in said.err
    assert runs.all_runs() == []


@pytest.mark.usefixtures("engines_are_simulated")
def test_a_file_that_is_lost_meanwhile_still_shows_the_rows(
    sharegpt_file: Path, tiny_folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really = command._perform

    def perform(*arguments: Any) -> Any:
        done = really(*arguments)
        Path("lost").mkdir(exist_ok=True)
        return done

    monkeypatch.setattr(command, "_perform", perform)
    code = main(
        ["benchmark-guided", str(sharegpt_file), tiny_folder, "-n", "5", "--response-format=json_object", "--csv=lost"]
    )
    said = capsys.readouterr()
    assert code == 2
    assert " Baseline (no response_format) " in said.out
    assert " Guided Decoding Benchmark: json_object" in said.out, "the second run is done all the same"
    assert said.err.count("lost cannot be written") == 2
    assert "the row is: baseline,json_object" in said.err


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.15.2", "older"), ("0.19.0", "newer"), ("1.0", "newer"), ("unreleased", "the flags here are")],
)
def test_another_lmdeploy_is_told(version: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    notice = command.version_notice()
    assert notice is not None
    assert words in notice
    assert "0.16 to 0.18" in notice


@pytest.mark.parametrize("version", ["0.16.0", "0.17.3", "0.18.1rc1"])
def test_a_known_lmdeploy_is_not_told(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert command.version_notice() is None


def test_no_lmdeploy_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert command.version_notice() is None


def test_an_unknown_flag_names_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["profile-throughput", "a", "b", "--cancle-rate=0.5"])
    assert left.value.code == 2
    assert "unknown flag --cancle-rate; the closest is --cancel-rate" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["profile-throughput", "a", "b", "--max-batch-size=4"])
    assert "unknown flag --max-batch-size. See" in capsys.readouterr().err, "nothing there means the same"


def test_an_argument_too_many_is_named_with_the_commands_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["benchmark-guided", "a", "b", "--response-format=json_schema", "--json", "schema.json"])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said == (
        "lmtui benchmark-guided: 'schema.json' is one argument too many. See `lmtui benchmark-guided --help`\n"
    )
