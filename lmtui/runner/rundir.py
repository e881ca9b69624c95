"""The run directory: the interface between the process that measures and whoever watches."""

from __future__ import annotations

import calendar
import contextlib
import os
import re
import secrets
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lmtui import paths
from lmtui.errors import LmtuiError
from lmtui.runner import machine

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.metrics.result import Result

_T = TypeVar("_T")

LIVE_PHASES = ("queued", "loading", "warming", "running", "draining")
FINAL_PHASES = ("done", "stopped", "failed", "lost")
SILENT_S = 30.0
"""A run of another host is lost when its heartbeat is older than this."""
RESERVE_BYTES = 256 * 1024
"""More than the files that end a run take: a summary has up to 50 causes of 4,096 characters."""
SLUG_CHARS = 40
STAMP, STAMP_CHARS = "%Y%m%dT%H%M%SZ", 16
"""How a run_id begins: when the run was made, UTC."""


class Counts(msgspec.Struct, frozen=True):
    """Requests of a run so far. A request is `done` when it is over, however it ended."""

    planned: int = 0
    sent: int = 0
    done: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    in_flight: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What `status.json` holds.

    Attributes:
        run_id: The run's id. name: its config's.
        phase: One of `LIVE_PHASES` or `FINAL_PHASES`.
        pid: The run process; `pid_started` tells it from a later process of the same number (kernel ticks since boot).
        host, boot_id: Where it runs.
        heartbeat: When this was written, Unix seconds.
        started_at: When the run began, ISO 8601 UTC.
        running_since: When the load was released, Unix seconds; None before.
        message: One line: what is being done, or what went wrong.
        counts: Requests so far.
        target_kind, target_model: What answers; the model is None until it is known.
        target, environment: What answered and on what machine, as the result tells it, as far as it is known.
        simulated: Whether no real engine or server answers.
        notes: Sentences about what was done on the user's behalf, as far as they are known.
        is_told_to_stop: Whether a stop reached it; it ends as soon as it can.
        exit_code: Of the run process; None while it lives and when it was lost.
    """

    run_id: str
    name: str
    phase: str
    pid: int
    pid_started: int | None
    host: str
    boot_id: str
    heartbeat: float
    started_at: str
    running_since: float | None = None
    message: str = ""
    counts: Counts = Counts()
    target_kind: str = ""
    target_model: str | None = None
    target: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    simulated: bool = False
    notes: tuple[str, ...] = ()
    is_told_to_stop: bool = False
    exit_code: int | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase in FINAL_PHASES

    @property
    def is_here(self) -> bool:
        """Whether the run process is (or was) one of this machine since its last boot."""
        return self.host == machine.host() and self.boot_id == machine.boot_id()

    @property
    def is_lost(self) -> bool:
        """Whether the process is gone without a final phase.

        Here: no process has its number and start time. On another host: its heartbeat stopped.
        """
        if self.is_final:
            return self.phase == "lost"
        if self.is_here:
            started = machine.process_started(self.pid)
            return started is None or started != self.pid_started
        return time.time() - self.heartbeat > SILENT_S


class RunDirectory:
    """One run's folder and the files in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, config: Config) -> RunDirectory:
        """Make the folder (mode 0700) of a new run under the runs folder, with the config it will run.

        Raises:
            LmtuiError: The disk takes nothing.
        """
        stamp = time.strftime(STAMP, time.gmtime())
        path = paths.runs() / f"{stamp}-{slug(config.name)}-{secrets.token_hex(3)}"
        run = cls(path)
        try:
            path.mkdir(mode=0o700)
            write_whole(run.config_path, config.to_toml().encode())
        except OSError as error:
            with contextlib.suppress(OSError):
                path.rmdir()
            raise takes_nothing(path, error) from error
        return run

    @property
    def run_id(self) -> str:
        """The run's id: the folder's name."""
        return self.path.name

    @property
    def begun_s(self) -> float:
        """When the run was made, Unix seconds: as its id says, else as its files do (0.0: neither)."""
        with contextlib.suppress(ValueError):
            return float(calendar.timegm(time.strptime(self.run_id[:STAMP_CHARS], STAMP)))
        return self.made_ns / 1e9

    @property
    def made_ns(self) -> int:
        """When its config was written, as the file system says; 0 when it has none."""
        for path in (self.config_path, self.path):
            with contextlib.suppress(OSError):
                return path.stat().st_mtime_ns
        return 0

    @property
    def is_run(self) -> bool:
        """Whether the folder is a run's: it has a config, a status or a summary (that this user may see)."""
        try:
            return any(path.is_file() for path in (self.config_path, self.status_path, self.summary_path))
        except PermissionError:
            return False

    @property
    def has_ticks(self) -> bool:
        """Whether it has a tick log."""
        return any(self.path.glob("ticks-*.bin"))

    @property
    def config_path(self) -> Path:
        """The config that ran, every value resolved."""
        return self.path / "config.toml"

    @property
    def status_path(self) -> Path:
        """The status, replaced atomically."""
        return self.path / "status.json"

    @property
    def log_path(self) -> Path:
        """Stdout and stderr of the run process."""
        return self.path / "engine.log"

    @property
    def summary_path(self) -> Path:
        """The result, written once at the end."""
        return self.path / "summary.json"

    @property
    def history_path(self) -> Path:
        """The history that gains this run's row."""
        return paths.history()

    @property
    def _reserve_path(self) -> Path:
        return self.path / ".reserve"

    def ticks_path(self, worker: int) -> Path:
        """Return the tick log of a load worker."""
        return self.path / f"ticks-{worker}.bin"

    def status(self) -> Status | None:
        """Return the status as it was last written; None when there is none yet (or one of another version)."""
        return _read(self.status_path, Status)

    def write_status(self, status: Status) -> None:
        """Replace the status. Raises OSError when the disk takes nothing; the old one stays then."""
        write_whole(self.status_path, msgspec.json.encode(status))

    def reserve(self) -> None:
        """Hold room for the summary, the row and the last status, for when the disk is full by then.

        Raises:
            OSError: There is no room any more.
        """
        self._reserve_path.write_bytes(os.urandom(RESERVE_BYTES))  # zeros take no room on a disk that compresses

    def free_reserve(self) -> None:
        """Give that room back: the end is written now."""
        with contextlib.suppress(OSError):
            self._reserve_path.unlink(missing_ok=True)

    def phase(self) -> str:
        """Return the phase as it is: `lost` when the process is gone without a final one, `queued` before any."""
        status = self.status()
        if status is None:
            return "queued"
        return "lost" if status.is_lost else status.phase

    def config(self) -> Config:
        """Return the config that ran.

        Raises:
            ConfigError: The file is not a config of this version.
        """
        from lmtui.config import store

        config, _ = store.resolve(str(self.config_path))
        return config

    def result(self) -> Result | None:
        """Return the result; None when there is none yet."""
        from lmtui.metrics.result import Result

        return _read(self.summary_path, Result)

    def write_result(self, result: Result) -> None:
        """Write the summary."""
        write_whole(self.summary_path, msgspec.json.encode(result))

    def log_tail(self, most_bytes: int = 4096) -> str:
        """Return the end of the log."""
        try:
            with self.log_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - most_bytes, 0))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def slug(name: str) -> str:
    """Return a name as a part of a folder's name: ASCII letters, digits, `-`; "run" when nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_CHARS].strip("-") or "run"


def takes_nothing(path: Path, error: OSError) -> LmtuiError:
    """Return what to say of a place where a run's files cannot be written."""
    return LmtuiError(
        f"{path}: cannot be written: {error.strerror}. Make room (or make it writable), or set LMTUI_HOME to another "
        "folder"
    )


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file so that a reader sees the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(2)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):  # missing, damaged, of another version, or not for this user
        return None
