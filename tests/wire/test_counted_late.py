"""Texts are tokenised off the timed path: the connection is free before, and no late cut reaches its next request."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.wire import Client, Endpoint
from tests.wire.raw_server import DONE, END, HEAD, always, chunk, raw_server, token
from tests.wire.record import Record, ask, perform

USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n'
ANSWER = always(HEAD + chunk(token("a b"), token("c", "length"), DONE) + END)


async def test_the_connection_carries_the_next_request_while_a_text_is_counted() -> None:
    may_count, counted_in = threading.Event(), list[str]()

    def count_text(text: str) -> int:
        assert may_count.wait(10)
        counted_in.append(threading.current_thread().name)
        return len(text)

    with raw_server(ANSWER) as server:
        endpoint = Endpoint.parse(server.base_url)
        client = Client(endpoint)
        await client.open()
        first, second = Record(), Record()
        exchange = await client.perform(ask(endpoint, max_tokens=4, count_text=count_text), first)
        assert exchange is not None
        assert (len(first.ticks), len(first.over_ns), first.ends) == (2, 1, [])
        counting = asyncio.ensure_future(client.count(exchange))
        running = asyncio.ensure_future(perform(client, ask(endpoint), second))
        await asyncio.sleep(0)
        first.cut(Outcome.ABORTED)  # late: it is over
        await running
        assert not counting.done()
        may_count.set()
        await counting
        await client.close()
    assert server.connections == 1
    assert second.outcome is Outcome.OK
    assert first.outcome is Outcome.OK
    assert (first.told["output_tokens"], first.told["token_source"]) == (4, TokenSource.TEXT)
    assert [end[1] for end in first.ends] == first.over_ns
    assert counted_in != [threading.current_thread().name]


async def test_a_text_is_counted_beside_the_servers_count_where_that_is_asked_for() -> None:
    told = always(HEAD + chunk(token("a b"), token("c", "length"), USAGE, DONE) + END)
    always_counted, not_needed = Record(), Record()
    with raw_server(told) as server:
        endpoint = Endpoint.parse(server.base_url)
        client = Client(endpoint)
        await client.open()
        asked = ask(endpoint, max_tokens=2, count_text=len)
        await perform(client, replace(asked, counts_always=True), always_counted)
        await perform(client, asked, not_needed)
        await client.close()
    for record, text_tokens in ((always_counted, 4), (not_needed, UNKNOWN)):
        assert record.outcome is Outcome.OK
        assert (record.told["output_tokens"], record.told["token_source"]) == (2, TokenSource.USAGE)
        assert record.told["text_tokens"] == text_tokens


async def test_a_count_that_fails_is_raised_and_its_request_ends() -> None:
    def count_text(text: str) -> int:
        raise ValueError("no such text")

    record = Record()
    with raw_server(ANSWER) as server:
        endpoint = Endpoint.parse(server.base_url)
        client = Client(endpoint)
        await client.open()
        with pytest.raises(ValueError, match="no such text"):
            await perform(client, ask(endpoint, count_text=count_text), record)
        await client.close()
    assert record.told["token_source"] is TokenSource.CHUNKS
