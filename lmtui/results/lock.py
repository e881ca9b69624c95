"""One writer at a time for a file that several processes append to."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmtui.errors import LmtuiError

WAIT_S = 60.0
"""How long a writer waits for the lock before it gives up; a write takes milliseconds."""
ABANDONED_S = 20.0
"""An exclusive lock file that did not change for this long while a writer waited was left by one that is gone."""
_POLL_S = 0.02
_NO_FLOCK = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path`: flock on `<path>.lock`, else (a file system without it) the file `<path>.lock-held`.

    Raises:
        LmtuiError: The lock file cannot be made, or another process kept it for a minute.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LmtuiError(f"{lock}: cannot be made: {error.strerror}. Make its folder writable") from error
    try:
        if _flock(descriptor, lock):
            yield
        else:
            with _exclusive_file(path.with_name(path.name + ".lock-held")):
                yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, lock: Path) -> bool:
    """Take the lock; False when the file system has none."""
    give_up_at = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up_at:
                raise _kept(lock) from None
            time.sleep(_POLL_S)
        except OSError as error:
            if error.errno in _NO_FLOCK:
                return False
            raise
        else:
            return True


@contextmanager
def _exclusive_file(held: Path) -> Iterator[None]:
    give_up_at = time.monotonic() + WAIT_S
    seen: tuple[int, int] | None = None
    seen_at = time.monotonic()
    while True:
        try:
            os.close(os.open(held, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            now = time.monotonic()
            if now > give_up_at:
                raise _kept(held) from None
            identity = _identity(held)
            if identity != seen:
                seen, seen_at = identity, now
            elif seen is not None and now - seen_at > ABANDONED_S:
                held.unlink(missing_ok=True)
            time.sleep(_POLL_S)
    try:
        yield
    finally:
        held.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _kept(lock: Path) -> LmtuiError:
    return LmtuiError(
        f"{lock}: another process has held it for {WAIT_S:g} s. End that process (or remove the file), and try again"
    )
