"""When the requests of an open load are due: an absolute schedule, drawn before the start.

The first request is due at 0. Gap i lies between requests i and i + 1:

- poisson: exponential of mean 1/rate, as profile_restful_api draws its waits: same generator, after the dataset;
- constant: 1/rate;
- gamma: of shape b = burstiness and scale 1/(rate·b), as vLLM defines it: the mean is 1/rate, b = 1 is poisson, a
  smaller b is burstier, a larger one more even.

A ramp lets the rate rise linearly from 0 to `rate` over `ramp_s`, and stay. It is the same schedule in another time: a
request that would be due at s without the ramp is due at t, where the expected number of arrivals by t under the ramp
equals that by s without it. Up to t = ramp_s that is rate·t²/(2·ramp_s) = rate·s, hence t = √(2·ramp_s·s); afterwards
t = s + ramp_s/2. So half as many requests as the full rate would send are due within the ramp.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 16


def gaps(
    count: int, rate: float, arrival: str, burstiness: float, generator: np.random.RandomState
) -> NDArray[np.float64]:
    """Draw `count` gaps in seconds at a finite rate. One call of n draws what n calls of one draw."""
    if arrival == "constant":
        return np.full(count, 1.0 / rate)
    if arrival == "gamma":
        return generator.gamma(burstiness, 1.0 / (rate * burstiness), size=count)
    return generator.exponential(1.0 / rate, size=count)


def ramped(due_s: NDArray[np.float64], ramp_s: float) -> NDArray[np.float64]:
    """Move a schedule of full rate to one whose rate rises from 0 over `ramp_s` seconds."""
    if ramp_s == 0:
        return due_s
    return np.where(due_s <= ramp_s / 2, np.sqrt(2 * ramp_s * due_s), due_s + ramp_s / 2)


def schedule(
    count: int, rate: float, arrival: str, burstiness: float, ramp_s: float, generator: np.random.RandomState
) -> NDArray[np.float64]:
    """Return when each of `count` requests is due, in seconds after the start.

    Args:
        count: Requests, at least 1.
        rate: Requests per second; infinite: all are due at 0, and nothing is drawn.
        arrival: poisson, constant or gamma.
        burstiness: Shape of gamma.
        ramp_s: How long the rate takes to rise.
        generator: Draws the gaps.
    """
    if math.isinf(rate):
        return np.zeros(count)
    between = gaps(count - 1, rate, arrival, burstiness, generator)
    return ramped(np.concatenate(([0.0], np.cumsum(between))), ramp_s)


def skip(
    runs: int, count: int, rate: float, arrival: str, burstiness: float, ramp_s: float, generator: np.random.RandomState
) -> None:
    """Draw the gaps of earlier runs of `count` requests. LMDeploy's script waits after the last request too: `count`.

    The other arguments are those of `schedule`; at an infinite rate nothing is drawn.
    """
    if math.isfinite(rate):
        gaps(runs * count, rate, arrival, burstiness, generator)


def schedule_until(
    end_s: float, rate: float, arrival: str, burstiness: float, ramp_s: float, generator: np.random.RandomState
) -> NDArray[np.float64]:
    """Return when requests are due, for all that are due before `end_s`; at least the first. The rate is finite."""
    due = np.zeros(1)
    while ramped(due[-1:], ramp_s)[0] < end_s:
        between = gaps(_AT_ONCE, rate, arrival, burstiness, generator)
        due = np.concatenate((due, due[-1] + np.cumsum(between)))
    due = ramped(due, ramp_s)
    return due[due < end_s]
