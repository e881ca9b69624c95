"""The file that gains a script's rows: what stands in it is never harmed, and what cannot gain a row is refused."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lmtui.cli import main
from lmtui.errors import LmtuiError
from lmtui.metrics import script_columns
from lmtui.runner import runs
from lmtui.scripts import row_file
from tests.scripts.test_script_points import parsed

HEADER = script_columns.line(script_columns.ENGINE)
ROW = b"pytorch,8,sharegpt,,,,0.0,40,40,1,2,3.0,1,2,3,4,5,6,7\r\n"


def options(file: Path | str) -> argparse.Namespace:
    return parsed("profile-throughput", "data.json", "model", f"--csv={file}")


def append(file: Path, *, is_first: bool = True) -> None:
    row_file.append(file, options(file), ROW, is_first=is_first)


def test_a_new_or_empty_file_gets_the_header_once(tmp_path: Path) -> None:
    file, empty = tmp_path / "new.csv", tmp_path / "empty.csv"
    empty.touch()
    for each in (file, empty):
        row_file.refuse_unfit(options(each))
        append(each)
        append(each, is_first=False)
        row_file.refuse_unfit(options(each))
        assert each.read_bytes() == HEADER + ROW + ROW


@pytest.mark.parametrize("header", [HEADER, HEADER.replace(b"\r\n", b"\n"), b"\xef\xbb\xbf" + HEADER])
def test_rows_go_under_a_header_whatever_its_line_ends(header: bytes, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(header)
    row_file.refuse_unfit(options(file))
    append(file)
    assert file.read_bytes() == header + ROW


@pytest.mark.parametrize("text", [HEADER + ROW + b"pytorch,8,sha", HEADER + ROW.rstrip(), HEADER.rstrip()])
def test_a_last_line_that_was_cut_off_is_ended_first(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(text)
    row_file.refuse_unfit(options(file))
    append(file)
    assert file.read_bytes() == text + b"\r\n" + ROW


@pytest.mark.parametrize("text", [script_columns.line(script_columns.RESTFUL), b"a,b\n1,2\n", b"\x00\xff" * 500])
def test_a_file_of_something_else_is_refused_and_left_alone(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(text)
    with pytest.raises(LmtuiError, match=r"--csv .*mine.csv begins with other columns .*: give another file"):
        row_file.refuse_unfit(options(file))
    with pytest.raises(LmtuiError, match=r"the row is: pytorch,8"):
        append(file)
    assert file.read_bytes() == text


def test_it_is_refused_before_a_run_is_made(
    sharegpt_file: Path, tiny_folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.csv"
    file.write_text("a,b\n")
    assert main(["profile-throughput", str(sharegpt_file), tiny_folder, f"--csv={file}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "begins with other columns (a,b)" in line
    assert runs.all_runs() == []


def test_a_device_and_a_pipe_get_the_header_with_the_first_row(tmp_path: Path) -> None:
    row_file.refuse_unfit(options(os.devnull))
    append(Path(os.devnull))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    row_file.refuse_unfit(options(pipe))
    with pytest.raises(LmtuiError, match="cannot be written"):
        append(pipe)  # nobody reads
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        append(pipe)
        append(pipe, is_first=False)
        assert os.read(reader, 4096) == HEADER + ROW + ROW
    finally:
        os.close(reader)


APPEND = """
import sys
from pathlib import Path
from lmtui.scripts import row_file
from tests.scripts.test_row_file import ROW, options
print("the table")
row_file.append(Path(sys.argv[1]), options(sys.argv[1]), ROW, is_first=True)
print("after")
"""


@pytest.mark.parametrize("goes_to_a_file", [True, False])
def test_rows_on_stdout_stand_between_what_is_printed(goes_to_a_file: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", APPEND, "/dev/stdout"]
    if goes_to_a_file:
        with out.open("wb") as file:
            subprocess.run(command, stdout=file, check=True)
        printed = out.read_bytes()
    else:
        printed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    assert printed == b"the table\n" + HEADER + ROW + b"after\n"


def test_rows_of_two_commands_at_once_stay_whole(tmp_path: Path) -> None:
    file = tmp_path / "shared.csv"
    append(file)
    threads = [threading.Thread(target=append, args=(file,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_bytes() == HEADER + ROW * 9
