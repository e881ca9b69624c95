"""The server target against the real `transformers serve`, which refuses some fields and sends no end marker."""

from __future__ import annotations

import pytest

from lmtui.errors import TargetError
from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.targets.server import ServerTarget
from tests.servers import RunningServer
from tests.targets.making import config, request
from tests.wire.record import Record

pytestmark = pytest.mark.slow


@pytest.fixture
def server(transformers_server: RunningServer) -> RunningServer:
    return transformers_server


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_requests_succeed_without_the_fields_it_refuses(server: RunningServer, api: str) -> None:
    target = ServerTarget(config("server", base_url=server.base_url, api=api, request={"top_k": 1, "temperature": 0.0}))
    info = await target.open(lambda line: None)
    assert info.model == server.model
    assert set(info.dropped_fields) == {"request.ignore_eos", "request.top_k"}
    assert len(info.notes) == 2
    await target.prepare(2)
    for index in range(3):
        session = Record(request(index, output_len=12, prompt="hello there"))
        await target.perform(session.request, session)
        assert session.outcome is Outcome.OK
        assert session.told["token_source"] is TokenSource.USAGE
        assert 1 <= len(session.ticks) <= session.told["output_tokens"] <= 12
        assert session.told["prompt_tokens"] > 0
    await target.close()


async def test_its_refusal_is_explained(server: RunningServer) -> None:
    target = ServerTarget(config("server", base_url=server.base_url, drop_rejected=False))
    with pytest.raises(TargetError) as caught:
        await target.open(lambda line: None)
    for words in ("422", "ignore_eos", f"{server.base_url}/v1/completions", "target.drop_rejected"):
        assert words in str(caught.value)
    other = ServerTarget(config("server", base_url=server.base_url, model="another"))
    with pytest.raises(TargetError, match="pinned to"):
        await other.open(lambda line: None)


async def test_a_cut_lets_go(server: RunningServer) -> None:
    target = ServerTarget(config("server", base_url=server.base_url))
    await target.open(lambda line: None)
    session = Record(request(output_len=400), cut_after=3)
    await target.perform(session.request, session)
    await target.close()
    assert session.outcome is Outcome.CANCELLED
    assert len(session.ticks) == 3
