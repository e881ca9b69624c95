"""Bytes through one exchange, without a socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtui.metrics.sessions import UNKNOWN, Outcome
from lmtui.wire.exchange import Ask, Exchange
from lmtui.wire.stats import WireStats
from tests.play_case import piece_bytes, response_head
from tests.wire.record import KeptAnswer, Record

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Replayed:
    """What was recorded, without the times."""

    outcome: Outcome
    ticks: tuple[int, ...]
    told: tuple[tuple[str, Any], ...]
    text: str
    reasoning: str

    def of(self, name: str) -> Any:
        """Return one of the values told at the end."""
        return dict(self.told)[name]


def replay(
    reads: Sequence[bytes],
    api: str = "completions",
    *,
    max_tokens: int = 16,
    ignores_eos: bool = False,
    streams: bool = True,
    n: int = 1,
    cut_after: int | None = None,
    is_reset: bool = False,
) -> Replayed:
    """Return what these reads, and then the end of the connection, are recorded as."""
    answer = KeptAnswer(api, n)
    record = Record(cut_after=cut_after)
    exchange = Exchange(Ask(b"", answer, max_tokens, ignores_eos, streams), record, WireStats())
    record.sent(0)
    for number, data in enumerate(reads, start=1):
        if data and exchange.ending is None:
            exchange.feed(data, number, number)
    if exchange.ending is None:
        exchange.lost("the connection was reset" if is_reset else "the connection was closed")
    exchange.ended(len(reads) + 1, UNKNOWN)
    exchange.http.release()
    assert [at for at, _ in record.ticks] == sorted(at for at, _ in record.ticks)
    return Replayed(
        record.outcome,
        tuple(tokens for _, tokens in record.ticks),
        tuple(sorted(record.told.items())),
        answer.text,
        answer.reasoning,
    )


def case_bytes(case: dict[str, Any]) -> bytes:
    """Return everything that a case's server writes."""
    response = case["response"]
    pieces = [data for _, piece in response["pieces"] if (data := piece_bytes(piece))]
    framing = response["framing"]
    head = b"" if framing == "raw" else response_head(response, sum(map(len, pieces)))
    if framing == "chunked":
        pieces = [b"%x\r\n%b\r\n" % (len(data), data) for data in pieces]
        if response["end"] == "clean":
            pieces.append(b"0\r\n\r\n")
    return head + b"".join(pieces)


def cases() -> dict[str, dict[str, Any]]:
    """Return every case by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((DATA / "sse").glob("*.json"))}


def recording(name: str) -> dict[str, Any]:
    """Return a recorded exchange."""
    recorded: dict[str, Any] = json.loads((DATA / "lmdeploy_sse" / f"{name}.json").read_text())
    return recorded


def reads_of(recorded: dict[str, Any]) -> list[bytes]:
    """Return the socket reads of a recorded exchange."""
    return [base64.b64decode(data["b64"]) if isinstance(data, dict) else data.encode() for _, data in recorded["reads"]]
