"""Axis marks and the words beside them: 1-2-5 steps, decades, times, and numbers short enough for a cell or two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

MISSING = "–"
"""What stands where a number does not exist."""

_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_CEILINGS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_WINDOWS = (5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` multiples of 1, 2 or 5 times a power of ten inside [low, high]; [] when there are none."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low or most < 1:
        return []
    span = high / most - low / most
    if not 1e-200 < span < 1e300 or span < max(abs(low), abs(high)) * 1e-9:
        return []
    power = math.floor(math.log10(span))
    for factor in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
        step = factor * 10.0**power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [k * step for k in range(first, last + 1)]
    return []


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` powers of ten inside [low, high]; with 2 and 5 between them where these fit too."""
    if not (math.isfinite(low) and math.isfinite(high)) or low <= 0 or high <= low or most < 1:
        return []
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**k for k in range(first, min(last, 308) + 1)]
    for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        fine = [d * f for d in decades for f in factors if low * (1 - 1e-9) <= d * f <= high * (1 + 1e-9)]
        if len(fine) <= most:
            return fine
    stride = math.ceil(len(fine) / most)
    return fine[::stride]


def time_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` round times (seconds, minutes, hours, days) inside [low, high]."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low or most < 1:
        return []
    for step in _TIME_STEPS:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [float(k * step) for k in range(first, last + 1)]
    return [t * 86400.0 for t in linear_ticks(low / 86400, high / 86400, most)]


def ceiling(value: float) -> float:
    """Return a round number that is not below `value`; 1.0 for what is not a positive finite number."""
    if not math.isfinite(value) or value <= 0:
        return 1.0
    power = 10.0 ** max(math.floor(math.log10(value)), -300)
    return next((f * power for f in _CEILINGS if value <= f * power * (1 + 1e-12)), 10.0 * power)


def window(seconds: float) -> float:
    """Return the length of the time axis that shows `seconds` of a run. It grows in steps, so that most cells stay."""
    for length in _WINDOWS:
        if seconds <= length:
            return float(length)
    return 86400.0 * 2 ** math.ceil(math.log2(seconds / 86400)) if math.isfinite(seconds) else 86400.0


def short(value: float | None, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits and a suffix (`12.3k`); MISSING when it does not exist."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    power = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if power < -4 or power >= 3 * len(_SUFFIXES):
        return f"{value:.{max(digits - 2, 0)}e}"
    group = max(power, 0) // 3
    decimals = max(digits - 1 - (power - 3 * group), 0)
    return f"{value / 1000.0**group:.{min(decimals, 4)}f}{_SUFFIXES[group]}"


def milliseconds(value: float | None) -> str:
    """Return a time in ms with about three digits, whole from 100 on (`0.42`, `12.3`, `3520`); `1.2e6` is `1200k`."""
    if value is None or not math.isfinite(value):
        return MISSING
    if abs(value) >= 99.95:
        return f"{value:.0f}" if abs(value) < 99_999.5 else f"{value / 1000:.0f}k" if abs(value) < 1e9 else short(value)
    return short(value)


def labels(ticks: Sequence[float]) -> list[str]:
    """Return the words beside evenly spaced ticks: one suffix for all, no more decimals than their step needs."""
    if not ticks:
        return []
    largest = max(abs(t) for t in ticks)
    if largest == 0 or largest < 1e-4 or largest >= 1e21:
        return [f"{t:.1g}" if t else "0" for t in ticks]
    group = min(max(math.floor(math.log10(largest) + 1e-9), 0) // 3, len(_SUFFIXES) - 1)
    scale = 1000.0**group
    step = min((abs(b - a) for a, b in itertools.pairwise(ticks)), default=largest) / scale
    decimals = max(-math.floor(math.log10(step) + 1e-9), 0) if step > 0 else 0
    return [f"{t / scale:.{decimals}f}{_SUFFIXES[group]}" if t else "0" for t in ticks]


def log_labels(ticks: Iterable[float]) -> list[str]:
    """Return the words beside ticks of a log axis, each with its own suffix."""
    return [short(t, 1) for t in ticks]


def clock(seconds: float | None) -> str:
    """Return a length of time as `0:07`, `12:34` or `1:02:03`; MISSING when it does not exist."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    whole = int(abs(seconds) + 1e-9)
    sign = "-" if seconds < 0 and whole else ""
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{sign}{hours}:{minutes:02}:{rest:02}" if hours else f"{sign}{minutes}:{rest:02}"
