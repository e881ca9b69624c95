"""The columns of the files that LMDeploy's scripts append to, in order: the one place that names them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

WORKLOAD = ("dataset_name", "sharegpt_output_len", "random_input_len", "random_output_len", "random_range_ratio")
FIGURES = (
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "duration",
    "request_throughput",
    "input_throughput",
    "output_throughput",
    "mean_e2e_latency_ms",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_itl_ms",
)
GUIDED_FIGURES = (
    "elapsed",
    "total_input",
    "total_output",
    "success",
    "avg_output_len",
    "median_output_len",
    "output_throughput",
    "input_throughput",
    "rps",
    "e2e_mean",
    "e2e_p50",
    "e2e_p99",
    "tpot_mean",
    "tpot_p99",
    "ttft_mean",
    "ttft_p99",
    "itl_mean",
    "itl_p99",
)
ENGINE = ("backend", "bs", *WORKLOAD, "num_prompts", *FIGURES)
"""profile_throughput and profile_pipeline_api."""
RESTFUL = ("backend", *WORKLOAD, "request_rate", *FIGURES)
GUIDED = ("run", "response_format", "ignore_eos", "backend", "bs", "num_prompts", "dataset_name", *GUIDED_FIGURES)


def line(cells: Sequence[object]) -> bytes:
    """Return one line of CSV, ended by CR LF."""
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()
