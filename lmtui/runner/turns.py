"""Whose turn it is: the workers of a closed load take the plan's requests one by one, as a single worker would.

With a part of the plan for each, one worker would run out of requests before the others: the load would thin out
early, and its throughput would be the division's (1 % less on ShareGPT's lengths with five workers), not the server's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
from array import array

_PLACE = struct.Struct("=I")
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl does not name everywhere


class Turns:
    """The places 0, 1, 2, ... of a plan in a pipe: each is read by exactly one worker, and its end is the plan's."""

    def __init__(self) -> None:
        """Make the pipe; workers inherit `fd`, from which they `take`."""
        self.fd, self._end = os.pipe()

    def fill(self, requests: int) -> bool:
        """Put the places of so many requests there; whether there was room for all."""
        places = array("I", range(requests)).tobytes()
        os.set_blocking(self._end, False)
        with contextlib.suppress(OSError):  # it keeps its size, which may do
            if sys.platform == "linux":
                fcntl.fcntl(self._end, _SET_PIPE_SIZE, max(len(places), os.sysconf("SC_PAGE_SIZE")))
        try:
            return os.write(self._end, places) == len(places)
        except OSError:
            return False

    def close(self) -> None:
        """Close this process's ends, after which the places come to an end."""
        os.close(self._end)
        os.close(self.fd)


def take(fd: int) -> int | None:
    """Return the place of the next request; None when all are taken."""
    data = os.read(fd, _PLACE.size)
    place: int | None = _PLACE.unpack(data)[0] if data else None
    return place
