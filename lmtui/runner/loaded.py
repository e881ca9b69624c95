"""What is loaded in a run process: a target, and the event loop that it lives in from its opening to its closing."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.targets.base import Target, TargetInfo

STREAMS_S = 5.0
"""Streams that nobody reads any more have this long to close."""


class Loaded:
    """A loop, and the target in it once that is open.

    Attributes:
        loop: The only one that the target ever sees.
        target: The target; None before it is open.
        run_id: The run that opened it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.target: Target | None = None
        self.run_id = ""

    @property
    def is_reusable(self) -> bool:
        """Whether the target can serve another run."""
        from lmtui.targets.base import ReusableTarget

        return isinstance(self.target, ReusableTarget) and self.target.is_sound

    def reused(self, config: Config) -> TargetInfo:
        """Let the target serve another run. Raises TargetError."""
        from lmtui.targets.base import ReusableTarget

        assert isinstance(self.target, ReusableTarget)
        return self.target.reuse(config)

    def close(self) -> None:
        """Close the target, end what is left of its streams, and close the loop; what goes wrong is for the log."""
        try:
            if self.target is not None:
                self.loop.run_until_complete(self.target.close())
        except Exception:
            traceback.print_exc()
        try:
            self.loop.run_until_complete(asyncio.wait_for(self.loop.shutdown_asyncgens(), STREAMS_S))
        except asyncio.TimeoutError:  # a stream that cannot be ended is left behind
            pass
        except BaseException:  # an engine's SystemExit ended the loop before, and what waited for it hears of it now
            traceback.print_exc()
        self.loop.close()
