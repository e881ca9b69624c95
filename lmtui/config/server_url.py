"""Server URLs as people type them, and the form that the wire needs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

LOCAL: Mapping[str, str | None] = {
    "lmdeploy": "http://127.0.0.1:23333",
    "vllm": "http://127.0.0.1:8000",
    "sglang": "http://127.0.0.1:30000",
    "trt": "http://127.0.0.1:8000",
    "openai": None,
}
"""Preset → where its server listens on this machine by default; None: it has no local port."""

ENDPOINTS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/v2/models/ensemble/generate_stream",
    "/generate",
    "/v1",
)


def normalised(text: str) -> str:
    """Return scheme://host[:port][/prefix], or unix:///path.

    Raises:
        ValueError: It is no such URL; the text ends the sentence "must be ...".
    """
    text = text.strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"a URL such as http://127.0.0.1:23333 ({error})") from error
    if any(c.isspace() or not c.isprintable() for c in text):
        raise ValueError("a URL without spaces or control characters")
    if parts.scheme == "unix":
        if parts.netloc or not parts.path.startswith("/") or parts.path == "/":
            raise ValueError("unix:// followed by the absolute path of a socket, such as unix:///run/llm.sock")
        return f"unix://{parts.path}"
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("a URL that starts with http:// or https:// and names a host, such as http://127.0.0.1:23333")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError("a URL whose host name has parts of 1 to 63 letters between its dots") from error
    if port == 0:
        raise ValueError("a URL with a port between 1 and 65535")
    if "@" in parts.netloc:
        raise ValueError("a URL without a user name or password; name a variable in target.api_key_env instead")
    if parts.query or parts.fragment:
        raise ValueError("a URL without ? or #; put further fields into target.extra_body")
    path = parts.path.rstrip("/")
    for endpoint in ENDPOINTS:
        if path.endswith(endpoint):
            path = path[: -len(endpoint)].rstrip("/")
            break
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
