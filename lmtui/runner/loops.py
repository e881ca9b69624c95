"""The event loop that a run's config asks for."""

from __future__ import annotations

import asyncio


def new_loop(*, is_uvloop: bool, is_virtual: bool = False) -> asyncio.AbstractEventLoop:
    """Return a new loop, set as this thread's."""
    loop: asyncio.AbstractEventLoop
    if is_virtual:
        from lmtui.targets.virtual import VirtualLoop

        loop = VirtualLoop()
    elif is_uvloop:
        import uvloop

        loop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop
