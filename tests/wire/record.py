"""A sink that keeps what the wire reports, and short ways to ask a server for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.wire import Ask, Client, Endpoint, OpenAIAnswer, SglangAnswer, TrtAnswer, payload
from lmtui.wire.answer import Answer
from lmtui.workload.plan import PlannedRequest

ANSWERS: dict[str, type[Answer]] = {
    "completions": OpenAIAnswer,
    "chat": OpenAIAnswer,
    "sglang": SglangAnswer,
    "trt": TrtAnswer,
}
PATHS = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "sglang": "/generate",
    "trt": "/v2/models/ensemble/generate_stream",
}


@dataclass(eq=False)
class Record:
    """One request as its session would see it; `cut_after`: cut as CANCELLED at that tick, counted from 1."""

    request: PlannedRequest = field(default_factory=lambda: PlannedRequest(index=0, prompt="", output_len=1))
    cut_after: int | None = None
    cut_as: Outcome | None = None
    on_cut: Callable[[], None] | None = None
    sent_ns: list[int] = field(default_factory=list)
    ticks: list[tuple[int, int]] = field(default_factory=list)
    over_ns: list[int] = field(default_factory=list)
    ends: list[tuple[Outcome, int, dict[str, Any]]] = field(default_factory=list)
    on_tick: Callable[[], None] | None = None

    def sent(self, at_ns: int) -> None:
        self.sent_ns.append(at_ns)

    def tick(self, at_ns: int, tokens: int) -> bool:
        assert not self.ends, "a tick after the end"
        assert self.sent_ns
        assert at_ns >= self.sent_ns[-1]
        self.ticks.append((at_ns, tokens))
        if self.on_tick is not None:
            self.on_tick()
        if self.cut_after is not None and len(self.ticks) >= self.cut_after:
            self.cut_as = Outcome.CANCELLED
        return self.cut_as is not None

    def over(self, at_ns: int) -> None:
        assert not self.ends, "over after the end"
        assert self.on_cut is None
        self.over_ns.append(at_ns)

    def end(
        self,
        outcome: Outcome,
        at_ns: int,
        *,
        output_tokens: int = UNKNOWN,
        token_source: TokenSource = TokenSource.NONE,
        prompt_tokens: int = UNKNOWN,
        cached_tokens: int = UNKNOWN,
        connect_ns: int = UNKNOWN,
        let_go_ns: int = UNKNOWN,
        wasted_tokens: int = UNKNOWN,
        text_tokens: int = UNKNOWN,
        error: str = "",
    ) -> None:
        assert not self.ends, "ended twice"
        assert (error == "") == (outcome in (Outcome.OK, Outcome.SHORT, Outcome.CANCELLED)), (outcome, error)
        told = {
            "output_tokens": output_tokens,
            "token_source": token_source,
            "prompt_tokens": prompt_tokens,
            "cached_tokens": cached_tokens,
            "connect_ns": connect_ns,
            "wasted_tokens": wasted_tokens,
            "text_tokens": text_tokens,
            "error": error,
        }
        self.ends.append((outcome, at_ns, told))

    def cut(self, outcome: Outcome) -> None:
        """Cut it from outside, as a timer does."""
        self.cut_as = outcome
        if self.on_cut is not None:
            self.on_cut()

    @property
    def outcome(self) -> Outcome:
        (end,) = self.ends
        return end[0]

    @property
    def told(self) -> dict[str, Any]:
        (end,) = self.ends
        return end[2]


class KeptAnswer:
    """Makes an answer that keeps its text, and remembers it."""

    def __init__(self, api: str, n: int = 1) -> None:
        self._make: Callable[[], Answer] = partial(ANSWERS[api], n=n, keep_text=True)
        self.made: list[Answer] = []

    def __call__(self) -> Answer:
        self.made.append(self._make())
        return self.made[-1]

    @property
    def text(self) -> str:
        return "".join(self.made[-1].text)

    @property
    def reasoning(self) -> str:
        return "".join(self.made[-1].reasoning)


def ask(
    endpoint: Endpoint,
    api: str = "completions",
    *,
    answer: Callable[[], Answer] | None = None,
    max_tokens: int = 16,
    ignores_eos: bool = False,
    streams: bool = True,
    prompt: str = "Hello",
    count_text: Callable[[str], int] | None = None,
) -> Ask:
    """Return a small request; the servers of the tests do not look at most of it."""
    body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": max_tokens, "stream": streams}).encode()
    written = payload(endpoint.head(PATHS[api], {}), body)
    return Ask(written, answer or ANSWERS[api], max_tokens, ignores_eos, streams, count_text)


async def perform(client: Client, request: Ask, record: Record | None = None) -> Record:
    """Perform one request and return its record, which has ended."""
    record = record if record is not None else Record()
    exchange = await client.perform(request, record)
    if exchange is not None and exchange.uncounted is not None:
        await client.count(exchange)
    assert len(record.ends) == 1
    assert record.on_cut is None
    return record
