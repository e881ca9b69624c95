"""The script commands' parsers, made from their tables of flags. Standard library only, for `--help` needs no more."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from lmtui.config.script_flags import GUIDED, QUANT_POLICIES, RESTFUL, Flag, Script


def quant_policy(text: str) -> int:
    """Return the number of a `--quant-policy`: a word or the number itself."""
    if text.lower() in QUANT_POLICIES:
        return QUANT_POLICIES[text.lower()]
    if text.isdecimal() and int(text) in QUANT_POLICIES.values():
        return int(text)
    numbers = sorted(set(QUANT_POLICIES.values()))
    raise argparse.ArgumentTypeError(f"{text!r}: must be one of {', '.join(QUANT_POLICIES)} or {numbers}")


TYPES: Mapping[str, Callable[[str], object]] = {"text": str, "int": int, "float": float, "quant_policy": quant_policy}
METAVARS: Mapping[str, str] = {"int": "N", "float": "X", "quant_policy": "POLICY"}
"""What stands for a value in the help; a text's is the flag's name."""


def fill(parser: argparse.ArgumentParser, script: Script) -> None:
    """Give a parser a script's flags, and lmtui's own beside them."""
    needed = [f"{flag.names[-1]} ..." for flag in script.flags if flag.is_required]
    needed += [flag.names[0].upper() for flag in script.flags if flag.is_positional]
    parser.usage = " ".join(["%(prog)s [flags]", *needed])
    parser.epilog = f"example: lmtui {script.command} {script.example}"
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for flag in script.flags:
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        _add(groups[flag.group], flag)
    own = parser.add_argument_group("lmtui's own")
    own.add_argument("--dry-run", action="store_true", help="show the requests that would be sent; nothing is sent")
    schema = " (a schema's file is --json-schema-path)" * (script is GUIDED)  # which --json is short for in the script
    own.add_argument(
        "--json", action="store_true", help=f"print one JSON object per run instead of the script's table{schema}"
    )
    own.add_argument("--tui", action="store_true", help="watch in the application")
    if script is RESTFUL:
        own.add_argument("--yes", action="store_true", help="download a missing ShareGPT file without asking")


def _add(place: argparse._ActionsContainer, flag: Flag) -> None:
    is_shown = flag.type != "switch" and flag.default is not None and flag.default != ""
    told = f"{flag.help} (default: {flag.default})" if is_shown else flag.help
    told = told.replace("%", "%%")
    if flag.is_positional:
        place.add_argument(flag.names[0], type=TYPES[flag.type], help=told, metavar=flag.names[0].upper())
    elif flag.type == "switch":
        place.add_argument(*flag.names, action="store_true", default=flag.default, dest=flag.attribute, help=told)
    else:
        place.add_argument(
            *flag.names,
            type=TYPES[flag.type],
            default=flag.default,
            choices=flag.choices or None,
            required=flag.is_required,
            dest=flag.attribute,
            metavar=flag.metavar or (None if flag.choices else METAVARS.get(flag.type)),
            help=told,
        )
