"""What a run recorded, read back from its tick logs: whole, cut off anywhere, or still growing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.sessions import UNKNOWN, ClientSamples, Outcome, Sessions
from lmtui.runner.rundir import RunDirectory
from lmtui.runner.ticklog import COLUMNS, Frame, Kind, Sample, decode

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The tick logs of one run as arrays.

    Attributes:
        errors: Index of a request → what went wrong with it.
        text_tokens: Index of a request → tokens of its answer's text, where that was tokenised here.
    """

    sessions: Sessions
    samples: ClientSamples
    errors: dict[int, str]
    text_tokens: dict[int, int]


def read(folder: Path, planned: int | None = None) -> Recorded:
    """Return what the tick logs in a run's folder hold; a half-written tail is left out.

    A request without an end was cut by whatever ended the run: `aborted`, at the last time the logs know. `planned`
    requests were in the plan (None: as the run's status says).
    """
    frames: list[list[Frame]] = []
    for path in sorted(folder.glob("ticks-*.bin")):
        frames.append(decode(path.read_bytes())[0])
    if planned is None:
        status = RunDirectory(folder).status()
        planned = 0 if status is None else status.counts.planned
    return from_frames(frames, planned)


def from_frames(files: Sequence[Sequence[Frame]], planned: int) -> Recorded:
    """Return what these frames (a sequence for each file) hold, of a plan of `planned` requests at least."""
    frames = [frame for file in files for frame in file]
    sends = _table(frames, Kind.SENT)
    samples = _table(frames, Kind.SAMPLES)
    objects = [frame.data for frame in frames if frame.kind is Kind.JSON]
    starts = [int(data["start_ns"]) for data in objects if data.get("what") == "start"]
    return Recorded(
        _sessions(
            sends, _table(frames, Kind.TICKS), _table(frames, Kind.END), samples, planned, min(starts, default=0)
        ),
        _client(samples, files),
        {int(data["index"]): str(data["message"]) for data in objects if data.get("what") == "error"},
        {int(data["index"]): int(data["tokens"]) for data in objects if data.get("what") == "text"},
    )


def _table(frames: Sequence[Frame], kind: Kind) -> dict[str, Column]:
    """Return the columns of all frames of a kind, one after another."""
    mine = [frame.columns for frame in frames if frame.kind is kind]
    return {
        name: np.concatenate([columns[name] for columns in mine]).astype(np.int64) if mine else np.empty(0, np.int64)
        for name, _ in COLUMNS[kind]
    }


def _sessions(
    sends: dict[str, Column],
    ticks: dict[str, Column],
    ends: dict[str, Column],
    samples: dict[str, Column],
    planned: int,
    start_ns: int,
) -> Sessions:
    order = np.argsort(sends["index"], kind="stable")
    is_last = np.ones(len(order), dtype=np.bool_)
    is_last[:-1] = np.diff(sends["index"][order]) != 0
    order = order[is_last]
    index = sends["index"][order]
    n = len(index)

    end_row, is_known = _rows(index, ends["index"])
    known_ends = {name: column[is_known] for name, column in ends.items()}

    def at_end(name: str, missing: int = UNKNOWN) -> Column:
        column = np.full(n, missing, dtype=np.int64)
        column[end_row] = known_ends[name]
        return column

    last_known = max(
        (
            int(times.max())
            for times in (sends["sent_ns"], ticks["at_ns"], ends["end_ns"], samples["at_ns"])
            if len(times)
        ),
        default=UNKNOWN,
    )
    tick_row, is_known = _rows(index, ticks["index"])
    by_request = np.argsort(tick_row, kind="stable")
    return Sessions(
        index=index,
        due_ns=sends["due_ns"][order],
        sent_ns=sends["sent_ns"][order],
        end_ns=at_end("end_ns", last_known),
        input_len=sends["input_len"][order],
        prompt_tokens=at_end("prompt_tokens"),
        cached_tokens=at_end("cached_tokens"),
        asked_len=sends["asked_len"][order],
        output_tokens=at_end("output_tokens"),
        token_source=at_end("token_source", 0).astype(np.uint8),
        outcome=at_end("outcome", Outcome.ABORTED).astype(np.uint8),
        cancel_planned=sends["cancel_planned"][order].astype(np.bool_),
        connect_ns=at_end("connect_ns"),
        let_go_ns=at_end("let_go_ns"),
        wasted_tokens=at_end("wasted_tokens"),
        tick_start=np.concatenate(([0], np.cumsum(np.bincount(tick_row, minlength=n)[:n]))).astype(np.int64),
        tick_ns=ticks["at_ns"][is_known][by_request],
        tick_tokens=ticks["tokens"][is_known][by_request],
        planned=max(planned, n),
        start_ns=start_ns,
    )


def _rows(index: Column, wanted: Column) -> tuple[Column, NDArray[np.bool_]]:
    """Return the row of each wanted request that `index` (sorted) has, and which of the wanted those are."""
    if not len(index):
        return np.empty(0, np.int64), np.zeros(len(wanted), dtype=np.bool_)
    row = np.minimum(np.searchsorted(index, wanted), len(index) - 1)
    is_known = index[row] == wanted
    return row[is_known], is_known


def _client(samples: dict[str, Column], files: Sequence[Sequence[Frame]]) -> ClientSamples:
    workers = [report for file in files if (report := _last_report(file)) is not None]
    cpu = [float(worker["cpu_s"]) for worker in workers if worker.get("cpu_s") is not None]
    is_inside = any(worker.get("engine_inside") for worker in workers)
    shares = [
        worker["cpu_s"] / worker["wall_s"] for worker in workers if worker.get("cpu_s") is not None and worker["wall_s"]
    ]
    return ClientSamples(
        clock="kernel" if workers and all(worker.get("clock") == "kernel" for worker in workers) else "user",
        loop_lag_ns=samples["value"][samples["what"] == Sample.LOOP_LAG_NS],
        read_lag_ns=samples["value"][samples["what"] == Sample.READ_LAG_NS],
        coalesced=sum(int(worker.get("coalesced", 0)) for worker in workers),
        events=sum(int(worker.get("events", 0)) for worker in workers),
        cpu_s=sum(cpu) if cpu else None,
        busiest_core_share=None if is_inside or not shares else max(shares),
        clock_steps=sum(int(worker.get("clock_steps", 0)) for worker in workers),
        replaced=sum(int(worker.get("replaced", 0)) for worker in workers),
        engine_inside=is_inside,
    )


def _last_report(frames: Sequence[Frame]) -> dict[str, Any] | None:
    for frame in reversed(frames):
        if frame.kind is Kind.JSON and frame.data.get("what") == "worker":
            return frame.data
    return None
