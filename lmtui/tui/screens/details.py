"""Every number of one run, as text that scrolls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen

from lmtui.errors import LmtuiError
from lmtui.tui import keys, messages
from lmtui.tui.details_text import result_text, row_text
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.key_line import KeyLine

if TYPE_CHECKING:
    from lmtui.metrics.result import Result
    from lmtui.results.rows import Row


class DetailsScreen(Screen[None]):
    """The run's summary when its directory is here, else what its row in the history holds."""

    PLACE = "details"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self, run_id: str, row: Row | None = None) -> None:
        super().__init__()
        self._run_id = run_id
        self._row = row

    def compose(self) -> ComposeResult:
        """Lay out the text and the keys."""
        yield Figures(f"lmtui   details   {self._run_id}", classes="title")
        with VerticalScroll(id="details-body"):
            yield Figures("reading …", id="details-text")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Read the run."""
        self.query_one("#details-body").focus()
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        result = await asyncio.to_thread(self._result)
        if result is not None:
            text = result_text(result)
        elif self._row is not None:
            text = row_text(self._row)
        else:
            text = "This run has no result yet"
        self.query_one("#details-text", Figures).show(text)

    def _result(self) -> Result | None:
        from lmtui.runner import runs

        try:
            return runs.find(self._run_id).result() if self._run_id else None
        except LmtuiError:
            return None  # its directory is gone, or never was here: the row still says what it holds

    def action_again(self) -> None:
        """Run the same once more."""
        self.post_message(messages.AgainWanted(self._run_id))

    def action_replay(self) -> None:
        """Show the run in the live screen."""
        self.post_message(messages.ReplayWanted(self._run_id))

    def action_copy(self) -> None:
        """Copy all of it."""
        text = self.query_one("#details-text", Figures).text
        self.post_message(messages.CopyWanted(text, f"{self._run_id or 'row'}.txt"))

    def action_back(self) -> None:
        """Go back."""
        self.dismiss()
