"""Keys one after the other: over a slow link several arrive at once, and each must find what the one before it did.

Textual sends a key to what has the focus as it arrives, and finds the bindings only once the key came back up: of
`/abc` in one packet the letters would be taken for commands before `/` has opened the line to type them in, and of
`ctrl+q` and `enter` the second would reach the screen below the question that the first one asks.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from textual import events
from textual.app import App
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker, get_current_worker

ACTIONS = "actions"
"""The group of workers that a key waits for: those that ask something, or are short. What takes long (starting a run,
writing a file) has another one."""
GIVE_UP_S = 3.0
"""A key that is not done after so long does not hold up the next."""
LOOK_S = 0.005
"""How often it is looked whether a worker of an action is done, or what had the focus is gone."""


class Passed(Message):
    """Follows a key through the same queues; when it reaches the application, all that was before it is handled."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()


@dataclass(frozen=True, slots=True)
class _State:
    """What decides what a key means, and whether an action is still about to change it."""

    screen: Screen[Any]
    focused: Widget | None
    is_at_work: bool

    @property
    def way(self) -> Widget:
        """Where a key goes in."""
        return self.focused or self.screen


class OrderedKeysApp(App[None]):
    """An application that handles a key, or a paste, only once the one before it has done all that it does."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: asyncio.Queue[events.Key | events.Paste] = asyncio.Queue()
        self._asked: dict[Worker[Any], object] = {}
        self._slow: WeakSet[Worker[Any]] = WeakSet()

    def on_mount(self) -> None:
        """Begin to handle keys."""
        self.run_worker(self._handle_typed(), group="keys")

    async def on_event(self, event: events.Event) -> None:
        """Put a key in its place in the row."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self._typed.put_nowait(event)
        else:
            await super().on_event(event)

    async def push_screen_wait(self, screen: Any, *, mode: str | None = None) -> Any:
        """Ask something, and take note of who asks: the next key is for what is asked."""
        worker = get_current_worker()
        self._asked[worker] = screen
        try:
            return await super().push_screen_wait(screen, mode=mode)
        finally:
            del self._asked[worker]

    async def _handle_typed(self) -> None:
        while True:
            event = await self._typed.get()
            given_up_at = time.monotonic() + GIVE_UP_S
            before = self._state()
            screen = before.screen
            await super().on_event(event)
            while time.monotonic() < given_up_at:
                await self._pass(before.way, given_up_at)
                now = self._state()
                if now == before and not now.is_at_work and self._is_quiet(now.way):
                    break
                if now.is_at_work:
                    await asyncio.sleep(LOOK_S)
                before = now
            else:
                self._slow.update(self.workers)
            if self.screen is not screen:
                await self._drawn()  # keys may go by where things stand

    def _state(self) -> _State:
        return _State(self.screen, self.focused, self._is_at_work())

    def _is_quiet(self, way: Widget) -> bool:
        """Tell whether nothing waits to be handled on the way of a key."""
        return not any(node.message_queue_size for node in (*way.ancestors_with_self, *self.screen_stack))

    async def _pass(self, way: Widget, given_up_at: float) -> None:
        """Wait until what `way` and all above it had in their queues is handled."""
        sign = Passed()
        is_under_way = way.post_message(sign)
        while is_under_way and way.is_attached and time.monotonic() < given_up_at:
            try:
                await asyncio.wait_for(sign.came.wait(), LOOK_S)
            except asyncio.TimeoutError:
                continue
            return

    def on_passed(self, message: Passed) -> None:
        """Tell who waits for it."""
        message.came.set()

    def _is_at_work(self) -> bool:
        """Tell whether an action goes on that does not wait for an answer."""
        stack = self.screen_stack
        return any(
            worker.group == ACTIONS
            and not worker.is_finished
            and worker not in self._slow
            and self._asked.get(worker) not in stack
            for worker in self.workers
        )

    async def _drawn(self) -> None:
        """Wait until the screen stands as it will."""
        drawn = asyncio.Event()
        if self.screen.call_after_refresh(drawn.set):
            try:
                await asyncio.wait_for(drawn.wait(), GIVE_UP_S)
            except asyncio.TimeoutError:
                return
