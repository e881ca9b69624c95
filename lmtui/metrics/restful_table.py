"""The table and the CSV row of LMDeploy's profile_restful_api.py, from our stamps.

Its definitions, not METRICS': a request counts as successful when the server answered 200 and nothing broke, however
long the answer was; its output length is the one that was asked for (chat: the server's usage, else the one asked for);
TTFT is the first output, the latency lasts to the last line (`[DONE]` too; TensorRT-LLM: to the last output), TPOT is
(latency - TTFT) / (output length - 1), ITL the gaps between outputs. `sent` is ours: the script's times include
connecting. Where the script would print 0, `nan` or a number that it does not have, the cell is `-` and a sentence
says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics import script_columns
from lmtui.metrics.flight import ends, span
from lmtui.metrics.requests import per_request
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions, TokenSource

NONE = "-"
WIDTH = 50

_ANSWERED = (Outcome.OK, Outcome.SHORT, Outcome.BAD_FINISH, Outcome.NO_TOKEN)
"""What the script takes for a success: it looks at the status and at what raises, not at how the answer ended."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One latency in milliseconds; None without a sample."""

    mean: float | None
    median: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class RestfulFigures:
    """What the script computes. Throughputs are None when no time passed, or their count is not known.

    Attributes:
        completed: Successful requests.
        total_input: Tokens of their prompts; None when one is not known here.
        total_output: Tokens of their answers, by the script's rule.
        retokenized: Tokens of their texts, encoded again; None when one was not.
        messages: Where a cell is `-`, and why.
    """

    duration_s: float
    completed: int
    total_input: int | None
    total_output: int
    retokenized: int | None
    request_throughput: float | None
    input_throughput: float | None
    output_throughput: float | None
    e2e: Spread
    ttft: Spread
    tpot: Spread
    itl: Spread
    messages: tuple[str, ...]


def figures(
    sessions: Sessions,
    *,
    api: str,
    streams: bool = True,
    sending_s: float = 0.0,
    text_tokens: Mapping[int, int] | None = None,
) -> RestfulFigures:
    """Return the script's figures of a run over `target.api = api`.

    Args:
        sessions: The run.
        api: Its `target.api`.
        streams: Whether answers came piece by piece: a whole one has no time per token (the script prints about 0).
        sending_s: The least that the duration is, in seconds: the script also waits a gap after the last request.
        text_tokens: Index of a request → tokens of its answer's text, encoded again.
    """
    requests = per_request(sessions)
    run = span(sessions, requests, closed_load=False)
    duration = 0.0 if run is None else max(run.end_ns / 1e9 - run.start_ns / 1e9, sending_s)
    success = requests.sent & np.isin(sessions.outcome, _ANSWERED)
    rows = np.flatnonzero(success)
    tick_s, sent_s = sessions.tick_ns / 1e9, sessions.sent_ns / 1e9
    last_ns = ends(sessions, requests) if api != "trt" else requests.last_ns
    latency = last_ns / 1e9 - sent_s
    ttft = requests.first_ns / 1e9 - sent_s
    output = _output_lens(sessions, api)
    has_text = success & (requests.ticks > 0)
    has_tpot = has_text & (output > 1) & streams
    itl = np.diff(tick_s, prepend=0.0)[success[requests.owner] & requests.is_gap]
    inputs = np.where(sessions.input_len != UNKNOWN, sessions.input_len, sessions.prompt_tokens)[rows]
    total_input = int(inputs.sum()) if (inputs != UNKNOWN).all() else None
    total_output = int(output[rows].sum())
    known = text_tokens or {}
    told = sessions.index[has_text].tolist()
    retokenized = sum(known[index] for index in told) if len(rows) and known.keys() >= set(told) else None
    ends_known = success & (last_ns != UNKNOWN)
    return RestfulFigures(
        duration_s=duration,
        completed=len(rows),
        total_input=total_input,
        total_output=total_output,
        retokenized=retokenized,
        request_throughput=len(rows) / duration if duration else None,
        input_throughput=total_input / duration if duration and total_input is not None else None,
        output_throughput=total_output / duration if duration else None,
        e2e=_spread(latency[ends_known]),
        ttft=_spread(ttft[has_text]),
        tpot=_spread((latency[has_tpot] - ttft[has_tpot]) / (output[has_tpot] - 1)),
        itl=_spread(itl),
        messages=_messages(
            len(rows), int((success & (requests.ticks == 0)).sum()), len(itl), int(has_tpot.sum()), retokenized
        ),
    )


def _output_lens(sessions: Sessions, api: str) -> NDArray[np.int64]:
    if api != "chat":
        return sessions.asked_len
    told = (sessions.token_source == TokenSource.USAGE) & (sessions.output_tokens != UNKNOWN)
    return np.where(told, sessions.output_tokens, sessions.asked_len)


def _spread(seconds: NDArray[np.float64]) -> Spread:
    if len(seconds) == 0:
        return Spread(None, None, None)
    return Spread(
        float(np.mean(seconds) * 1000), float(np.median(seconds) * 1000), float(np.percentile(seconds, 99) * 1000)
    )


def _messages(completed: int, silent: int, itls: int, tpots: int, retokenized: int | None) -> tuple[str, ...]:
    said = []
    if completed == 0:
        said.append("no request was answered: the latencies have no data (-)")
    elif itls == 0:
        said.append("no answer came in two pieces: the inter-token latency has no data (-)")
    if completed and tpots == 0:
        said.append("no answer had two tokens, piece by piece: the time per output token has no data (-)")
    if silent:
        said.append(f"{silent} answers had no text: they are left out of TTFT and TPOT, where the script counts 0")
    if completed and retokenized is None:
        said.append("not every text was encoded again here: the retokenized count has no data (-)")
    return tuple(said)


def table(figures: RestfulFigures, *, backend: str, rate: float | int) -> str:
    """Return the lines that the script prints for one rate, the blank one before the title included."""
    lines = ["", f"{' Serving Benchmark Result ':=^{WIDTH}}"]

    def row(label: str, value: object) -> None:
        lines.append(f"{label + ':':<40} {NONE if value is None else value:<10}")

    def fixed(label: str, value: float | None) -> None:
        row(label, None if value is None else f"{value:.2f}")

    row("Backend", backend)
    row("Traffic request rate", rate)
    row("Successful requests", figures.completed)
    fixed("Benchmark duration (s)", figures.duration_s)
    row("Total input tokens", figures.total_input)
    row("Total input text tokens", figures.total_input)
    row("Total input vision tokens", 0)
    row("Total generated tokens", figures.total_output)
    row("Total generated tokens (retokenized)", figures.retokenized)
    fixed("Request throughput (req/s)", figures.request_throughput)
    fixed("Input token throughput (tok/s)", figures.input_throughput)
    fixed("Output token throughput (tok/s)", figures.output_throughput)
    for title, name, spread, has_p99 in (
        ("End-to-End Latency", "E2E Latency", figures.e2e, False),
        ("Time to First Token", "TTFT", figures.ttft, True),
        ("Time per Output Token (excl. 1st token)", "TPOT", figures.tpot, True),
        ("Inter-token Latency", "ITL", figures.itl, True),
    ):
        lines.append(f"{title:-^{WIDTH}}")
        fixed(f"Mean {name} (ms)", spread.mean)
        fixed(f"Median {name} (ms)", spread.median)
        if has_p99:
            fixed(f"P99 {name} (ms)", spread.p99)
    lines.append("=" * WIDTH)
    return "\n".join(lines) + "\n"


def csv_row(figures: RestfulFigures, hyperparams: Sequence[object]) -> bytes:
    """Return the row that the script appends; `hyperparams`: the values of the columns up to `request_rate`."""
    return script_columns.line(
        [
            *hyperparams,
            figures.completed,
            _or_none(figures.total_input),
            figures.total_output,
            figures.duration_s,
            _or_none(figures.request_throughput),
            _or_none(figures.input_throughput),
            _or_none(figures.output_throughput),
            *(_or_none(spread.mean) for spread in (figures.e2e, figures.ttft, figures.tpot, figures.itl)),
        ]
    )


def _or_none(value: float | None) -> object:
    return NONE if value is None else value
