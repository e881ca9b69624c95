"""What load workers share, so that several send as one would: turns of a closed load, places in flight of an open one.

With a part of the plan for each, one worker would run out of requests before the others: the load would thin out
early, and its throughput would be the division's (1 % less on ShareGPT's lengths with five workers), not the server's.
With a part of the places in flight for each, one would hold a request back while another has a place free.

Both are bytes in a pipe, of which each is read by exactly one worker, whoever comes first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
from array import array

_PLAN_PLACE = struct.Struct("=I")
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl does not name everywhere


class SharedPipe:
    """A pipe that workers inherit, to be filled once it is known with what.

    Attributes:
        fd, end: Where they read, and where they write.
    """

    def __init__(self) -> None:
        self.fd, self.end = os.pipe()

    def fill_turns(self, requests: int) -> bool:
        """Put the places 0, 1, 2, ... of a plan there, for `take_turn`; whether there was room for all."""
        return self._fill(array("I", range(requests)).tobytes())

    def fill_places(self, places: int) -> bool:
        """Put so many places in flight there, for `take_place` and `give_place`; whether there was room for all."""
        return self._fill(bytes(places))

    def _fill(self, data: bytes) -> bool:
        for fd in (self.fd, self.end):
            os.set_blocking(fd, False)
        with contextlib.suppress(OSError):  # it keeps its size, which may do
            if sys.platform == "linux":
                fcntl.fcntl(self.end, _SET_PIPE_SIZE, max(len(data), os.sysconf("SC_PAGE_SIZE")))
        try:
            return os.write(self.end, data) == len(data)
        except OSError:
            return False

    def close(self) -> None:
        """Close this process's ends."""
        os.close(self.end)
        os.close(self.fd)


def take_turn(fd: int) -> int | None:
    """Return the place of the next request in the plan; None when all are taken."""
    try:
        place: int = _PLAN_PLACE.unpack(os.read(fd, _PLAN_PLACE.size))[0]
    except BlockingIOError:
        return None
    return place


def take_place(fd: int) -> bool:
    """Take a place in flight; whether there was one."""
    try:
        return bool(os.read(fd, 1))
    except BlockingIOError:
        return False


def give_place(end: int) -> None:
    """Give a place in flight back."""
    os.write(end, b"\0")
