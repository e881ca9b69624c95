"""ShareGPT files: read once with bounded memory, then kept under the cache folder by the digest of their content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from lmtui import paths
from lmtui.errors import DatasetError
from lmtui.workload.json_stream import JsonStream

Progress = Callable[[str, float | None], None]
"""Called with a line for the status and the share that is done, 0 to 1; None when that is not known."""

NO_TURNS = "no list under 'conversations'"
TOO_FEW_TURNS = "fewer than two turns"
NO_TEXT = "no text in the first two turns"

_VERSION = 1  # Of the cached form; count up when it changes.
_SAMPLE_BYTES = 1 << 16


class _Meta(msgspec.Struct):
    version: int
    dropped: dict[str, int]
    source: str


class _Known(msgspec.Struct):
    """What a file was when its digest was taken; as long as all of it holds, the file is not read again."""

    size: int
    mtime_ns: int
    sample: str
    digest: str


class Conversations:
    """The first two turns of each conversation of a file, in the file's order, read from the cache when asked for.

    Attributes:
        dropped: Why conversations were left out → how many.
    """

    def __init__(self, folder: Path) -> None:
        meta = msgspec.json.decode((folder / "meta.json").read_bytes(), type=_Meta)
        self.dropped = meta.dropped
        self._ends: NDArray[np.int64] = np.load(folder / "ends.npy", allow_pickle=False)
        self._texts = (folder / "texts.bin").open("rb")

    def __len__(self) -> int:
        """Return the number of conversations."""
        return len(self._ends) // 2

    def __getitem__(self, index: int) -> tuple[str, str]:
        """Return prompt and completion of a conversation."""
        begin = int(self._ends[2 * index - 1]) if index else 0
        middle, end = int(self._ends[2 * index]), int(self._ends[2 * index + 1])
        text = os.pread(self._texts.fileno(), end - begin, begin)
        return text[: middle - begin].decode("utf-8"), text[middle - begin :].decode("utf-8")

    def with_prompt(self) -> NDArray[np.int64]:
        """Return the indices of the conversations whose prompt is not empty, in order."""
        lengths = np.diff(self._ends, prepend=0)[::2]
        return np.flatnonzero(lengths > 0)

    def close(self) -> None:
        """Close the cache file."""
        self._texts.close()


def read(path: Path, progress: Progress) -> Conversations:
    """Open a ShareGPT file: a JSON array of objects, or one object a line, each with its turns under `conversations`.

    Raises:
        DatasetError: It cannot be read, is no JSON, or holds no conversation at all.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DatasetError(
            f"The dataset '{path}' cannot be read: {error.strerror or error}. Correct dataset.path."
        ) from error
    with file:
        try:
            return Conversations(_folder() / _digest(file, path, progress))
        except OSError as error:
            raise DatasetError(
                f"The dataset '{path}' cannot be prepared under '{paths.cache()}': {error.strerror or error}. "
                "Make room there, or set LMTUI_HOME to another folder."
            ) from error


def _digest(file: BinaryIO, path: Path, progress: Progress) -> str:
    """Return the digest under which the file's conversations are in the cache, and read them in when they are not."""
    stat = os.fstat(file.fileno())
    known_at = _keys() / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"
    sample = _sample(file, stat.st_size)
    digest = _known_digest(known_at, stat, sample)
    if digest is None or not (_folder() / digest).is_dir():
        digest = _prepare(file, path, stat.st_size, progress)
        _replace(known_at, msgspec.json.encode(_Known(stat.st_size, stat.st_mtime_ns, sample, digest)))
    return digest


def _folder() -> Path:
    folder = paths.cache() / f"datasets-{_VERSION}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _keys() -> Path:
    folder = _folder() / "files"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _sample(file: BinaryIO, size: int) -> str:
    """Digest some places of the file: an edit that kept size and time is likely to show here."""
    digest = hashlib.sha256()
    for part in range(9):
        digest.update(os.pread(file.fileno(), _SAMPLE_BYTES, part * max(size - _SAMPLE_BYTES, 0) // 8))
    return digest.hexdigest()


def _known_digest(known_at: Path, stat: os.stat_result, sample: str) -> str | None:
    try:
        known = msgspec.json.decode(known_at.read_bytes(), type=_Known)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    is_same = (known.size, known.mtime_ns, known.sample) == (stat.st_size, stat.st_mtime_ns, sample)
    return known.digest if is_same else None


class _Digesting:
    """Reads the file, digests what passes, and says how far it is."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress) -> None:
        self.digest = hashlib.sha256()
        self._file, self._size, self._progress, self._done = file, size, progress, 0

    def read(self, size: int, /) -> bytes:
        chunk = self._file.read(size)
        self.digest.update(chunk)
        self._done += len(chunk)
        share = min(self._done / self._size, 1.0) if self._size else 1.0
        self._progress(f"reading the dataset: {self._done / 1e6:.0f} of {self._size / 1e6:.0f} MB", share)
        return chunk


def _prepare(file: BinaryIO, path: Path, size: int, progress: Progress) -> str:
    """Read the whole file into the cache; return its digest."""
    source = _Digesting(file, size, progress)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=_folder()))
    try:
        _extract(JsonStream(source, path), path, draft)
        final = _folder() / source.digest.hexdigest()
        try:
            os.rename(draft, final)
        except OSError:
            if not final.is_dir():  # Another process, or another path with the same content, was first.
                raise
        return final.name
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _extract(elements: Iterable[object], path: Path, draft: Path) -> None:
    ends = array("q")
    dropped = {TOO_FEW_TURNS: 0, NO_TEXT: 0}
    place, others, conversations = 0, 0, 0
    with (draft / "texts.bin").open("wb") as texts:
        for element in elements:
            turns = element.get("conversations") if isinstance(element, dict) else None
            if not isinstance(turns, list):
                others += 1
                continue
            conversations += 1
            if len(turns) < 2:
                dropped[TOO_FEW_TURNS] += 1
                continue
            values = [turn.get("value") if isinstance(turn, dict) else None for turn in turns[:2]]
            prompt, completion = values
            if not (isinstance(prompt, str) and isinstance(completion, str)):
                dropped[NO_TEXT] += 1
                continue
            for value in (prompt, completion):
                # A lone surrogate (JSON may spell one) is no text: no tokenizer and no request can carry it.
                text = value.encode("utf-8", "replace")
                texts.write(text)
                place += len(text)
                ends.append(place)
    if not conversations:
        raise DatasetError(
            f"The dataset '{path}' holds no conversations ({others} elements, none with a list under 'conversations'): "
            "give a ShareGPT file, or set dataset.kind to what the file is."
        )
    if others:
        dropped[NO_TURNS] = others
    np.save(draft / "ends.npy", np.frombuffer(ends, dtype=np.int64) if ends else np.empty(0, np.int64))
    (draft / "meta.json").write_bytes(msgspec.json.encode(_Meta(_VERSION, dropped, str(path))))


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(name, path)
