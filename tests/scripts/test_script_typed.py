"""What was typed: a file or a folder that is not there, and keys told by their flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.cli import main
from lmtui.runner import runs
from lmtui.scripts.typed import in_flags
from tests.scripts.test_script_points import parsed


def told(text: str, command: str, *arguments: str) -> str:
    front = ["d.json", "model"] if command != "profile-restful-api" else []
    return in_flags(text, parsed(command, *front, *arguments))


@pytest.mark.parametrize(
    ("command", "arguments", "text", "words"),
    [
        ("profile-throughput", [], "load.num_prompts = 0: must be", "--num-prompts 0: must be"),
        ("profile-throughput", [], "seed = -1: must be. A seed of", "--seed -1: must be. A seed of"),
        ("profile-throughput", [], "target.model = 'x': is none", "MODEL_PATH 'x': is none"),
        ("profile-throughput", [], "correct dataset.path.", "correct DATASET."),
        ("profile-throughput", [], "set dataset.output_len to", "set --sharegpt-output-len to"),
        (
            "profile-throughput",
            ["--dataset-name=random"],
            "set dataset.output_len to",
            "set --random-output-len to",
        ),
        ("profile-throughput", [], "target.kind = 'x'", "--backend 'x'"),
        ("profile-pipeline-api", [], "target.backend = 'x'", "--backend 'x'"),
        ("profile-throughput", [], "request.stream = false", "--no-stream-output: request.stream = false"),
        ("profile-throughput", [], "load.ramp_s = 3 and /a/load.py", "load.ramp_s = 3 and /a/load.py"),
        ("profile-restful-api", [], "load.rate = 0", "--request-rate 0"),
        ("profile-restful-api", ["--multi"], "load.rate = 0", "--request-rate-range: load.rate = 0"),
        ("profile-restful-api", [], "correct target.base_url.", "correct --host and --port."),
        ("profile-restful-api", ["--base-url=http://a"], "correct target.base_url.", "correct --base-url."),
        ("profile-restful-api", [], "target.extra_body: must not", "--extra-request-body: must not"),
        ("profile-restful-api", [], "dataset.path = 'x'", "--dataset-path 'x'"),
        ("profile-restful-api", [], "target.extra_body.min_p, and", "--extra-request-body.min_p, and"),
        ("profile-restful-api", [], "use request.stream.", "use --disable-stream."),
        (
            "profile-restful-api",
            [],
            "request.max_tokens = 0: must",
            "--extra-request-body: request.max_tokens = 0: must",
        ),
        ("profile-restful-api", [], 'target.api = "chat"', '--backend: target.api = "chat"'),
        ("benchmark-guided", ["--response-format=json_object"], "guided.regex = '['", "--regex-schema '['"),
    ],
)
def test_a_key_is_told_by_its_flag(command: str, arguments: list[str], text: str, words: str) -> None:
    assert told(text, command, *arguments) == words


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("dataset", "model", "words"),
    [
        ("nowhere.json", "model", "DATASET nowhere.json does not exist"),
        (".", "model", "DATASET . is a folder"),
        ("data.json", "./nowhere", "MODEL_PATH ./nowhere does not exist"),
        ("data.json", "data.json", "MODEL_PATH data.json is a file"),
    ],
)
def test_a_slip_in_a_path_is_found_before_a_run_is_made(
    dataset: str,
    model: str,
    words: str,
    dry: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.json").write_text("[]")
    for command, more in (("profile-throughput", []), ("benchmark-guided", ["--response-format=json_object"])):
        assert main([command, dataset, model, *more, *dry]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
    assert runs.all_runs() == []


def test_a_slip_in_the_tokenizers_path_is_found_before_a_run_is_made(
    sharegpt_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["profile-restful-api", f"--dataset-path={sharegpt_file}", "--model=m", "--tokenizer=./nowhere"])
    (line,) = capsys.readouterr().err.splitlines()
    assert (code, line) == (2, "lmtui: --tokenizer ./nowhere does not exist: correct the path, or give a hub id")
    assert runs.all_runs() == []
