"""One request to a server, through the target."""

from __future__ import annotations

from typing import Any

from lmtui.targets.server import ServerTarget
from tests.targets.making import config, request
from tests.wire.record import Record


def quiet(line: str) -> None:
    assert line


async def run(base_url: str, **keys: Any) -> tuple[ServerTarget, Record]:
    """Open a target and perform one request of 8 tokens; closed before the test goes on."""
    target = ServerTarget(config("server", base_url=base_url, **keys))
    await target.open(quiet)
    session = Record(request(output_len=8))
    rest = await target.perform(session.request, session)
    if rest is not None:
        await rest
    await target.close()
    return target, session
