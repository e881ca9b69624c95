"""The form: sections, their parameters as rows, edits in place, errors where they are."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import Input

from lmtui.config import store
from lmtui.config.command_line import command_line
from lmtui.config.declared import SECTION_TITLES, by_key
from lmtui.config.document import Document
from lmtui.errors import LmtuiError
from lmtui.tui import keys, messages
from lmtui.tui.form_model import Draft, Field, SectionRow
from lmtui.tui.screens.dialogs import Answer, Ask, Note, Pick
from lmtui.tui.screens.jump import Part
from lmtui.tui.typed_ahead import ACTIONS
from lmtui.tui.widgets.figures import Figures
from lmtui.tui.widgets.filter_line import FilterLine
from lmtui.tui.widgets.key_line import KeyLine
from lmtui.tui.widgets.path_suggester import PathSuggester
from lmtui.tui.widgets.property_list import PropertyList
from lmtui.tui.widgets.table import Cell, Column, Table

STARTS_AN_EDIT = frozenset('0123456789.-"[{~')
"""Typed outside an edit, these begin one; letters are commands there."""


class FormScreen(Screen[None]):
    """Edits one config."""

    PLACE = "form"
    BINDINGS: ClassVar[list[BindingType]] = keys.bindings(PLACE)

    def __init__(self, document: Document, made_from: str, *, is_saved: bool) -> None:
        super().__init__()
        self._draft = Draft(document, made_from, is_saved=is_saved)
        self._section = next((row.section for row in self._draft.sections() if row.section), "")
        self._changed_only = False
        self._edited: Field | None = None

    def compose(self) -> ComposeResult:
        """Lay out sections, rows, the lines about the focused row, and the keys."""
        yield Figures("", id="form-title", classes="title")
        with Horizontal(id="form-body"):
            sections: Table[SectionRow] = Table(
                [Column("", 11, _title, fills=True), Column("", 3, _errors)], id="sections"
            )
            sections.has_titles = False
            sections.can_focus = False
            yield sections
            with Container(id="page"):
                yield PropertyList(id="fields")
                yield Editor(id="editor", compact=True)
        yield Figures("", id="about")
        yield FilterLine(id="find")
        yield KeyLine(self.PLACE)

    def on_mount(self) -> None:
        """Show the first section."""
        self.set_focus(self._fields)
        self._show(cursor=0)

    @property
    def _fields(self) -> PropertyList:
        return self.query_one("#fields", PropertyList)

    @property
    def _words(self) -> str:
        return self.query_one(FilterLine).words

    def _show(self, *, cursor: int | None = None, key: str = "") -> None:
        rows = self._draft.sections()
        at = next((i for i, row in enumerate(rows) if row.section == self._section), 0)
        self._section = rows[at].section
        is_across = bool(self._words) or self._changed_only
        self.query_one("#sections", Table).show(rows, cursor=at)
        found = self._draft.fields(
            None if is_across else self._section, words=self._words, changed_only=self._changed_only
        )
        if key:
            cursor = next((i for i, field in enumerate(found) if field.key == key), cursor)
        self._fields.show(found, cursor=cursor)
        where = "found" if self._words else "changed" if self._changed_only else SECTION_TITLES[self._section]
        stray = self._draft.stray_errors
        state = "saved" if self._draft.is_saved else "not saved"
        errors = sum(row.errors for row in rows) + len(stray)
        words = f"   {errors} error{'s' if errors > 1 else ''}" if errors else ""
        self.query_one("#form-title", Figures).show(
            f"lmtui   {self._draft.name or '(no name)'} › {where}   {state}{words}"
        )

    @on(PropertyList.Moved)
    def _about(self) -> None:
        field = self._fields.current
        about = self.query_one("#about", Figures)
        stray = self._draft.stray_errors
        lines = self._draft.about(field.key) if field is not None else ["Nothing here: c shows all, / finds others"]
        if stray and (field is None or not field.error):
            lines = [lines[0], stray[0]]
        about.set_class(field is not None and bool(field.error), "-error")
        about.show("\n".join(lines))

    # Edits

    @work(group=ACTIONS)
    async def action_edit(self) -> None:
        """Edit the value under the cursor, or choose it from a list."""
        field = self._fields.current
        if field is None:
            return
        if field.choices:
            choice = await self.app.push_screen_wait(
                Pick(field.label, [(word, "") for word in field.choices], at=field.value)
            )
            if choice is not None:
                self._commit(field, choice)
            return
        self._open_editor(field, field.value if field.is_changed or field.value else "")

    @on(PropertyList.Chosen)
    def _on_chosen(self) -> None:
        self.action_edit()

    def on_key(self, event: events.Key) -> None:
        """Begin an edit with what is typed."""
        field = self._fields.current
        if (
            self._edited is None
            and self._fields.has_focus
            and field
            and not field.choices
            and event.character in STARTS_AN_EDIT
        ):
            event.stop()
            self._open_editor(field, event.character or "")

    def _open_editor(self, field: Field, text: str) -> None:
        self._edited = field
        editor = self.query_one("#editor", Editor)
        place, width = self._fields.value_at()
        editor.styles.offset = (place.x, place.y)
        editor.styles.width = width
        declared = by_key(field.key)
        editor.suggester = PathSuggester() if declared is not None and declared.declaration.path else None
        editor.display = True
        editor.value = text
        editor.cursor_position = len(text)
        self.set_focus(editor)  # at once: what is typed ahead goes into it

    def _close_editor(self) -> None:
        self._edited = None
        self.query_one("#editor", Editor).display = False
        self.set_focus(self._fields)

    def commit_edit(self, *, then: int = 0) -> None:
        """Take what is in the editor, and go `then` rows on."""
        field = self._edited
        if field is None:
            return
        text = self.query_one("#editor", Editor).value
        self._close_editor()
        if text.strip() != field.value or field.error:
            self._commit(field, text)
        self._fields.cursor += then

    def revert_edit(self) -> None:
        """Leave the value as it was."""
        self._close_editor()

    def _commit(self, field: Field, text: str) -> None:
        try:
            self._draft.commit(field.key, text)
        except LmtuiError as error:
            self._say(error)
        self._show(key=field.key)

    def _step(self, by: int) -> None:
        field = self._fields.current
        if field is None or not field.choices:
            return
        if self._draft.step(field.key, by):
            self._show(key=field.key)
        else:
            self.action_edit()

    def action_next_choice(self) -> None:
        """Take the next choice."""
        self._step(1)

    def action_last_choice(self) -> None:
        """Take the choice before."""
        self._step(-1)

    def action_unset(self) -> None:
        """Take the default again."""
        if (field := self._fields.current) is not None:
            self._draft.unset(field.key)
            self._show(key=field.key)

    # Moving about

    def action_next_section(self) -> None:
        """Go to the next section."""
        self._go(1)

    def action_last_section(self) -> None:
        """Go to the section before."""
        self._go(-1)

    def _go(self, by: int) -> None:
        names = [row.section for row in self._draft.sections()]
        self._open_section(names[(names.index(self._section) + by) % len(names)])

    def _open_section(self, section: str, key: str = "") -> None:
        self._section = section
        self._changed_only = False
        self.query_one(FilterLine).clear()
        self._show(cursor=0, key=key)

    def jump_parts(self) -> list[Part]:
        """Return the sections, for jump mode."""
        place = self.query_one("#sections").region.offset
        rows = self._draft.sections()
        return [(place + Offset(0, y), f"section({row.section!r})") for y, row in enumerate(rows)]

    def action_section(self, name: str) -> None:
        """Open this section."""
        self._open_section(name)

    @on(Table.Moved, "#sections")
    def _on_section_clicked(self, event: Table.Moved) -> None:
        row = self.query_one("#sections", Table).current
        if isinstance(row, SectionRow) and row.section != self._section:
            self._open_section(row.section)

    def action_changed(self) -> None:
        """Show only what differs from the defaults, or all again."""
        self._changed_only = not self._changed_only
        self._show(cursor=0)

    def action_find(self) -> None:
        """Find a parameter."""
        self.query_one(FilterLine).start()

    @on(Input.Changed, "FilterLine Input")
    def _on_words(self) -> None:
        current = self._fields.current
        self._show(cursor=0, key="" if self._words or current is None else current.key)

    @on(FilterLine.Left)
    def _on_find_left(self) -> None:
        self.set_focus(self._fields)

    # Keeping and running

    def action_save(self) -> bool:
        """Save the config, errors and all; tell whether it was."""
        self.commit_edit()
        name = self._draft.name
        try:
            store.save(name, self._draft.document)
        except LmtuiError as error:
            self._say(error)
            return False
        self._draft.saved(name)
        self._show()
        self.notify(f"Saved as {name}", markup=False)
        return True

    def action_run(self) -> None:
        """Save and run, or go to the first error."""
        self.commit_edit()
        checked = self._draft.checked
        if checked.config is None:
            found = self._draft.first_error()
            if found is not None:
                self._open_section(*found)
            problem = checked.problems[0].message
            self.notify(problem, title="Not started", severity="error", markup=False)
            return
        if self._draft.is_edited and not self.action_save():
            return
        self.post_message(messages.RunWanted(checked.config, checked.notes))

    def action_command(self) -> None:
        """Show and copy the command line."""
        self.commit_edit()
        try:
            text = command_line(self._draft.document, self._draft.made_from)
        except LmtuiError as error:
            self._say(error)
            return
        self.post_message(messages.CopyWanted(text, "command.txt"))
        self.app.push_screen(Note("This runs the same from a shell", text))

    @work(group=ACTIONS)
    async def action_back(self) -> None:
        """Leave; asks when something is not saved."""
        if self._words:
            self.query_one(FilterLine).clear()
            return
        if self._changed_only:
            self.action_changed()
            return
        if self._draft.is_edited:
            answer = await self.app.push_screen_wait(
                Ask(
                    f"{self._draft.name or 'This config'} is not saved",
                    [
                        Answer("s", "save it", "save"),
                        Answer("d", "drop the changes", "drop"),
                        Answer("n", "stay", "stay"),
                    ],
                )
            )
            if answer == "stay" or (answer == "save" and not self.action_save()):
                return
        self.dismiss()

    def _say(self, error: LmtuiError) -> None:
        self.notify(str(error), severity="error", markup=False, timeout=8)


class Editor(Input):
    """The line that stands on the value while it is edited."""

    def on_mount(self) -> None:
        """Keep the cursor still: a blink is a redraw."""
        self.cursor_blink = False
        self.select_on_focus = False
        self.display = False

    async def _on_key(self, event: events.Key) -> None:
        form = self.screen
        if not isinstance(form, FormScreen):
            return
        moves = {"enter": 0, "tab": 1, "down": 1, "shift+tab": -1, "up": -1}
        if event.key in moves:
            event.stop()
            event.prevent_default()
            form.commit_edit(then=moves[event.key])
        elif event.key == "escape":
            event.stop()
            event.prevent_default()
            form.revert_edit()


def _title(row: SectionRow) -> Cell:
    return f" {row.title}"


def _errors(row: SectionRow) -> Cell:
    return (f"{row.errors}!", "bad") if row.errors else (f"{row.changed}", "dim") if row.changed else ""
