"""What the run process and a load worker say to each other, over a socket pair that ends when either does."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmtui.runner.load import EndedBy
from lmtui.runner.rundir import Counts
from lmtui.runner.share import Share

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.targets.server import ServerPlan

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Job:
    """To the worker, first: what to send and to whom. It opens its connections and answers with Done."""

    config: Config
    prepared: ServerPlan
    share: Share


@dataclass(frozen=True, slots=True)
class WarmUp:
    """To the worker: send the warm-up requests. It answers with Done."""


@dataclass(frozen=True, slots=True)
class Ready:
    """To the worker: be quiet and wait. It answers with Done."""


@dataclass(frozen=True, slots=True)
class Release:
    """To the worker: send from this time on (None: not at all). It answers with Progress, and Ended at the end."""

    start_ns: int | None


@dataclass(frozen=True, slots=True)
class Stop:
    """To the worker, at any time: send nothing more; `abort`: and cut what is in flight."""

    abort: bool


@dataclass(frozen=True, slots=True)
class Done:
    """From the worker: what it was last told to do is done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """From the worker: its counts, and what goes wrong."""

    counts: Counts
    problem: str
    last_error: str


@dataclass(frozen=True, slots=True)
class Ended:
    """From the worker, last: why it ended, its counts, sentences for the result, and the error that ended it."""

    by: EndedBy
    progress: Progress
    notes: tuple[str, ...]
    error: Exception | None


Message = Job | WarmUp | Ready | Release | Stop | Done | Progress | Ended


class Channel:
    """One end of the pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """Return the channel over one socket of a pair."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: Message) -> None:
        """Send a message; nothing happens when the other end is gone."""
        if self._writer.is_closing():
            return
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._writer.write(_LENGTH.pack(len(data)) + data)

    async def receive(self) -> Message | None:
        """Return the next message; None when the other end is gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            message: Message = pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return message

    async def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return
