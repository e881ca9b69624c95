"""What a script leaves behind after a run: its printed totals, its table, and the row of its file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lmtui.config.script_flags import GUIDED, RESTFUL, THROUGHPUT
from lmtui.metrics import guided_table, lmdeploy_table, restful_table, script_columns
from lmtui.metrics.sessions import UNKNOWN, Outcome, Sessions
from lmtui.scripts.points import Point
from lmtui.workload import arrivals, random_lengths
from lmtui.workload.sample import Generators

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.metrics.guided_table import GuidedFigures
    from lmtui.runner.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Report:
    """What one run leaves.

    Attributes:
        totals: The lines about the sample, which the script prints once, before its first table.
        text: The table, as the script prints it.
        row: A line of the script's file.
        messages: What a cell cannot show, and why.
        guided: The figures that the guided script compares at the end; None for the others.
    """

    totals: str
    text: str
    row: bytes
    messages: tuple[str, ...]
    guided: GuidedFigures | None = None


def report(options: argparse.Namespace, point: Point, config: Config, found: Recorded) -> Report:
    """Return what the script would print and write after this run."""
    sessions = found.sessions
    totals = _totals(options, config, sessions)
    if options.script == RESTFUL.command:
        return _restful(options, point, config, found, totals)
    if options.script == GUIDED.command:
        return _guided(options, point, sessions, totals)
    stream = config.request.stream
    profile = lmdeploy_table.figures(sessions, stream_output=stream, closed_load=config.load.mode == "closed")
    shown: list[tuple[str, object]] = [("Concurrency", options.concurrency)]
    if options.script == THROUGHPUT.command:
        title = "Profile Throughput"
        shown += [
            ("Cancel rate", options.cancel_rate),
            ("Stream output", str(stream).lower()),
            ("Skip tokenize", str(options.skip_tokenize).lower()),
            ("Skip detokenize", str(options.skip_detokenize).lower()),
        ]
    else:
        title = "Profile Pipeline API"
        shown.append(("Stream output", str(stream).lower()))
    values = [options.backend, options.concurrency, *_workload(options), options.num_prompts]
    return Report(
        totals=totals,
        text=lmdeploy_table.table(profile, title, shown),
        row=lmdeploy_table.csv_row(profile, values),
        messages=profile.messages,
    )


def _workload(options: argparse.Namespace) -> list[object]:
    return [getattr(options, name) for name in script_columns.WORKLOAD]


def _restful(options: argparse.Namespace, point: Point, config: Config, run: Recorded, totals: str) -> Report:
    assert point.rate is not None
    found = restful_table.figures(
        run.sessions,
        api=config.target.api,
        streams=config.request.stream,
        sending_s=_sending_s(config, run.sessions),
        text_tokens=run.text_tokens,
    )
    values = [options.backend, *_workload(options), point.rate]
    return Report(
        totals=totals,
        text=restful_table.table(found, backend=options.backend, rate=point.rate),
        row=restful_table.csv_row(found, values),
        messages=found.messages,
    )


def _guided(options: argparse.Namespace, point: Point, sessions: Sessions, totals: str) -> Report:
    found = guided_table.guided_figures(sessions, stream_output=options.stream_output)
    title = "Baseline (no response_format)" if point.label == "baseline" else f"Guided ({options.response_format})"
    values = [
        point.label,
        options.response_format,
        options.ignore_eos,
        options.backend,
        options.concurrency,
        options.num_prompts,
        options.dataset_name,
    ]
    return Report(
        totals=totals,
        text=lmdeploy_table.table(found.profile, title, [("Concurrency", options.concurrency)]),
        row=guided_table.csv_row(found, values),
        messages=found.profile.messages,
        guided=found,
    )


def comparison(options: argparse.Namespace, runs: Sequence[tuple[Point, Report]]) -> str:
    """Return the guided script's last table; "" when there was no guided run."""
    found = {point.label: made.guided for point, made in runs}
    guided = found.get("guided")
    if guided is None:
        return ""
    label = f"{options.response_format} @ bs={options.concurrency}"
    return guided_table.comparison(found.get("baseline"), guided, label=label, ignores_eos=options.ignore_eos)


def _sending_s(config: Config, sessions: Sessions) -> float:
    """Return how long the script would have sent: all gaps, that after the last request too; 0 for a run cut short."""
    load, planned = config.load, sessions.planned
    if len(sessions.index) < planned:
        return 0.0
    generators, _ = _drawn(config)
    shape = (load.rate, load.arrival, load.burstiness, load.ramp_s, generators.numpy)
    arrivals.skip(load.skip_arrivals, planned, *shape)
    return float(arrivals.schedule(planned + 1, *shape)[-1])


def _totals(options: argparse.Namespace, config: Config, sessions: Sessions) -> str:
    """Return the lines that the script prints once it has sampled; lengths as drawn, before zeros are raised."""
    inputs, outputs = _lengths(config, sessions)
    asked = "#Output tokens (requested)" if options.script == GUIDED.command else "#Output tokens"
    return f"#Input tokens: {_or_dash(inputs)}\n{asked}: {_or_dash(outputs)}\n"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _lengths(config: Config, sessions: Sessions) -> tuple[int | None, int | None]:
    """Return all prompt and output tokens of the sample; None when they are not known."""
    _, drawn = _drawn(config)
    if drawn is not None:
        return sum(drawn[0]), sum(drawn[1])
    if len(sessions.index) < sessions.planned:
        return None, None
    are_known = bool((sessions.input_len != UNKNOWN).all())
    return int(sessions.input_len.sum()) if are_known else None, int(sessions.asked_len.sum())


def _drawn(config: Config) -> tuple[Generators, tuple[list[int], list[int]] | None]:
    """Return the generators as the dataset leaves `numpy`'s, and the random lengths; None with other datasets."""
    dataset, generators = config.dataset, Generators(config.seed)
    if dataset.kind != "random":
        return generators, None
    is_server = config.target.kind == "server"
    shape = (dataset.input_len, dataset.output_len, dataset.range_ratio, is_server, generators)
    return generators, random_lengths.lengths(config.load.num_prompts, *shape)


def is_whole(sessions: Sessions) -> bool:
    """Tell whether every planned request was sent and came to an end of its own: only then a row compares."""
    cut = np.isin(sessions.outcome, (Outcome.ABORTED, Outcome.DROPPED))
    return len(sessions.index) >= sessions.planned and not bool(cut.any())
