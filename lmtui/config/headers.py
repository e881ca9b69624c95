"""What users may add to a request: which header fields, and what must be named as a variable instead of written."""

from __future__ import annotations

import re

REFERENCES_ONLY = re.compile(r"([A-Za-z]+ +)?(\$\{[A-Za-z_]\w*\})+")
"""`${VAR}`, also after a scheme such as Bearer: a value that holds no secret itself."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te", "trailer", "keep-alive"}
)
_SECRET = re.compile(r"authorization|key|token|secret|cookie|passw", re.IGNORECASE)
_SECRET_FIELD = re.compile(r"authorization|api_?key|(^|[_-])(key|token)$|secret|cookie|passw", re.IGNORECASE)
_PLAIN_FIELD = re.compile(r"(prompt_)?cache_key|(bos|eos|pad|stop|start|end|special)_token", re.IGNORECASE)
"""Fields of known servers that are named so and hold no secret."""


def name_fault(name: str) -> str:
    """Say why a header field cannot be set, as the end of "the header NAME ..."; "" when it can."""
    if not _NAME.fullmatch(name):
        return "is no name of a header field"
    if name.lower() in _FRAMING:
        return "cannot be set, for lmtui itself writes what frames a request"
    return ""


def is_sendable(value: str) -> bool:
    """Tell whether a text can be the value of a header field: printable ASCII on one line."""
    return value.isascii() and value.isprintable()


def names_secret(header: str) -> bool:
    """Tell whether a header field of this name holds a secret, as far as names tell."""
    return _SECRET.search(header) is not None


def field_names_secret(field: str) -> bool:
    """Tell whether a field of a request's body of this name holds a secret, as far as names tell."""
    return _SECRET_FIELD.search(field) is not None and _PLAIN_FIELD.fullmatch(field) is None
