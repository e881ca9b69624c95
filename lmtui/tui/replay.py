"""A run that is over, played again: its tick log folded up to any moment, and a clock that pauses, speeds up and jumps.

A moment is as fine as the log's batches: about 0.2 s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import msgspec

from lmtui.charts.ticks import clock
from lmtui.metrics.live import LiveFold
from lmtui.runner.rundir import Status
from lmtui.runner.ticklog import Frame, Kind, decode
from lmtui.tui.feed import apply, view_of
from lmtui.tui.live_view import LiveView

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_STAMPS = {Kind.SENT: "sent_ns", Kind.TICKS: "at_ns", Kind.END: "end_ns"}


class Player:
    """Where a replay is: between 0 and its length, in seconds of the run."""

    def __init__(self, length_s: float, now_s: Callable[[], float]) -> None:
        """`now_s`: seconds of a clock that only goes on."""
        self.length_s = length_s
        self._now_s = now_s
        self._speed = SPEEDS.index(1.0)
        self._position_s = 0.0
        self._since_s: float | None = None

    @property
    def position_s(self) -> float:
        """Where it is now; at the end it stops."""
        if self._since_s is not None:
            now_s = self._now_s()
            self._position_s = min(self._position_s + (now_s - self._since_s) * self.speed, self.length_s)
            self._since_s = now_s if self._position_s < self.length_s else None
        return self._position_s

    @property
    def speed(self) -> float:
        """How many seconds of the run go by in one."""
        return SPEEDS[self._speed]

    @property
    def is_playing(self) -> bool:
        """Whether it goes on by itself."""
        return self.position_s < self.length_s and self._since_s is not None

    def toggle(self) -> None:
        """Play, or pause; at the end it begins anew."""
        if self.is_playing:
            self._since_s = None
            return
        if self._position_s >= self.length_s:
            self._position_s = 0.0
        self._since_s = self._now_s()

    def seek(self, by_s: float) -> None:
        """Go back or on; it plays or pauses as before."""
        was_playing = self.is_playing
        self._position_s = max(0.0, min(self.position_s + by_s, self.length_s))
        self._since_s = self._now_s() if was_playing else None

    def change_speed(self, step: int) -> None:
        """Take the next faster (1) or slower (-1) speed."""
        self._position_s = self.position_s
        self._speed = max(0, min(self._speed + step, len(SPEEDS) - 1))


def words(player: Player) -> str:
    """Return how a replay stands: `replay playing 2×  0:12 of 0:30`."""
    state = "playing" if player.is_playing else "paused"
    return f"replay {state} {player.speed:g}×  {clock(player.position_s)} of {clock(player.length_s)}"


class Recording:
    """The tick logs of a run, to look at up to any moment. Blocking: to be used off the screen's loop."""

    def __init__(self, folder: Path, status: Status) -> None:
        """Read the logs of the run directory `folder`."""
        self._over = status
        self._running = msgspec.structs.replace(status, phase="running")
        stamped: list[tuple[int, Frame]] = []
        starts_ns: list[int] = []
        for path in sorted(folder.glob("ticks-*.bin")):
            newest_ns = 0
            for frame in decode(path.read_bytes())[0]:
                newest_ns = max(newest_ns, _newest(frame))  # no frame before one that its worker wrote earlier
                stamped.append((newest_ns, frame))
                if frame.kind is Kind.JSON and frame.data.get("what") == "start":
                    starts_ns.append(int(frame.data["start_ns"]))
        stamped.sort(key=lambda one: one[0])
        start_ns = min(starts_ns, default=next((at for at, _ in stamped if at), 0))
        self._frames = [frame for _, frame in stamped]
        self._times_s = [max(at - start_ns, 0) / 1e9 for at, _ in stamped]
        self._fold = LiveFold(status.counts.planned)
        self._folded = 0

    @property
    def length_s(self) -> float:
        """When the last thing came, in seconds after the start; 0 when there is nothing."""
        return max(self._times_s, default=0.0)

    def view(self, at_s: float) -> LiveView:
        """Return the run as it stood `at_s` seconds after its start."""
        end = bisect_right(self._times_s, at_s)
        if end < self._folded:
            self._fold, self._folded = LiveFold(self._over.counts.planned), 0
        for frame in self._frames[self._folded : end]:
            apply(self._fold, frame)
        self._folded = end
        return view_of(self._over if end == len(self._frames) else self._running, self._fold.snapshot())


def _newest(frame: Frame) -> int:
    """Return the newest stamp in a frame; 0 of one without any."""
    name = _STAMPS.get(frame.kind)
    return int(frame.columns[name].max(initial=0)) if name is not None else 0
