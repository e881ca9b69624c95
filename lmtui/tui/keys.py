"""Every key of the application, once: bindings, footer, help, palette and the README's table come from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from textual.binding import Binding, BindingType

PLACES = {
    "app": "Everywhere",
    "configs": "Configs",
    "form": "Form",
    "live": "Live",
    "results": "Results",
    "details": "Details",
    "compare": "Compare",
    "plot": "Plot",
    "list": "Lists",
    "table": "Tables",
}
"""Where keys work, in the order of the help."""


@dataclass(frozen=True, slots=True)
class Key:
    """One action and the keys that call it.

    Attributes:
        place: A key of PLACES.
        action: Name of the action; with the place it is the binding's id.
        keys: Keys with commas between them, as Textual names them.
        label: A word or two for the footer.
        tooltip: What it does, for the help and the palette.
        display: How the key is written.
        is_shown: Whether the footer has it.
        has_priority: Whether it works also inside an edit.
        state: The states of the screen in which the footer has it, with blanks between them; "": in every one.
    """

    place: str
    action: str
    keys: str
    label: str
    tooltip: str
    display: str
    is_shown: bool = True
    has_priority: bool = False
    state: str = ""

    @property
    def id(self) -> str:
        """The name that `[keymap]` in settings.toml knows it by."""
        return f"{self.place}.{self.action}"


KEYS: tuple[Key, ...] = (
    Key("app", "help", "question_mark,f1", "help", "Show every key of this screen", "?", False),
    Key("app", "command_palette", "ctrl+p", "palette", "Find an action by its name", "^p", False),
    Key("app", "jump", "ctrl+o", "jump", "Put a letter on every part of the screen; it goes there", "^o", False),
    Key("app", "leave", "ctrl+q,ctrl+c", "quit", "Quit; asks what to do with a live run", "^q", False, True),
    Key("app", "suspend_process", "ctrl+z", "suspend", "Go back to the shell; `fg` there comes back", "^z", False),
    Key("list", "up", "up,k", "up", "Move up", "↑ k", False),
    Key("list", "down", "down,j", "down", "Move down", "↓ j", False),
    Key("list", "page_up", "pageup,ctrl+u", "page up", "Move up by a page", "PgUp", False),
    Key("list", "page_down", "pagedown,ctrl+d", "page down", "Move down by a page", "PgDn", False),
    Key("list", "first", "home,g", "first", "Go to the first row", "Home g", False),
    Key("list", "last", "end,G", "last", "Go to the last row", "End G", False),
    Key("table", "columns_left", "left", "left", "Show columns further left", "←", False),
    Key("table", "columns_right", "right", "right", "Show columns further right", "→", False),
    Key("configs", "open", "enter", "open", "Open: the form of a config, the live screen of a run", "enter"),
    Key("configs", "run", "r", "run", "Start a run of this config", "r"),
    Key("configs", "new", "n", "new", "Make a config from a preset", "n"),
    Key("configs", "edit", "e", "edit", "Edit this config (of a preset: a copy)", "e"),
    Key("configs", "duplicate", "d", "duplicate", "Copy this config under another name", "d"),
    Key("configs", "delete", "x", "delete", "Move this config to the trash; asks first", "x"),
    Key("configs", "attach", "a", "attach", "Watch a live run", "a"),
    Key("configs", "history", "h", "history", "Show the results of all runs", "h"),
    Key("configs", "find", "slash", "filter", "Show only configs with these words", "/"),
    Key("configs", "clear", "escape", "clear", "Take the filter away", "esc", False),
    Key("form", "edit", "enter", "edit", "Edit the value, or choose it from a list", "enter"),
    Key("form", "next_choice", "space,right", "next", "Take the next choice", "space →", False),
    Key("form", "last_choice", "left", "previous", "Take the previous choice", "←", False),
    Key("form", "next_section", "tab,right_square_bracket", "section", "Go to the next section", "tab"),
    Key("form", "last_section", "shift+tab", "back a section", "Go to the previous section", "⇧tab", False),
    Key("form", "unset", "u", "reset", "Take the default again", "u"),
    Key("form", "changed", "c", "changed", "Show only what differs from the defaults", "c"),
    Key("form", "find", "slash", "find", "Find a parameter in all sections", "/"),
    Key("form", "save", "ctrl+s", "save", "Save the config, errors and all", "^s", True, True),
    Key("form", "run", "f5", "run", "Save and run; goes to the first error instead", "F5", True, True),
    Key("form", "command", "f6", "command", "Show and copy the command line that runs this", "F6", True, True),
    Key("form", "back", "escape,q", "back", "Leave the form; asks when something is not saved", "esc q"),
    Key("live", "details", "enter", "details", "Show every number, once this run is over", "enter", state="over"),
    Key("live", "again", "r", "again", "Run the same config and seed, once this run is over", "r", state="over"),
    Key(
        "live",
        "stop",
        "s",
        "stop",
        "Stop sending, let what is in flight finish, and keep the result",
        "s",
        state="live",
    ),
    Key("live", "abort", "S", "abort", "End at once; asks first. What was measured is kept", "S", state="live"),
    Key("live", "detach", "d,q,escape", "detach", "Leave this screen; the run goes on", "d"),
    Key(
        "live", "play", "space", "replay", "Once the run is over: play it again, or pause", "space", state="over replay"
    ),
    Key("live", "back_s", "left", "back", "In a replay: go back by 5 s", "←", state="replay"),
    Key("live", "on_s", "right", "on", "In a replay: go on by 5 s", "→", state="replay"),
    Key("live", "faster", "plus,equals_sign", "faster", "In a replay: twice as fast", "+", state="replay"),
    Key("live", "slower", "minus", "slower", "In a replay: half as fast", "-", state="replay"),
    Key("live", "metric", "t", "metric", "Show another latency: TTFT, ITL", "t"),
    Key("live", "window", "w", "window", "Show the whole run, its last minute, or its last five", "w"),
    Key("live", "maximize", "m", "maximise", "Give the focused panel the whole screen, or take it back", "m"),
    Key("live", "freeze", "f", "freeze", "Hold the view still; the run goes on", "f", state="live"),
    Key("live", "log", "l", "log", "Go to the log", "l"),
    Key("live", "copy", "c", "copy", "Copy the summary, and write it to a file", "c"),
    *(
        Key("live", f"panel({number})", str(number), name, f"Go to the panel: {name}", str(number), False)
        for number, name in enumerate(
            ("throughput", "latency", "percentiles", "counts", "cancel", "errors", "log"), start=1
        )
    ),
    Key("results", "open", "enter", "details", "Show every number of this run", "enter"),
    Key("results", "mark", "space", "mark", "Mark this run, or take the mark away", "space"),
    Key("results", "compare", "c", "compare", "Compare the marked runs; one mark: with the run under the cursor", "c"),
    Key("results", "plot", "p", "plot", "Plot one column against another: the marked runs, else all shown", "p"),
    Key("results", "find", "slash", "filter", "Words, and terms such as backend:pytorch ttft<200 rate>=4", "/"),
    Key("results", "replay", "v", "replay", "Show this run in the live screen", "v"),
    Key("results", "again", "r", "again", "Run the same config with the same seed", "r"),
    Key(
        "results",
        "export",
        "e",
        "export",
        "Write the marked runs, else this one, to a file: CSV, JSON or Markdown",
        "e",
    ),
    Key("results", "annotate", "T", "tag", "Write tags and a note for this run", "T"),
    Key("results", "discard", "x", "trash", "Hide the marked runs, else this one; nothing is deleted", "x"),
    Key("results", "restore", "z", "undo", "Take back what went to the trash last", "z"),
    Key("results", "columns", "C", "columns", "Choose the columns", "C"),
    Key("results", "sort_left", "less_than_sign", "sort by", "Sort by the column further left", "<"),
    Key("results", "sort_right", "greater_than_sign", "sort by", "Sort by the column further right", ">"),
    Key("results", "order", "o", "order", "Turn the order round", "o"),
    Key("results", "clear", "escape", "clear", "Take the filter away, then the marks, or go back", "esc", False),
    Key("results", "back", "q,h", "back", "Go back to the configs", "q"),
    Key("details", "again", "r", "again", "Run the same config with the same seed", "r"),
    Key("details", "replay", "v", "replay", "Show this run in the live screen", "v"),
    Key("details", "copy", "c", "copy", "Copy all of it, and write it to a file", "c"),
    Key("details", "back", "escape,q", "back", "Go back", "esc q"),
    Key("compare", "metric", "t", "metric", "Show the distributions of another latency", "t"),
    Key("compare", "scale", "l", "log", "Turn the axis logarithmic, or linear again", "l"),
    Key("compare", "copy", "c", "copy", "Copy all of it, and write it to a file", "c"),
    Key("compare", "back", "escape,q", "back", "Go back", "esc q"),
    Key("plot", "choose_x", "x", "across", "Choose the column that goes across", "x"),
    Key("plot", "choose_y", "y", "upward", "Choose the column that goes upward", "y"),
    Key("plot", "choose_lines", "b", "lines by", "Choose the column whose values have a line each", "b"),
    Key("plot", "scale_x", "l", "log across", "Turn the axis across logarithmic, or linear again", "l"),
    Key("plot", "scale_y", "L", "log upward", "Turn the axis upward logarithmic, or linear again", "L"),
    Key("plot", "back", "escape,q", "back", "Go back", "esc q"),
)


def of(place: str, keymap: Mapping[str, str] | None = None) -> list[Key]:
    """Return the keys of a place, in the order of the footer, written as a keymap (id → keys) has them."""
    found = [key for key in KEYS if key.place == place]
    if not keymap:
        return found
    return [
        replace(key, keys=keymap[key.id], display=written(keymap[key.id])) if key.id in keymap else key for key in found
    ]


def ids() -> set[str]:
    """Return the names that a keymap can use."""
    return {key.id for key in KEYS}


def written(names: str) -> str:
    """Return how keys, as Textual names them with commas between, are written in a footer."""
    return " ".join(_written(name.strip()) for name in names.split(","))


def _written(name: str) -> str:
    is_function_key = name[0] == "f" and name[1:].isdigit()
    return name.upper() if is_function_key else name.replace("ctrl+", "^").replace("shift+", "⇧")


def bindings(place: str) -> list[BindingType]:
    """Return the bindings of a place for a `BINDINGS` list; each has an id, so that a keymap can change its keys."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=key.is_shown,
            key_display=key.display,
            priority=key.has_priority,
            id=key.id,
            tooltip=key.tooltip,
        )
        for key in of(place)
    ]


def markdown_table(places: Iterable[str] = PLACES) -> str:
    """Return the README's table of keys."""
    lines = ["| where | key | does |", "|---|---|---|"]
    for place in places:
        lines += [f"| {PLACES[place]} | `{key.display}` | {key.tooltip} |" for key in of(place)]
    return "\n".join(lines) + "\n"
