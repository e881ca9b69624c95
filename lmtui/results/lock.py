"""One writer at a time for a file that several processes append to."""

from __future__ import annotations

import contextlib
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
        raise _refused(lock, error) from error
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
            raise _refused(lock, error) from error
        else:
            return True


@contextmanager
def _exclusive_file(held: Path) -> Iterator[None]:
    give_up_at = time.monotonic() + WAIT_S
    seen: tuple[int, int] | None = None
    seen_at = time.monotonic()
    while not (mine := _made(held)):
        now = time.monotonic()
        if now > give_up_at:
            raise _kept(held)
        if (found := _identity(held)) != seen:
            seen, seen_at = found, now
        elif seen is not None and now - seen_at > ABANDONED_S:
            _remove(held, seen)
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        _remove(held, mine)


def _made(path: Path) -> tuple[int, int] | None:
    """Make a file, and return its identity; None when it is there already."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    except OSError as error:
        raise _refused(path, error) from error
    os.close(descriptor)
    return _identity(path) or (0, 0)


def _remove(held: Path, identity: tuple[int, int]) -> None:
    """Remove a lock file that is still the one that `identity` says, and not that of whoever came since."""
    if _identity(held) != identity:
        return
    aside = held.with_name(f"{held.name}-{os.getpid()}")
    try:
        held.rename(aside)
    except FileNotFoundError:
        return
    if _identity(aside) != identity:  # replaced between the look and the rename: given back
        with contextlib.suppress(OSError):
            os.link(aside, held)
    aside.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _refused(lock: Path, error: OSError) -> LmtuiError:
    return LmtuiError(f"{lock}: cannot be made: {error.strerror}. Make its folder writable")


def _kept(lock: Path) -> LmtuiError:
    return LmtuiError(
        f"{lock}: another process has held it for {WAIT_S:g} s. End that process (or remove the file), and try again"
    )
