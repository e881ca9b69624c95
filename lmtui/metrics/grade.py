"""Is the result trustworthy? Every limit, and the sentences that name what passed one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["good", "suspect", "invalid"]

SEND_LAG_SHARE_OF_TTFT = 0.05
SEND_LAG_MS = 5.0
COALESCED_SHARE = 0.01
CORE_SHARE = 0.80
SUSPECT_ERROR_RATE = 0.01
INVALID_ERROR_RATE = 0.50
FEWEST_OK = 30
WARM_CACHE_SHARE = 0.05
LEAST_RATE_SHARE = 0.90


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a grade rests on. None: not known or does not apply.

    Attributes:
        ok, failed, ended: Requests that were ok; that the target failed; that the target or the plan ended.
        ttft_p50_ms, send_lag_p99_ms, coalesced_share: Of the run.
        core_share: CPU of the busiest load worker in cores; None when an engine runs inside it.
        clock_steps: Jumps of the wall clock.
        cached_share: Share of the `ok` prompts' tokens that the target had cached, where the load is not to share any.
        possible_rate: Requests per second that the plan and the caps allowed. achieved_rate: what the client sent.
        mixed_sources: Words for the token sources of the `ok` requests, when they differ.
        violations: Identities that do not hold.
    """

    ok: int
    failed: int
    ended: int
    ttft_p50_ms: float | None
    send_lag_p99_ms: float | None
    coalesced_share: float | None
    core_share: float | None
    clock_steps: int
    cached_share: float | None
    possible_rate: float | None
    achieved_rate: float | None
    mixed_sources: tuple[str, ...]
    violations: tuple[str, ...]


def grade(evidence: Evidence) -> tuple[Grade, tuple[str, ...]]:
    """Return the grade and why: the reasons of `invalid` first, then those of `suspect`; none for `good`."""
    invalid, suspect = _invalid(evidence), _suspect(evidence)
    level: Grade = "invalid" if invalid else "suspect" if suspect else "good"
    return level, (*invalid, *suspect)


def _invalid(evidence: Evidence) -> list[str]:
    reasons = []
    if evidence.ok == 0:
        reasons.append("no request was ok")
    if evidence.ended and evidence.failed / evidence.ended > INVALID_ERROR_RATE:
        reasons.append(_errors(evidence, INVALID_ERROR_RATE))
    if evidence.possible_rate and evidence.achieved_rate is not None:
        share = evidence.achieved_rate / evidence.possible_rate
        if share < LEAST_RATE_SHARE:
            reasons.append(
                f"the client sent {evidence.achieved_rate:.4g} of {evidence.possible_rate:.4g} req/s that were due: "
                f"{share:.0%}, under {LEAST_RATE_SHARE:.0%}"
            )
    if evidence.mixed_sources:
        reasons.append(f"the ok requests' tokens were counted in different ways: {', '.join(evidence.mixed_sources)}")
    reasons += [f"the figures contradict each other: {violation}" for violation in evidence.violations]
    return reasons


def _suspect(evidence: Evidence) -> list[str]:
    reasons = []
    lag, ttft = evidence.send_lag_p99_ms, evidence.ttft_p50_ms
    if lag is not None and lag > SEND_LAG_MS:
        reasons.append(f"requests went late: send lag P99 {lag:.3g} ms, over {SEND_LAG_MS:g} ms")
    elif lag is not None and ttft is not None and lag > SEND_LAG_SHARE_OF_TTFT * ttft:
        reasons.append(
            f"requests went late: send lag P99 {lag:.3g} ms, over {SEND_LAG_SHARE_OF_TTFT:.0%} of the "
            f"TTFT P50 of {ttft:.3g} ms"
        )
    if evidence.coalesced_share is not None and evidence.coalesced_share > COALESCED_SHARE:
        reasons.append(
            f"the client read late: {evidence.coalesced_share:.1%} of events shared a stamp, over {COALESCED_SHARE:.0%}"
        )
    if evidence.core_share is not None and evidence.core_share > CORE_SHARE:
        reasons.append(
            f"a load worker was busy: {evidence.core_share:.0%} of a core, over {CORE_SHARE:.0%}; raise load.workers"
        )
    if evidence.ended and SUSPECT_ERROR_RATE < evidence.failed / evidence.ended <= INVALID_ERROR_RATE:
        reasons.append(_errors(evidence, SUSPECT_ERROR_RATE))
    if 0 < evidence.ok < FEWEST_OK:
        reasons.append(f"few samples: {evidence.ok} ok requests, fewer than {FEWEST_OK}")
    if evidence.cached_share is not None and evidence.cached_share > WARM_CACHE_SHARE:
        reasons.append(
            f"warm cache suspected: {evidence.cached_share:.0%} of the prompts' tokens were cached, over "
            f"{WARM_CACHE_SHARE:.0%}, and the load shares no prefix on purpose"
        )
    if evidence.clock_steps:
        reasons.append(f"the wall clock stepped {evidence.clock_steps} time{'s' * (evidence.clock_steps > 1)}")
    return reasons


def _errors(evidence: Evidence, limit: float) -> str:
    share = evidence.failed / evidence.ended
    return f"errors: {evidence.failed} of {evidence.ended} requests failed: {share:.1%}, over {limit:.0%}"
