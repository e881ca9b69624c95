"""Shows a plan: as the JSON object and as the text of `lmtui plan`."""

from __future__ import annotations

import itertools
import textwrap
import unicodedata
from collections.abc import Sequence

from lmtui.workload.plan import Plan, PlannedRequest

_HEAD, _TAIL = 8, 3
_BINS, _BAR_WIDTH = 8, 40


def plan_object(plan: Plan) -> dict[str, object]:
    """Return what `lmtui plan --json` prints.

    `requests`: one object each; `messages`, `model`, `cancel_after_s` and `cancel_before_token` only where they are
    set. `totals`: requests, input_len (null when one is not known), output_len, cancelled (picked by the plan), raised
    (output lengths of 0 that became 1), duration_s (the last due time; null when nothing is scheduled).
    `dropped`: what each filter dropped. `warmup`: how many requests warm up. `notes`: sentences.
    """
    return {
        "requests": [_request_object(request) for request in plan.requests],
        "totals": _totals(plan),
        "dropped": dict(plan.dropped),
        "warmup": len(plan.warmup),
        "notes": list(plan.notes),
    }


def _request_object(request: PlannedRequest) -> dict[str, object]:
    shown: dict[str, object] = {
        "index": request.index,
        "prompt": request.prompt,
        "token_ids": None if request.token_ids is None else request.token_ids.tolist(),
        "input_len": request.input_len,
        "output_len": request.output_len,
        "due_s": request.due_s,
        "cancel_after": request.cancel_after,
    }
    if request.messages is not None:
        shown["messages"] = list(request.messages)
    if request.model is not None:
        shown["model"] = request.model
    if request.cancel_after_s is not None:
        shown["cancel_after_s"] = request.cancel_after_s
        shown["cancel_before_token"] = request.cancel_before_token
    return shown


def _totals(plan: Plan) -> dict[str, int | float | None]:
    inputs = [request.input_len for request in plan.requests]
    known = [length for length in inputs if length is not None]
    due = [request.due_s for request in plan.requests if request.due_s is not None]
    return {
        "requests": len(plan.requests),
        "input_len": sum(known) if len(known) == len(inputs) else None,
        "output_len": sum(request.output_len for request in plan.requests),
        "cancelled": sum(request.is_cancel_planned for request in plan.requests),
        "raised": plan.raised,
        "duration_s": max(due) if due else None,
    }


def plan_text(plan: Plan, width: int) -> str:
    """Return the plan as text of at most `width` columns (40 at least): first and last requests, totals, lengths."""
    width = max(width, 40)
    totals = _totals(plan)
    parts = [_table(plan, width), _sums(totals, len(plan.warmup))]
    known = [request.input_len for request in plan.requests if request.input_len is not None]
    parts += [_histogram("input length", known, width)] if known else []
    parts.append(_histogram("output length", [request.output_len for request in plan.requests], width))
    if any(plan.dropped.values()):
        lines = [f"  {count:>8,}  {why}" for why, count in plan.dropped.items() if count]
        parts.append("dropped\n" + "\n".join(line[:width] for line in lines))
    parts += ["\n".join(textwrap.wrap(f"note: {note}", width, subsequent_indent="      ")) for note in plan.notes]
    return "\n\n".join(parts)


def _sums(totals: dict[str, int | float | None], warmup: int) -> str:
    duration_s = totals["duration_s"]
    rows = [
        ("requests", totals["requests"]),
        ("warm-up requests", warmup),
        ("input tokens", totals["input_len"]),
        ("output tokens", totals["output_len"]),
        ("cancels planned", totals["cancelled"]),
        ("raised from 0", totals["raised"]),
    ]
    lines = [f"{name:<17} {'–' if value is None else format(value, ',')}" for name, value in rows]
    lines.append(f"{'last due':<17} {'–' if duration_s is None else f'{duration_s:,.3f} s'}")
    return "\n".join(lines)


def _table(plan: Plan, width: int) -> str:
    lines = [f"{'#':>6} {'input':>7} {'output':>7} {'due s':>9} {'cut':>8}  prompt"[:width]]
    requests = plan.requests
    if len(requests) <= _HEAD + _TAIL:
        lines += [_row(request, width) for request in requests]
    else:
        lines += [_row(request, width) for request in requests[:_HEAD]]
        lines.append(f"{'…':>6}")
        lines += [_row(request, width) for request in requests[-_TAIL:]]
    return "\n".join(lines)


def _row(request: PlannedRequest, width: int) -> str:
    due = "–" if request.due_s is None else f"{request.due_s:.3f}"
    cut = "–"
    if request.cancel_after is not None:
        cut = f">{request.cancel_after}"
    elif request.cancel_after_s is not None:
        cut = f"{request.cancel_after_s:.2f}s"
    length = "–" if request.input_len is None else str(request.input_len)
    numbers = f"{request.index:>6} {length:>7} {request.output_len:>7} {due:>9} {cut:>8}  "
    # What a terminal would obey, or show as nothing, is not shown.
    prompt = "".join(char if char.isprintable() else " " for char in request.prompt[: 4 * width])
    prompt = " ".join(prompt.split())
    room = width - len(numbers)
    if room <= 0:
        return numbers[:width].rstrip()
    return (numbers + _clipped(prompt, room)).rstrip()


def _clipped(text: str, room: int) -> str:
    """Cut a line to `room` columns of a terminal, where East Asian wide characters take two."""
    taken, fits = 0, 0
    for char in text:
        taken += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if taken > room:
            return text[:fits] + "…"
        fits += taken < room  # one column is kept for the mark
    return text


def _histogram(name: str, lengths: Sequence[int], width: int) -> str:
    low, high = min(lengths), max(lengths)
    mean = sum(lengths) / len(lengths)
    title = f"{name}: {low:,} to {high:,}, mean {mean:,.1f}"
    if low == high:
        return f"{name}: {low:,} each"
    bins = min(_BINS, high - low + 1)
    edges = [low + (high - low + 1) * index // bins for index in range(bins + 1)]
    counts = [0] * bins
    for length in lengths:
        counts[(length - low) * bins // (high - low + 1)] += 1
    spans = itertools.pairwise(edges)
    labels = [f"{begin:,}–{end - 1:,}" if end - begin > 1 else f"{begin:,}" for begin, end in spans]
    label_width = max(map(len, labels))
    bar_width = max(min(_BAR_WIDTH, width - label_width - 12), 4)
    most = max(counts)
    lines = [
        f"  {label:>{label_width}} {'█' * -(-count * bar_width // most):<{bar_width}} {count:,}".rstrip()
        for label, count in zip(labels, counts, strict=True)
    ]
    return "\n".join([title, *lines])
