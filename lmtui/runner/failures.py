"""Failed requests of all load workers: counted in memory that they share, so that a limit holds for the sum."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile

_BYTES_EACH = 8


class Failures:
    """One count for each worker, which alone writes it; so nobody waits for a lock, and everybody sees the sum."""

    def __init__(self, fd: int) -> None:
        """Count in the memory behind `fd`, which stays open as long as the process."""
        self.fd = fd
        self._memory = mmap.mmap(fd, 0)

    @classmethod
    def of(cls, workers: int) -> Failures:
        """Return the counts of so many workers, all 0."""
        if sys.platform == "linux":
            fd = os.memfd_create("lmtui-failures")
        else:
            fd, path = tempfile.mkstemp()
            os.unlink(path)
        os.write(fd, bytes(_BYTES_EACH * workers))
        return cls(fd)

    def total(self) -> int:
        """Return the sum."""
        with memoryview(self._memory) as whole, whole.cast("q") as counts:
            return sum(counts)

    def tell(self, worker: int, failed: int) -> int:
        """Put down how many requests of a worker have failed, and return the sum."""
        with memoryview(self._memory) as whole, whole.cast("q") as counts:
            counts[worker] = failed
        return self.total()
