"""The tick log: the one format of `ticks-<k>.bin`, described and read here.

A file is a sequence of frames, each written whole by one `write`:

    header   magic "LMT1" · kind u8 · version u8 · reserved u16 · rows u32 · payload bytes u32 · CRC-32 of payload u32
    payload  the kind's columns, one after another, each of `rows` little-endian numbers; or JSON (kind JSON)

A reader stops at the first frame that is short or whose CRC is wrong: that is a half-written tail, not an error.
Times are nanoseconds of the machine's monotonic clock, so the files of several load workers agree.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

MAGIC = b"LMT1"
VERSION = 1
HEADER = struct.Struct("<4sBBHIII")
MAX_PAYLOAD = 64 * 1024 * 1024


class Kind(IntEnum):
    """What a frame holds."""

    SENT = 1
    TICKS = 2
    END = 3
    SAMPLES = 4
    JSON = 5


class Sample(IntEnum):
    """What a row of a SAMPLES frame measures."""

    LOOP_LAG_NS = 1
    READ_LAG_NS = 2


COLUMNS: dict[Kind, tuple[tuple[str, str], ...]] = {
    Kind.SENT: (
        ("index", "<u4"),
        ("due_ns", "<i8"),
        ("sent_ns", "<i8"),
        ("input_len", "<i4"),
        ("asked_len", "<i4"),
        ("cancel_planned", "<i4"),
    ),
    Kind.TICKS: (("index", "<u4"), ("at_ns", "<i8"), ("tokens", "<i4")),
    Kind.END: (
        ("index", "<u4"),
        ("end_ns", "<i8"),
        ("outcome", "<i4"),
        ("output_tokens", "<i4"),
        ("token_source", "<i4"),
        ("prompt_tokens", "<i4"),
        ("cached_tokens", "<i4"),
        ("connect_ns", "<i8"),
        ("let_go_ns", "<i8"),
        ("wasted_tokens", "<i4"),
    ),
    Kind.SAMPLES: (("what", "<u4"), ("at_ns", "<i8"), ("value", "<i8")),
}
"""Columns of each kind of frame with their types. JSON frames hold one object with a key `what`:

    {"what": "error", "index": n, "message": "..."}             beside an END row whose outcome is a failure
    {"what": "text", "index": n, "tokens": n}                   beside an END row whose text was tokenised here
    {"what": "start", "start_ns": n}                            the release of the load, once per file
    {"what": "worker", "clock": ..., "cpu_s": ..., "wall_s": ..., "events": n, "coalesced": n, "clock_steps": n,
     "replaced": n, "engine_inside": bool}                      so far, about once a second; a file's last one counts

A request may have two SENT rows: a connection that turned out to be dead was replaced; the last one counts. A request
that ended before it was sent (no connection) has one whose sent_ns is UNKNOWN.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One frame: its columns by name (equal length, native types), or its JSON object."""

    kind: Kind
    columns: dict[str, NDArray[Any]]
    data: dict[str, Any]


def encode(kind: Kind, rows: Sequence[tuple[int, ...]]) -> bytes:
    """Return the frame of these rows; each row has the kind's columns in order."""
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(COLUMNS[kind]))
    payload = b"".join(table[:, i].astype(dtype).tobytes() for i, (_, dtype) in enumerate(COLUMNS[kind]))
    return _frame(kind, len(rows), payload)


def encode_json(data: dict[str, Any]) -> bytes:
    """Return the frame of one JSON object."""
    return _frame(Kind.JSON, 1, msgspec.json.encode(data))


def _frame(kind: Kind, rows: int, payload: bytes) -> bytes:
    return HEADER.pack(MAGIC, kind, VERSION, 0, rows, len(payload), zlib.crc32(payload)) + payload


def decode(data: bytes | memoryview) -> tuple[list[Frame], int]:
    """Return the whole frames at the start of `data`, and how many bytes they take; the rest is a tail to keep."""
    frames: list[Frame] = []
    at = 0
    view = memoryview(data)
    while len(view) - at >= HEADER.size:
        magic, kind, version, _, rows, size, crc = HEADER.unpack_from(view, at)
        if magic != MAGIC or version != VERSION or size > MAX_PAYLOAD or len(view) - at - HEADER.size < size:
            break
        payload = view[at + HEADER.size : at + HEADER.size + size]
        frame = _decode_payload(kind, rows, payload) if zlib.crc32(payload) == crc else None
        if frame is None:
            break
        frames.append(frame)
        at += HEADER.size + size
    return frames, at


def _decode_payload(kind: int, rows: int, payload: memoryview) -> Frame | None:
    if kind == Kind.JSON:
        try:
            return Frame(Kind.JSON, {}, msgspec.json.decode(payload, type=dict[str, Any]))
        except msgspec.DecodeError:
            return None
    if kind not in COLUMNS:
        return None
    spec = COLUMNS[Kind(kind)]
    if len(payload) != rows * sum(np.dtype(dtype).itemsize for _, dtype in spec):
        return None
    columns: dict[str, NDArray[Any]] = {}
    at = 0
    for name, dtype in spec:
        columns[name] = np.frombuffer(payload, dtype, rows, at)
        at += rows * np.dtype(dtype).itemsize
    return Frame(Kind(kind), columns, {})


class TailReader:
    """Reads the tick logs of one run directory as they grow; a half-written last frame is left for the next call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}

    def read(self, most_bytes: int = 8 * 1024 * 1024) -> list[Frame]:
        """Return the frames that came since the last call, at most about `most_bytes` per file; [] when none did."""
        frames: list[Frame] = []
        for path in sorted(self._folder.glob("ticks-*.bin")):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(most_bytes)
                new, used = decode(data)
                if not used and len(data) == most_bytes:  # a frame may be larger than the share of one call
                    new, used = decode(data + file.read(HEADER.size + MAX_PAYLOAD - most_bytes))
            self._offsets[path] = offset + used
            frames += new
        return frames
