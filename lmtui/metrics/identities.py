"""What must hold between the figures of one run. Tests assert it; a summary that breaks it says so and is invalid."""

from __future__ import annotations

import numpy as np

from lmtui.metrics.requests import Requests, per_request
from lmtui.metrics.result import Result
from lmtui.metrics.sessions import UNKNOWN, Sessions, TokenSource

_ROUNDING = 1e-9


class IdentityError(AssertionError):
    """Figures of one run contradict each other; the text has the numbers."""


def check(sessions: Sessions, result: Result) -> None:
    """Raise IdentityError with every identity that the run breaks."""
    metrics = result.metrics
    broken = (
        *of_requests(sessions, per_request(sessions)),
        *of_counts(sessions.planned, result.outcomes),
        *of_peak(metrics.peak_output_throughput, metrics.all_output_throughput),
    )
    if broken:
        raise IdentityError("; ".join(broken))


def of_requests(sessions: Sessions, requests: Requests) -> tuple[str, ...]:
    """Return what does not hold for single requests: stamps in order, TTFT + Σ gaps = E2E, Σ tokens per tick."""
    broken = []
    index = sessions.index
    ok = requests.ok & (requests.ticks > 0)
    gap_sum = np.bincount(requests.owner, weights=requests.gap_ns, minlength=len(index))
    e2e = requests.last_ns - sessions.sent_ns
    wrong = ok & (np.abs(requests.first_ns - sessions.sent_ns + gap_sum - e2e) > _ROUNDING * np.abs(e2e))
    if wrong.any():
        row = int(np.argmax(wrong))
        ttft = int(requests.first_ns[row] - sessions.sent_ns[row])
        broken.append(f"request {index[row]}: TTFT {ttft} ns + gaps {gap_sum[row]:.0f} ns is not E2E {e2e[row]} ns")
    backwards = ok[requests.owner] & (requests.gap_ns < 0)
    early = ok & ((sessions.sent_ns == UNKNOWN) | (requests.first_ns < sessions.sent_ns))
    if backwards.any() or early.any():
        row = int(requests.owner[np.argmax(backwards)]) if backwards.any() else int(np.argmax(early))
        broken.append(f"request {index[row]}: a tick is stamped before the one before it, or before it was sent")
    counted = requests.ok & requests.is_counted & (sessions.output_tokens != UNKNOWN)
    step_sum = np.bincount(requests.owner, weights=requests.step, minlength=len(index))
    # A server counts tokens without text (an end mark) that no tick shows: its total may be larger, never smaller.
    from_usage = sessions.token_source == TokenSource.USAGE
    differs = counted & np.where(from_usage, step_sum > requests.total, step_sum != requests.total)
    if differs.any():
        row = int(np.argmax(differs))
        broken.append(
            f"request {index[row]}: its ticks have {step_sum[row]:.0f} tokens, its total is {requests.total[row]}"
        )
    return tuple(broken)


def of_counts(planned: int, outcomes: dict[str, int]) -> tuple[str, ...]:
    """Return what does not hold between the plan and the outcomes."""
    total = sum(outcomes.values())
    return () if total == planned else (f"{planned} requests were planned, the outcomes add up to {total}",)


def of_peak(peak: float | None, mean: float | None) -> tuple[str, ...]:
    """Return what does not hold between the largest and the mean output."""
    if peak is None or mean is None or peak >= mean * (1 - _ROUNDING):
        return ()
    return (f"the peak of {peak:.6g} tok/s is under the mean of {mean:.6g} tok/s",)
