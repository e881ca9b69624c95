"""The ShareGPT download, against a loopback server."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pexpect
import pytest

from lmtui.errors import DatasetError
from lmtui.scripts import sharegpt_file

DATA = b'[{"conversations": []}]' * 5000


class _Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved/data.json":
            self.send_response(302)
            self.send_header("location", "/data.json")
            self.end_headers()
        elif self.path == "/gone.json":
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("content-length", str(len(DATA)))
            self.end_headers()
            self.wfile.write(DATA[: 100 if self.path == "/torn.json" else len(DATA)])

    def log_message(self, *_: Any) -> None:
        """Keep the terminal quiet."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_path_that_exists_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharegpt_file, "URL", "http://127.0.0.1:9/data.json")
    given = tmp_path / "mine.json"
    given.write_text("[]")
    assert sharegpt_file.file(str(given), is_agreed=True) == given


@pytest.mark.parametrize("path", ["/data.json", "/moved/data.json"])
def test_agreed_it_is_downloaded_once_with_progress(
    path: str, hub: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sharegpt_file, "URL", f"{hub}{path}")
    cached = sharegpt_file.file("", is_agreed=True)
    assert cached.read_bytes() == DATA
    assert cached == sharegpt_file.folder() / "data.json"
    assert stat.S_IMODE(cached.parent.stat().st_mode) == 0o700
    assert list(cached.parent.iterdir()) == [cached]
    assert "downloading ShareGPT: 0 of 0 MB, 100%" in capsys.readouterr().err

    monkeypatch.setattr(sharegpt_file, "URL", "http://127.0.0.1:9/data.json")
    assert sharegpt_file.file("", is_agreed=False) == cached
    assert str(cached) in capsys.readouterr().err

    with pytest.raises(DatasetError, match=r"--dataset-path ./missing.json does not exist.*--yes to use"):
        sharegpt_file.file("./missing.json", is_agreed=False)
    assert sharegpt_file.file("./missing.json", is_agreed=True) == cached
    assert "--dataset-path ./missing.json does not exist" in capsys.readouterr().err


def test_a_mirror_of_the_hub_is_asked_instead(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharegpt_file, "URL", f"{sharegpt_file.HUB}/data.json")
    monkeypatch.setenv("HF_ENDPOINT", f"{hub}/")
    assert sharegpt_file.file("", is_agreed=True).read_bytes() == DATA


@pytest.mark.parametrize(("path", "words"), [("/gone.json", "404"), ("/torn.json", "cannot be downloaded")])
def test_a_failed_download_leaves_nothing_and_says_what_to_do(
    path: str, words: str, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharegpt_file, "URL", f"{hub}{path}")
    with pytest.raises(DatasetError, match=words) as failed:
        sharegpt_file.file("", is_agreed=True)
    assert "give its path with --dataset-path" in str(failed.value)
    assert list(sharegpt_file.folder().iterdir()) == []


def test_without_a_terminal_and_without_yes_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("nobody agreed")

    monkeypatch.setattr(sharegpt_file, "download", never)
    with pytest.raises(DatasetError, match="--yes"):
        sharegpt_file.file("", is_agreed=False)


ASK = """
import sys
from lmtui.errors import DatasetError
from lmtui.scripts import sharegpt_file
sharegpt_file.URL = sys.argv[1]
try: print("HAVE", sharegpt_file.file("", is_agreed=False).stat().st_size)
except DatasetError as error: print("NOT", error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "is_fetched"), [("y", True), ("YES", True), ("", False), ("n", False)])
def test_on_a_terminal_it_asks(answer: str, is_fetched: bool, hub: str) -> None:
    child = pexpect.spawn(sys.executable, ["-c", ASK, f"{hub}/data.json"], env=dict(os.environ), encoding="utf-8")
    child.expect(r"download ShareGPT .* to .*\? \[y/N\] ", timeout=60)
    child.sendline(answer)
    child.expect("HAVE" if is_fetched else "NOT", timeout=60)
    child.expect(pexpect.EOF, timeout=60)
    child.close()


def test_the_command_downloads_with_yes(hub: str, tmp_path: Path) -> None:
    """Through the command line, where a dataset without usable conversations is then one sentence."""
    program = (
        "import sys; from lmtui.scripts import sharegpt_file; from lmtui.cli import main\n"
        f"sharegpt_file.URL = '{hub}/data.json'\n"
        "sys.exit(main(['profile-restful-api', '--dry-run', '--model=m', '--yes', *sys.argv[1:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--tokenizer", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "downloading ShareGPT" in done.stderr
    assert "does not exist" in done.stderr
