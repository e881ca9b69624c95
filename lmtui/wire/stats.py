"""What the wire noticed about itself while it measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True, eq=False)
class WireStats:
    """Counts of one client, from its start or the last `restart`.

    Attributes:
        read_lag_ns: How long bytes lay in the kernel before the read, one entry a read; emptied by `drain_read_lags`.
        user_stamps: Reads whose arrival the kernel did not tell, which were stamped when they returned.
        events: Events that carried output. coalesced: those that shared a stamp because their read came over 1 ms late.
        clock_steps: Jumps of the wall clock of over 1 ms.
        opened: Connections opened. replaced: kept connections that the server had closed, replaced within a request.
    """

    read_lag_ns: list[int] = field(default_factory=list)
    user_stamps: int = 0
    events: int = 0
    coalesced: int = 0
    clock_steps: int = 0
    opened: int = 0
    replaced: int = 0

    @property
    def clock(self) -> Literal["kernel", "user"]:
        """Who stamped the reads: "kernel" when it told the arrival of every one so far, else "user"."""
        return "user" if self.user_stamps else "kernel"

    def restart(self) -> None:
        """Forget what was counted: what follows is measured, what came before (the warm-up) was not."""
        self.read_lag_ns.clear()  # in place: every connection appends to this list
        self.user_stamps = self.events = self.coalesced = self.clock_steps = self.opened = self.replaced = 0

    def drain_read_lags(self) -> list[int]:
        """Return the samples since the last call and forget them."""
        samples, self.read_lag_ns[:] = self.read_lag_ns[:], []
        return samples
