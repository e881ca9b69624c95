"""What screens ask the application for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lmtui.config.document import Document
    from lmtui.config.model import Config
    from lmtui.results.rows import Row
    from lmtui.runner.rundir import RunDirectory


class RunWanted(Message):
    """Start a run of this config and show it."""

    def __init__(self, config: Config, notes: Sequence[str] = ()) -> None:
        super().__init__()
        self.config = config
        self.notes = tuple(notes)


class AgainWanted(Message):
    """Run once more what a run did: same config, same seed."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class WatchWanted(Message):
    """Show a run, live or over, in the live screen."""

    def __init__(self, run: RunDirectory) -> None:
        super().__init__()
        self.run = run


class ReplayWanted(Message):
    """Show the run of this name in the live screen."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class FormWanted(Message):
    """Edit a config. `made_from` is the saved config or preset that it is, or was copied from."""

    def __init__(self, document: Document, made_from: str, *, is_saved: bool) -> None:
        super().__init__()
        self.document = document
        self.made_from = made_from
        self.is_saved = is_saved


class HistoryWanted(Message):
    """Show the results of all runs."""


class DetailsWanted(Message):
    """Show every number of a row of the history, or of a run."""

    def __init__(self, run_id: str, row: Row | None = None) -> None:
        super().__init__()
        self.run_id = run_id
        self.row = row


class CompareWanted(Message):
    """Show runs side by side; the others are compared with the first."""

    def __init__(self, run_ids: Sequence[str]) -> None:
        super().__init__()
        self.run_ids = tuple(run_ids)


class PlotWanted(Message):
    """Plot columns of these rows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self.rows = rows


class CopyWanted(Message):
    """Copy a text to the clipboard, and write it to a file of this name."""

    def __init__(self, text: str, file_name: str) -> None:
        super().__init__()
        self.text = text
        self.file_name = file_name
