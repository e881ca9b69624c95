"""A run as a report in Markdown: grade, figures, latencies, config, machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmtui.config.declared import DECLARED
from lmtui.metrics.result import Distribution, Result
from lmtui.metrics.table import MISSING, UNRESOLVED, number, plain, share, whole
from lmtui.results.columns import cell
from lmtui.results.figures import FIGURES

_CUTS = (
    ("mean", "mean"),
    ("min", "min"),
    ("p50", "P50"),
    ("p90", "P90"),
    ("p95", "P95"),
    ("p99", "P99"),
    ("p99_9", "P99.9"),
    ("max", "max"),
)
_LATENCIES = (
    ("TTFT ms", "ttft_ms"),
    ("TPOT ms", "tpot_ms"),
    ("ITL ms", "itl_ms"),
    ("token gap ms", "token_gap_ms"),
    ("E2E ms", "e2e_ms"),
    ("tokens per tick", "tokens_per_tick"),
    ("queue ms", "queue_ms"),
    ("TTFT from due ms", "ttft_from_due_ms"),
    ("E2E from due ms", "e2e_from_due_ms"),
    ("connect ms", "connect_ms"),
)
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def report(result: Result) -> str:
    """Return the report. Text of others (names, messages) is escaped; missing is `–`."""
    parts = (_head, _figures, _latencies, _outcomes, _cancel, _steady, _config, _environment, _notes)
    blocks = ["\n".join(lines) for part in parts if (lines := list(part(result)))]
    return "\n\n".join(blocks) + "\n"


def _head(result: Result) -> Iterator[str]:
    yield f"# {_text(result.name)}{' (SIMULATED)' if result.simulated else ''}"
    yield ""
    if result.simulated:
        yield from ("A model of an engine answered: the figures say nothing about a real engine or machine.", "")
    target = [result.target.get(key) for key in ("kind", "model", "base_url")]
    facts = [
        ("run", result.run_id),
        ("started", result.started_at),
        ("phase", result.phase),
        ("target", ", ".join(str(part) for part in dict.fromkeys(target) if part)),
        ("grade", result.client.grade),
        *(("reason", reason) for reason in result.client.reasons),
        ("tokens from", result.tokens_from or MISSING),
        ("clock", result.client.clock),
    ]
    yield from _table(("", ""), [(f"**{_text(name)}**", _text(value)) for name, value in facts])


def _figures(result: Result) -> Iterator[str]:
    m = result.metrics
    rows = [
        ("duration s", number(m.duration_s)),
        *(
            (figure.label, share(value) if figure.column.endswith("_share") else number(value))
            for figure in FIGURES
            if figure.group == "Throughput" and (value := getattr(m, figure.column)) is not None
        ),
        ("input tokens", whole(m.total_input_tokens)),
        ("output tokens", whole(m.total_output_tokens)),
        ("mean in flight", number(m.mean_in_flight)),
        ("peak in flight", whole(m.peak_in_flight)),
    ]
    yield from ("## Figures", "")
    yield from _table(("figure", "value"), rows, numbers=True)


def _latencies(result: Result) -> Iterator[str]:
    rows = [(words, getattr(result.metrics, name)) for words, name in _LATENCIES]
    yield from _distributions("Latencies", rows)


def _distributions(title: str, rows: Sequence[tuple[str, Distribution]]) -> Iterator[str]:
    measured = [(words, of) for words, of in rows if of.n]
    yield from (f"## {title}", "")
    if not measured:
        yield "None: no request was ok."
        return
    headings = ("", *(words for _, words in _CUTS), "n")
    yield from _table(headings, [(words, *_cuts(of), whole(of.n)) for words, of in measured], numbers=True)
    if any(name in of.unresolved for _, of in measured for name, _ in _CUTS):
        yield from ("", f"\\{UNRESOLVED} the sample is too small to resolve this percentile.")


def _cuts(of: Distribution) -> list[str]:
    return [(f"\\{UNRESOLVED}" if name in of.unresolved else "") + number(getattr(of, name)) for name, _ in _CUTS]


def _outcomes(result: Result) -> Iterator[str]:
    yield from ("## Outcomes", "")
    counted = [(outcome, whole(count)) for outcome, count in result.outcomes.items() if count or outcome == "ok"]
    yield from _table(("outcome", "requests"), [(_text(outcome), count) for outcome, count in counted], numbers=True)
    if result.errors:
        yield ""
        rows = [(_text(group.outcome), whole(group.count), _text(group.message)) for group in result.errors]
        yield from _table(("failure", "requests", "for example"), rows)


def _cancel(result: Result) -> Iterator[str]:
    c = result.metrics.cancel
    if c is None:
        return
    yield from ("## Cancel", "")
    yield f"{c.planned:,} planned, {c.done:,} done, {c.missed:,} missed (finished first)."
    yield f"{c.wasted_tokens:,} tokens were wasted ({share(c.wasted_share)} of all)."
    yield ""
    s = c.survivors
    yield from _distributions(
        "Cancel: times and survivors",
        [
            ("tokens at cancel", c.tokens_at_cancel),
            ("let go ms", c.let_go_ms),
            ("survivors' TTFT ms", s.ttft_ms),
            ("survivors' TPOT ms", s.tpot_ms),
            ("survivors' ITL ms", s.itl_ms),
            ("survivors' E2E ms", s.e2e_ms),
        ],
    )


def _steady(result: Result) -> Iterator[str]:
    s = result.metrics.steady
    if s is None:
        return
    yield from _distributions("Steady window", [("TTFT ms", s.ttft_ms), ("ITL ms", s.itl_ms)])
    yield ""
    yield (
        f"{number(s.start_s)} to {number(s.end_s)} s: {number(s.output_throughput)} output tok/s, "
        f"{number(s.request_throughput)} requests/s."
    )


def _config(result: Result) -> Iterator[str]:
    yield from ("## Config", "")
    flat = dict(_flat(result.config))
    defaults = {declared.key: declared.default for declared in DECLARED}
    changed = {key: value for key, value in flat.items() if key not in defaults or not _is_same(value, defaults[key])}
    yield from _table(("key", "value"), [(f"`{key}`", _text(cell(value))) for key, value in changed.items()])
    yield from ("", "Every other key has its default.")


def _is_same(value: object, default: object) -> bool:
    return value == default or cell(value) == cell(default)  # an infinite rate is "inf" in a result


def _environment(result: Result) -> Iterator[str]:
    rows = [*_flat(result.environment), *_flat(result.target.get("versions") or {}, "target.versions.")]
    if rows:
        yield from ("## Machine and versions", "")
        yield from _table(("", ""), [(_text(key), _text(cell(value))) for key, value in rows])


def _notes(result: Result) -> Iterator[str]:
    if result.notes:
        yield from ("## Notes", "", *(f"- {_text(note)}" for note in result.notes))


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> Iterator[str]:
    """Yield a table; with `numbers` all columns but the first stand to the right."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join('---:' if numbers and place else '---' for place in range(len(headings)))}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _text(text: str) -> str:
    """Return text of others as Markdown that shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", plain(text))
