"""Keys one after the other: over a slow link several arrive at once, and each must find what the one before it did.

Textual sends a key to what has the focus as it arrives, and finds the bindings only once the key came back up: of
`/abc` in one packet the letters would be taken for commands before `/` has opened the line to type them in.
"""

from __future__ import annotations

import time
from collections import deque

from textual import events
from textual.app import App
from textual.message import Message
from textual.widget import Widget

GIVE_UP_S = 0.5
"""A key whose end was not heard of for so long does not hold up the next."""
LOOK_S = 0.03
"""How often it is looked whether what had the focus is gone, so that the end will not be heard of."""


class KeyHandled(Message):
    """Follows a key through the same queues; when it reaches the application the key has done what it does.

    `is_first`: it does not follow what the key's action sent on its way (that a line was submitted); a second one does.
    """

    def __init__(self, *, is_first: bool) -> None:
        super().__init__()
        self.is_first = is_first


class OrderedKeysApp(App[None]):
    """An application that handles a key only once the one before it is handled."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[events.Key] = deque()
        self._busy_since: float | None = None
        self._way: Widget | None = None
        self._goes_on = False

    async def on_event(self, event: events.Event) -> None:
        """Hold a key back while another is on its way."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self._waiting.append(event)
        if self._busy_since is None:
            await self._handle_next()
        elif len(self._waiting) == 1:
            self.set_timer(LOOK_S, self._look)

    async def _handle_next(self) -> None:
        self._goes_on = False
        self._busy_since = time.monotonic()
        self._way = self.focused or self.screen
        await super().on_event(self._waiting.popleft())
        self._follow(is_first=True)
        if self._waiting:
            self.set_timer(LOOK_S, self._look)

    def _follow(self, *, is_first: bool) -> None:
        if self._way is None or not self._way.post_message(KeyHandled(is_first=is_first)):  # it is gone
            self._go_on()

    def on_key_handled(self, message: KeyHandled) -> None:
        """Go on with the next key."""
        if message.is_first and self._waiting:
            self._follow(is_first=False)
        else:
            self._go_on()

    def _look(self) -> None:
        if self._busy_since is None or self._goes_on:
            return
        is_gone = self._way is None or not self._way.is_attached
        if is_gone or time.monotonic() - self._busy_since > GIVE_UP_S:
            self._go_on()
        else:
            self.set_timer(LOOK_S, self._look)

    def _go_on(self) -> None:
        if not self._waiting:
            self._busy_since = None
        elif not self._goes_on:  # after what the last key opened has been made, and has taken the focus
            self._goes_on = True
            self.screen.call_after_refresh(self.call_later, self._handle_next)
