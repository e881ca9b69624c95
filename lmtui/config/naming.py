"""Names of configs: they are file names, parts of run ids, and words on a command line."""

from __future__ import annotations

LONGEST = 100
"""Bytes of a name, so that `<name>.toml` and a run's folder fit every file system."""


def fault(name: str) -> str:
    """Say what a name must be that this one is not, as the end of "must be ..."; "" when it is fine."""
    if not name.strip():
        return "text that is not empty"
    if name != name.strip() or any(not c.isprintable() for c in name):
        return "text without spaces at its ends and without control characters"
    if any(c in "/\\" for c in name) or name.startswith("."):
        return "text without / or \\ that does not start with a dot, for it names a file"
    if name.lower().endswith(".toml"):
        return "text that does not end in .toml, for that would mean a file"
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST:
        return f"at most {LONGEST} bytes long"
    return ""
