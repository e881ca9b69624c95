"""What guided decoding costs: the latencies per token of a guided run beside those of the same plan unguided."""

from __future__ import annotations

from lmtui.metrics.result import Number, Result

MISSING = "no figure"


def guided_cost(baseline: Result, guided: Result) -> str:
    """Return the lines that tell the per-token overhead. Other figures depend on how long the outputs became."""
    before, after = baseline.metrics, guided.metrics
    return "\n".join(
        (
            "What guided decoding costs per token (other figures depend on the lengths of the outputs):",
            f"  TPOT mean  {_change(before.tpot_ms.mean, after.tpot_ms.mean)}",
            f"  ITL mean   {_change(before.itl_ms.mean, after.itl_ms.mean)}",
        )
    )


def _change(before: Number, after: Number) -> str:
    if before is None or after is None:
        return MISSING
    overhead = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{before:.3f} ms without, {after:.3f} ms with{overhead}"
