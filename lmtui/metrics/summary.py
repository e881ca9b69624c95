"""One run's sessions → its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics import causes, grade, identities, rate, steady
from lmtui.metrics.cancel import cancel
from lmtui.metrics.distribution import EMPTY, distribution, of_ns
from lmtui.metrics.flight import Span, in_flight, peak_output, span
from lmtui.metrics.goodput import Objectives, goodput
from lmtui.metrics.latencies import each_latency
from lmtui.metrics.requests import Requests, per_request
from lmtui.metrics.result import Client, Metrics, Number, Result
from lmtui.metrics.sessions import UNKNOWN, ClientSamples, Outcome, Sessions, TokenSource

if TYPE_CHECKING:
    from lmtui.config.model import Config


def summarise(
    config: Config,
    sessions: Sessions,
    samples: ClientSamples,
    errors: Mapping[int, str],
    *,
    run_id: str,
    phase: str,
    started_at: str,
    target: Mapping[str, object],
    notes: Sequence[str],
    environment: Mapping[str, object],
    simulated: bool,
) -> Result:
    """Return the result of a run, finished or not: every number of METRICS with the run's grade.

    Args:
        config: What was asked.
        sessions: What happened.
        samples: What the load workers noticed about themselves.
        errors: Index of a request → what went wrong with it.
        run_id: The run's id.
        phase: How it ended: `done`, `stopped`, `failed` or `lost`.
        started_at: When, ISO 8601.
        target: What answered: kind, model, base_url, versions.
        notes: Sentences about what was done on the user's behalf.
        environment: The machine and the software.
        simulated: Whether no real engine or server answered.
    """
    requests = per_request(sessions)
    closed_load = config.load.mode == "closed"
    run = span(sessions, requests, closed_load=closed_load)
    outcomes = _outcomes(sessions)
    ready = rate.ready_ns(sessions, requests, None if closed_load else config.load.max_in_flight)
    send_lag = of_ns(rate.send_lag_ns(sessions, ready, closed_load=closed_load))
    metrics = _metrics(config, sessions, requests, run, closed_load=closed_load)
    violations = (
        *identities.of_requests(sessions, requests),
        *identities.of_counts(sessions.planned, outcomes),
        *identities.of_peak(metrics.peak_output_throughput, metrics.all_output_throughput),
    )
    sources = sorted({int(source) for source in np.unique(sessions.token_source[requests.ok])})
    failed = sum(outcomes[outcome.label] for outcome in Outcome if outcome.is_failure)
    coalesced_share = samples.coalesced / samples.events if samples.events else None
    verdict, reasons = grade.grade(
        grade.Evidence(
            ok=outcomes["ok"],
            failed=failed,
            ended=outcomes["ok"] + outcomes["cancelled"] + failed,
            ttft_p50_ms=metrics.ttft_ms.p50,
            send_lag_p99_ms=send_lag.p99,
            coalesced_share=coalesced_share,
            core_share=None if samples.engine_inside else samples.busiest_core_share,
            clock_steps=samples.clock_steps,
            cached_share=None if _shares_prefixes(config) else _cached_share(sessions, requests),
            possible_rate=None if closed_load else rate.rate_of(ready[ready != UNKNOWN]),
            achieved_rate=metrics.achieved_rate,
            mixed_sources=tuple(_source_word(source) for source in sources) if len(sources) > 1 else (),
            violations=violations,
        )
    )
    return Result(
        run_id=run_id,
        name=config.name,
        phase=phase,
        started_at=started_at,
        target=dict(target),
        config=nested(config.flat()),
        outcomes=outcomes,
        errors=causes.groups(sessions, errors),
        metrics=metrics,
        client=Client(
            clock=samples.clock,
            send_lag_ms=send_lag,
            loop_lag_ms=of_ns(samples.loop_lag_ns),
            read_lag_ms=of_ns(samples.read_lag_ns),
            coalesced_share=coalesced_share,
            cpu_s=samples.cpu_s,
            grade=verdict,
            reasons=reasons,
        ),
        tokens_from="mixed" if len(sources) > 1 else TokenSource(sources[0]).label if sources else None,
        notes=(
            *notes,
            *_replaced(samples),
            *(f"the figures contradict each other: {violation}" for violation in violations),
        ),
        environment=dict(environment),
        simulated=simulated,
    )


def _replaced(samples: ClientSamples) -> tuple[str, ...]:
    """Return the sentence about kept connections that the server had closed, when there were any."""
    if not samples.replaced:
        return ()
    one = samples.replaced == 1
    what = "kept connection was" if one else "kept connections were"
    return (f"{samples.replaced:,} {what} closed by the server and replaced; TTFT counts from the replacement.",)


def nested(flat: Mapping[str, object]) -> dict[str, Any]:
    """Return `{"load.rate": 4, "name": "x"}` as `{"load": {"rate": 4}, "name": "x"}`: the config as its file has it."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        section, dot, name = key.partition(".")
        if dot:
            tree.setdefault(section, {})[name] = value
        else:
            tree[key] = value
    return tree


def flat(config: Mapping[str, Any]) -> dict[str, object]:
    """Return what `nested` was made from."""
    return {
        f"{name}.{key}" if isinstance(part, Mapping) else name: value
        for name, part in config.items()
        for key, value in (part.items() if isinstance(part, Mapping) else ((name, part),))
    }


def _outcomes(sessions: Sessions) -> dict[str, int]:
    """Return how many requests ended in each way; planned requests that the log does not know were dropped."""
    counts = np.bincount(sessions.outcome, minlength=len(Outcome))
    outcomes = {outcome.label: int(counts[outcome]) for outcome in Outcome}
    outcomes[Outcome.DROPPED.label] += max(sessions.planned - len(sessions.index), 0)
    return outcomes


def _metrics(config: Config, sessions: Sessions, requests: Requests, run: Span | None, *, closed_load: bool) -> Metrics:
    ok = requests.ok
    n_ok = int(ok.sum())
    told = (ok & requests.is_counted)[requests.owner]
    connected = ok & (sessions.connect_ns != UNKNOWN)
    samples = each_latency(sessions, requests, closed_load=closed_load)
    figures = {name: distribution(latency.values_ms) for name, latency in samples}
    total_in = _sum(np.where(sessions.input_len != UNKNOWN, sessions.input_len, sessions.prompt_tokens), ok)
    total_out = int(requests.total[ok].sum()) if n_ok else None
    all_out = int(requests.total.sum())
    cached = sessions.cached_tokens[ok & (sessions.cached_tokens != UNKNOWN)]
    flight = in_flight(sessions, requests, run.end_ns) if run else None
    held = steady.window(sessions, requests, flight, closed_load=closed_load) if run and flight and n_ok else None
    objectives = Objectives(config.slo.ttft_ms, config.slo.tpot_ms, config.slo.itl_ms, config.slo.e2e_ms)
    good = goodput(sessions, requests, objectives, run) if run else None
    return Metrics(
        duration_s=run.seconds if run else None,
        completed=n_ok,
        request_throughput=_per_second(n_ok or None, run),
        input_throughput=_per_second(total_in, run),
        output_throughput=_per_second(total_out, run),
        total_input_tokens=total_in,
        total_output_tokens=total_out,
        all_output_tokens=all_out,
        all_output_throughput=_per_second(all_out or None, run),
        peak_output_throughput=peak_output(sessions, requests, run) if run and all_out else None,
        peak_in_flight=flight.peak if flight else None,
        mean_in_flight=flight.mean(run.start_ns, run.end_ns) if run and flight else None,
        achieved_rate=None if closed_load else rate.rate_of(sessions.sent_ns[requests.sent]),
        asked_rate=_asked_rate(config, sessions),
        ttft_ms=figures["ttft_ms"],
        tpot_ms=figures["tpot_ms"],
        itl_ms=figures["itl_ms"],
        token_gap_ms=figures["token_gap_ms"],
        e2e_ms=figures["e2e_ms"],
        tokens_per_tick=distribution(requests.step[told].astype(np.float64)),
        queue_ms=figures.get("queue_ms", EMPTY),
        connect_ms=of_ns(sessions.connect_ns[connected]),
        ttft_from_due_ms=figures.get("ttft_from_due_ms", EMPTY),
        e2e_from_due_ms=figures.get("e2e_from_due_ms", EMPTY),
        asked_input_tokens=_sum(sessions.input_len, ok),
        server_input_tokens=_sum(sessions.prompt_tokens, ok),
        cached_tokens=int(cached.sum()) if len(cached) else None,
        goodput=good[0] if good else None,
        goodput_share=good[1] if good else None,
        cancel=cancel(sessions, requests, figures),
        steady=steady.steady(sessions, requests, run, held) if run and held else None,
    )


def _per_second(amount: int | None, run: Span | None) -> Number:
    return None if amount is None or run is None else amount / run.seconds


def _sum(counts: NDArray[np.int64], ok: NDArray[np.bool_]) -> int | None:
    """Return the sum over the `ok` requests; None when there is none, or one whose count is not known."""
    of_ok = counts[ok]
    return int(of_ok.sum()) if len(of_ok) and (of_ok != UNKNOWN).all() else None


def _shares_prefixes(config: Config) -> bool:
    """Return whether prompts begin alike on purpose: a trace's do as they were recorded."""
    return config.dataset.prefix_len > 0 or config.dataset.kind == "trace"


def _cached_share(sessions: Sessions, requests: Requests) -> float | None:
    told = requests.ok & (sessions.cached_tokens != UNKNOWN) & (sessions.prompt_tokens > 0)
    prompts = int(sessions.prompt_tokens[told].sum())
    return int(sessions.cached_tokens[told].sum()) / prompts if prompts else None


def _asked_rate(config: Config, sessions: Sessions) -> float | Literal["inf"] | None:
    """Return the rate that was asked for: the config's, or the trace's own; None for a closed load."""
    if config.load.mode == "trace":
        return rate.rate_of(sessions.due_ns[sessions.due_ns != UNKNOWN])
    if config.load.mode == "closed":
        return None
    return "inf" if math.isinf(config.load.rate) else float(config.load.rate)


def _source_word(source: int) -> str:
    return TokenSource(source).label or "none"
