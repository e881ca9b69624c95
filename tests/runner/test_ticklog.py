"""The tick log: what was written is read, whatever is behind it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.runner import recorded
from lmtui.runner.ticklog import COLUMNS, HEADER, MAGIC, VERSION, Frame, Kind, TailReader, decode, encode, encode_json

KINDS = tuple(COLUMNS)


def limits(dtype: str) -> tuple[int, int]:
    bits = 8 * int(dtype[2:])
    return (0, 2**bits - 1) if dtype[1] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def frames(draw: st.DrawFn) -> tuple[Kind, Any]:
    kind = draw(st.sampled_from([*KINDS, Kind.JSON]))
    if kind is Kind.JSON:
        return kind, {"what": "error", "index": draw(st.integers(0, 99)), "message": draw(st.text(max_size=20))}
    row = st.tuples(*(st.integers(*limits(dtype)) for _, dtype in COLUMNS[kind]))
    return kind, draw(st.lists(row, max_size=4))


def encoded(kind: Kind, content: Any) -> bytes:
    return encode_json(content) if kind is Kind.JSON else encode(kind, content)


def content(frame: Frame) -> Any:
    if frame.kind is Kind.JSON:
        return frame.data
    return list(zip(*(column.tolist() for column in frame.columns.values()), strict=True))


@given(st.lists(frames(), max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_cut_off_anywhere_gives_the_whole_frames_before(written: list[tuple[Kind, Any]], data: st.DataObject) -> None:
    pieces = [encoded(*frame) for frame in written]
    log = b"".join(pieces)
    cut = data.draw(st.integers(0, len(log)))
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    whole = sum(end <= cut for end in ends)
    found, used = decode(log[:cut])
    assert [(frame.kind, content(frame)) for frame in found] == [(kind, rows) for kind, rows in written[:whole]]
    assert used == (ends[whole - 1] if whole else 0)
    again, _ = decode(log[used:])
    assert len(found) + len(again) == len(written)


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    found, used = decode(data)
    assert (found, used) == ([], 0) or data.startswith(MAGIC)


@given(st.integers(0, 9), st.integers(0, 3), st.binary(max_size=60), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_no_payload_raises(kind: int, version: int, payload: bytes, rows: int) -> None:
    decode(HEADER.pack(MAGIC, kind, version, 0, rows, len(payload), zlib.crc32(payload)) + payload)


def test_a_flipped_bit_ends_the_log() -> None:
    good, bad = encode(Kind.TICKS, [(1, 2, 3)]), bytearray(encode(Kind.TICKS, [(4, 5, 6)]))
    bad[-1] ^= 1
    found, used = decode(good + bytes(bad) + good)
    assert (len(found), used) == (1, len(good))


def test_json_that_is_no_object_ends_the_log() -> None:
    payload = b"[1]"
    frame = HEADER.pack(MAGIC, Kind.JSON, VERSION, 0, 1, len(payload), zlib.crc32(payload)) + payload
    assert decode(frame) == ([], 0)


def test_the_header_is_what_the_format_says() -> None:
    frame = encode(Kind.TICKS, [(7, -1, 2)])
    assert frame[:4] == b"LMT1"
    assert struct.unpack("<BBHII", frame[4:16]) == (Kind.TICKS, 1, 0, 1, 16)
    assert frame[20:] == struct.pack("<Iqi", 7, -1, 2)


def test_a_growing_log_is_read_once_each(tmp_path: Path) -> None:
    path = tmp_path / "ticks-0.bin"
    reader = TailReader(tmp_path)
    assert reader.read() == []
    frame = encode(Kind.TICKS, [(1, 10, 1), (2, 11, 1)])
    path.write_bytes(frame + frame[:10])
    assert [content(found) for found in reader.read()] == [[(1, 10, 1), (2, 11, 1)]]
    assert reader.read() == []
    path.write_bytes(frame + frame)
    (tmp_path / "ticks-1.bin").write_bytes(frame)
    assert len(reader.read()) == 2


def test_a_frame_larger_than_one_call_reads_is_read(tmp_path: Path) -> None:
    rows = [(i, i, i) for i in range(1000)]
    (tmp_path / "ticks-0.bin").write_bytes(encode(Kind.TICKS, rows) * 2)
    reader = TailReader(tmp_path)
    assert [content(frame) for frame in reader.read(most_bytes=100)] == [rows, rows]
    assert reader.read(most_bytes=100) == []


def test_an_unfinished_log_is_summed_up_as_aborted(tmp_path: Path) -> None:
    log = encode_json({"what": "start", "start_ns": 100})
    log += encode(Kind.SENT, [(0, 100, 100, 5, 9, 0), (2, 100, -1, 5, 9, 1), (1, 100, 101, 5, 9, 0)])
    log += encode(Kind.TICKS, [(1, 120, 1), (0, 130, 1), (1, 140, 2), (9, 141, 1)])
    log += encode(Kind.END, [(0, 150, 0, 1, 1, 5, -1, -1, -1, -1)])
    (tmp_path / "ticks-0.bin").write_bytes(log + b"LMT1 half a frame")
    found = recorded.read(tmp_path, planned=7)
    sessions = found.sessions
    assert (sessions.planned, sessions.start_ns) == (7, 100)
    assert sessions.index.tolist() == [0, 1, 2]
    assert sessions.outcome.tolist() == [0, 11, 11]
    assert sessions.end_ns.tolist() == [150, 150, 150]
    assert sessions.tick_start.tolist() == [0, 1, 3, 3]
    assert sessions.tick_ns.tolist() == [130, 120, 140]
    assert sessions.sent_ns.tolist() == [100, 101, -1]
    assert sessions.cancel_planned.tolist() == [False, False, True]


def test_a_request_that_was_sent_twice_counts_from_the_second_time(tmp_path: Path) -> None:
    log = encode(Kind.SENT, [(0, 100, 100, 5, 9, 0)]) + encode(Kind.SENT, [(0, 100, 170, 5, 9, 0)])
    (tmp_path / "ticks-0.bin").write_bytes(log)
    sessions = recorded.read(tmp_path, planned=1).sessions
    assert (sessions.index.tolist(), sessions.sent_ns.tolist()) == ([0], [170])


def test_the_logs_of_workers_are_one(tmp_path: Path) -> None:
    for worker in range(2):
        report = {
            "what": "worker",
            "clock": "kernel",
            "cpu_s": 1.0 + worker,
            "wall_s": 4.0,
            "events": 10,
            "coalesced": 1,
        }
        log = encode_json({"what": "start", "start_ns": 50 + worker})
        log += encode(Kind.SENT, [(worker, 60, 60, 5, 9, 0)]) + encode(Kind.TICKS, [(worker, 70, 1)])
        log += encode_json({**report, "cpu_s": 0.5}) + encode_json(
            {**report, "clock_steps": 1, "replaced": 3, "engine_inside": False}
        )
        log += encode(Kind.SAMPLES, [(1, 65, 500 + worker), (2, 66, 900)])
        log += encode_json({"what": "error", "index": worker, "message": f"m{worker}"})
        (tmp_path / f"ticks-{worker}.bin").write_bytes(log)
    found = recorded.read(tmp_path, planned=2)
    assert found.sessions.start_ns == 50
    assert found.errors == {0: "m0", 1: "m1"}
    samples = found.samples
    assert (samples.clock, samples.events, samples.coalesced, samples.clock_steps) == ("kernel", 20, 2, 2)
    assert samples.replaced == 6
    assert (samples.cpu_s, samples.busiest_core_share) == (3.0, 0.5)
    assert samples.loop_lag_ns.tolist() == [500, 501]
    assert samples.read_lag_ns.tolist() == [900, 900]


def test_an_empty_directory_is_an_empty_record(tmp_path: Path) -> None:
    found = recorded.read(tmp_path)
    assert (len(found.sessions.index), found.sessions.planned, found.samples.cpu_s) == (0, 0, None)
    assert found.sessions.tick_start.tolist() == [0]
