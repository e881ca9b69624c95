"""The ShareGPT file of the scripts: downloaded to the cache when it is missing and the user agrees."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from lmtui import paths
from lmtui.errors import DatasetError

HUB = "https://huggingface.co"
URL = f"{HUB}/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json"
SILENT_S = 60.0
TELL_S = 0.25
PLAIN_TELL_S = 5.0
BY_HAND = "Download it by hand and give its path with --dataset-path"


def file(given: str, *, is_agreed: bool) -> Path:
    """Return the dataset's file: the one given; with none, the cached one; else, when the user agrees, another.

    Args:
        given: What `--dataset-path` says ("": nothing).
        is_agreed: Whether `--yes` was given: no question is asked then.

    Raises:
        DatasetError: It is not there, and another was not agreed to, or could not be downloaded.
    """
    if given and Path(given).expanduser().exists():
        return Path(given).expanduser()
    cached = folder() / URL.rpartition("/")[2]
    is_cached = cached.is_file()
    why = f"--dataset-path {given} does not exist" if given else "no --dataset-path is given"
    what = f"use the ShareGPT file in the cache, {cached}" if is_cached else f"download ShareGPT (650 MB) to {cached}"
    needs_no_word = is_cached and not given
    if not (is_agreed or needs_no_word or _agrees(f"{why}: {what}? [y/N] ")):
        raise DatasetError(f"{why}: give the path of a ShareGPT file, or --yes to {what}")
    if is_cached:
        print(f"note: {why}: the ShareGPT file in the cache is used, {cached}.", file=sys.stderr)
    else:
        download(_url(), cached)
    return cached


def _url() -> str:
    """Return where to download from: a mirror of the hub where the hub's own variable names one."""
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return URL.replace(HUB, mirror, 1) if mirror else URL


def folder() -> Path:
    """Return the folder of downloaded datasets."""
    made = paths.cache() / "datasets"
    made.mkdir(mode=0o700, exist_ok=True)
    return made


def _agrees(question: str) -> bool:
    """Ask on the terminal; where there is none, nobody agrees."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def download(url: str, to: Path) -> None:
    """Download a file with progress on stderr. It has its name only once it is whole.

    Raises:
        DatasetError: The server refuses, the connection breaks, or the disk takes nothing.
    """
    import httpx

    part = to.with_name(f".{to.name}.{os.getpid()}.part")
    try:
        with (
            httpx.stream("GET", url, follow_redirects=True, timeout=SILENT_S) as answer,
            part.open("wb") as target,
        ):
            answer.raise_for_status()
            size = int(answer.headers.get("content-length", 0))
            progress = _Progress(size)
            for piece in answer.iter_bytes():
                target.write(piece)
                progress.add(len(piece))
            progress.end()
        part.replace(to)
    except (httpx.HTTPError, OSError) as error:
        raise DatasetError(f"{url} cannot be downloaded ({error or type(error).__name__}). {BY_HAND}") from error
    finally:
        part.unlink(missing_ok=True)


class _Progress:
    """One line on stderr: redrawn on a terminal, now and then elsewhere."""

    def __init__(self, size: int) -> None:
        self._size, self._done, self._next_at = size, 0, 0.0
        self._is_terminal = sys.stderr.isatty()

    def add(self, count: int) -> None:
        self._done += count
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + (TELL_S if self._is_terminal else PLAIN_TELL_S)
            self._tell()

    def end(self) -> None:
        self._tell()
        if self._is_terminal:
            print(file=sys.stderr)

    def _tell(self) -> None:
        share = f" of {self._size / 1e6:,.0f} MB, {self._done / self._size:.0%}" if self._size else " MB"
        line = f"downloading ShareGPT: {self._done / 1e6:,.0f}{share}"
        if self._is_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
