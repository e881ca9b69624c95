"""The CSVs that LMDeploy's scripts append → rows of the history.

Known by their columns: the scripts for engines and the pipeline (`bs`, or `batch` in earlier versions), the restful
script (`request_rate`), and the guided one (`response_format`). Columns without a place in the history are kept as
`imported.<column>`. One file may hold several headers, one after another, and rows of another script under a header
that is not theirs: the scripts append to whatever the file began with.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.errors import LmtuiError
from lmtui.metrics import script_columns
from lmtui.results.csvtext import Record, scan

GENERATIONS = (script_columns.ENGINE, script_columns.RESTFUL, script_columns.GUIDED)
"""Columns, in order, of the scripts' files of today; they differ in number."""
_HEADERS = (
    {"completed", "duration", "output_throughput"},
    {"response_format", "success", "tpot_mean"},
    {"RPS", "throughput(out tok/s)"},
)
"""What a header of the scripts has: today (benchmark_guided apart), and before their profiler."""

_NUMBERS = {
    "bs": "load.concurrency",
    "batch": "load.concurrency",
    "num_prompts": "load.num_prompts",
    "random_range_ratio": "dataset.range_ratio",
    "completed": "completed",
    "total_input_tokens": "total_input_tokens",
    "total_output_tokens": "total_output_tokens",
    "duration": "duration_s",
    "request_throughput": "request_throughput",
    "input_throughput": "input_throughput",
    "output_throughput": "output_throughput",
    "mean_e2e_latency_ms": "e2e_ms.mean",
    "mean_ttft_ms": "ttft_ms.mean",
    "mean_tpot_ms": "tpot_ms.mean",
    "mean_itl_ms": "itl_ms.mean",
    "elapsed": "duration_s",
    "total_input": "total_input_tokens",
    "total_output": "total_output_tokens",
    "success": "completed",
    "rps": "request_throughput",
    "num_promts": "load.num_prompts",
    "RPS": "request_throughput",
    "throughput(out tok/s)": "output_throughput",
}
_SECONDS = {
    "e2e_mean": "e2e_ms.mean",
    "e2e_p50": "e2e_ms.p50",
    "e2e_p99": "e2e_ms.p99",
    "tpot_mean": "tpot_ms.mean",
    "tpot_p99": "tpot_ms.p99",
    "ttft_mean": "ttft_ms.mean",
    "ttft_p99": "ttft_ms.p99",
    "itl_mean": "itl_ms.mean",
    "itl_p99": "itl_ms.p99",
    "FTL(ave)(s)": "ttft_ms.mean",
    "FTL(min)(s)": "ttft_ms.min",
    "FTL(max)(s)": "ttft_ms.max",
}
_GUIDED = ("run", "response_format", "ignore_eos")
_TAKEN = {*_NUMBERS, *_SECONDS, "backend", "request_rate", *script_columns.WORKLOAD, *_GUIDED}
_API = {"sglang": "sglang", "sglang-native": "sglang", "trt": "trt"}


@dataclass(frozen=True, slots=True)
class Imported:
    """Rows of a script's file: cells by column of the history, and a sentence for each line that is no row."""

    rows: tuple[dict[str, str], ...]
    bad: tuple[str, ...]


def read_script_csv(path: Path, report: Callable[[str], None] | None = None) -> Imported:
    """Return the rows of a file that LMDeploy's scripts wrote.

    A row's `run_id` comes from its text and from how many equal rows stand before it, so importing a file twice, or
    once more after it has grown, adds only what is new.

    Args:
        path: The file.
        report: Takes a sentence for each line that is no row, and the others are returned; without it such a line is
            an error.

    Raises:
        LmtuiError: The file cannot be read, is none of the scripts', or has a bad line that nothing takes.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise LmtuiError(
            f"{path}: cannot be read: {error.strerror}. Give the CSV file of an LMDeploy script"
        ) from error
    rows: list[dict[str, str]] = []
    bad: list[str] = []
    header: Sequence[str] | None = None
    seen: Counter[str] = Counter()
    for record in scan(text, any_width=True):
        cells = record.cells
        if cells is not None and _is_header(cells):
            header = cells
            continue
        columns = None if cells is None or header is None else _columns_of(cells, header)
        if cells is None or columns is None:
            bad.append(_complaint(path, record, header))
            continue
        key = record.raw.strip()
        seen[key] += 1
        digest = hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()[:12]
        rows.append(_row(dict(zip(columns, cells, strict=True)), f"import-{digest}", path))
    if header is None:
        raise LmtuiError(
            f"{path}: no header of LMDeploy's scripts in it (they write `completed,total_input_tokens,…`). "
            "Give the file that profile_throughput, profile_pipeline_api, profile_restful_api or benchmark_guided wrote"
        )
    for sentence in bad:
        if report is None:
            raise LmtuiError(f"{sentence}. Nothing was imported: mend or remove that line, and import again")
        report(sentence)
    return Imported(tuple(rows), tuple(bad))


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether the cells are a header of the scripts, whatever version's order they are in."""
    return any(names <= set(cells) for names in _HEADERS)


def _columns_of(cells: Sequence[str], header: Sequence[str]) -> Sequence[str] | None:
    """Return the columns of a row: the header's or, when another script appended it, that script's; None: no row."""
    return next((known for known in (header, *GENERATIONS) if len(known) == len(cells) and _fits(cells, known)), None)


def _fits(cells: Sequence[str], columns: Sequence[str]) -> bool:
    """Return whether the cells can stand in these columns: a number or nothing where a number belongs."""
    return any(cells) and all(
        column not in _NUMBERS or cell in ("", "-") or _number(cell) is not None
        for column, cell in zip(columns, cells, strict=True)
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _complaint(path: Path, record: Record, header: Sequence[str] | None) -> str:
    width = "is no CSV" if record.cells is None else f"has {len(record.cells)} cells"
    wanted = "comes before any header" if header is None else f"fits no script's row (the header has {len(header)})"
    return f"{path}: line {record.line} {width} and {wanted}"


def _row(given: dict[str, str], run_id: str, path: Path) -> dict[str, str]:
    backend = given.get("backend", "")
    row = {"run_id": run_id, "name": path.stem, "phase": "done", "started_at": "", "source": path.name}
    row |= {column: _figure(given[name]) for name, column in _NUMBERS.items() if name in given}
    row |= {column: _in_ms(given[name]) for name, column in _SECONDS.items() if name in given}
    if "completed" in row:
        row["outcomes.ok"] = row["completed"]
    if "request_rate" in given:
        row |= _restful(backend)
        row["load.mode"], row["load.rate"] = "open", given["request_rate"]
    elif "response_format" in given:
        row |= _guided(given)
        row["name"] = f"{path.stem}-{given['run']}"
    else:
        row["load.mode"], row["target.kind"] = "closed", backend
    if "dataset_name" in given:
        row |= _dataset(given)
    left = {name: cell for name, cell in given.items() if name not in _TAKEN and cell}
    return row | {f"imported.{name}": cell for name, cell in left.items()}


def _figure(cell: str) -> str:
    """Return a figure as the script wrote it; "" for what it printed in place of a missing one (`-`, inf, nan)."""
    value = _number(cell)
    return cell if value is not None and math.isfinite(value) else ""


def _in_ms(cell: str) -> str:
    value = _number(_figure(cell))
    return "" if value is None else repr(value * 1000)


def _restful(backend: str) -> dict[str, str]:
    """Return target and API of a restful backend: `vllm-chat` is the chat API of the preset vllm."""
    preset = backend.partition("-")[0]
    api = _API.get(backend) or ("chat" if backend.endswith("-chat") else "completions")
    return {"target.kind": "server", "target.preset": preset, "target.api": api}


def _guided(given: dict[str, str]) -> dict[str, str]:
    """Return what the guided script ran: the pipeline, all requests at once."""
    return {
        "target.kind": "pipeline",
        "target.backend": given["backend"],
        "load.mode": "open",
        "load.rate": "inf",
        "guided.response_format": "none" if given["run"] == "baseline" else given["response_format"],
        "request.ignore_eos": given["ignore_eos"].lower(),
    }


def _dataset(given: dict[str, str]) -> dict[str, str]:
    kind = given["dataset_name"]
    if kind == "random":
        return {
            "dataset.kind": kind,
            "dataset.input_len": given.get("random_input_len", ""),
            "dataset.output_len": given.get("random_output_len", ""),
        }
    length = given.get("sharegpt_output_len", "")
    return {"dataset.kind": kind, "dataset.output_len": length, "dataset.range_ratio": ""}
