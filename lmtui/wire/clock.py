"""From the kernel's wall clock stamps to the monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

BRACKETS = 7
STEP_NS = 1_000_000


class KernelClock:
    """The offset between the two clocks, from the tightest of several monotonic/wall/monotonic brackets.

    Both clocks are slewed alike, so that the offset changes only when somebody sets the wall clock.

    Attributes:
        offset_ns: Added to a wall clock stamp it gives the monotonic one.
        steps: How often the wall clock was set by over 1 ms.
    """

    __slots__ = ("_monotonic_ns", "_wall_ns", "offset_ns", "steps")

    def __init__(
        self, monotonic_clock: Callable[[], int] = monotonic_ns, wall_clock: Callable[[], int] = time_ns
    ) -> None:
        self._monotonic_ns, self._wall_ns = monotonic_clock, wall_clock
        self.steps = 0
        self.offset_ns, _ = self._measure()

    def refresh(self) -> None:
        """Measure the offset again. Called away from the reads, at least every 100 ms while requests are in flight."""
        offset_ns, width_ns = self._measure()
        change_ns = abs(offset_ns - self.offset_ns)
        if change_ns > STEP_NS + width_ns:
            self.steps += 1
        elif change_ns < width_ns:
            return  # The bracket is too wide, on a busy core, to know better.
        self.offset_ns = offset_ns

    def _measure(self) -> tuple[int, int]:
        """Return the offset and the width of the bracket it came from."""
        best_ns, width_ns = 0, -1
        for _ in range(BRACKETS):
            before_ns = self._monotonic_ns()
            wall_ns = self._wall_ns()
            after_ns = self._monotonic_ns()
            if width_ns < 0 or after_ns - before_ns < width_ns:
                width_ns = after_ns - before_ns
                best_ns = (before_ns + after_ns) // 2 - wall_ns
        return best_ns, width_ns
