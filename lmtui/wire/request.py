"""Where a server is, and the bytes of a request to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from lmtui.config.headers import is_sendable, name_fault


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address.

    Attributes:
        base_url: As configured: scheme://host[:port][/prefix] or unix:///path/to.sock.
        host, port: Where to connect; port 0 and host "localhost" for a Unix socket, whose path is `unix_path`.
        is_tls: Whether the connection is encrypted.
        prefix: Path before the API's own.
    """

    base_url: str
    host: str
    port: int
    is_tls: bool
    prefix: str
    unix_path: str | None = None

    @classmethod
    def parse(cls, base_url: str) -> Endpoint:
        """Return the address in a URL that the config has checked already."""
        parts = urlsplit(base_url)
        if parts.scheme == "unix":
            return cls(base_url, "localhost", 0, False, "", parts.path)
        is_tls = parts.scheme == "https"
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
        return cls(base_url, parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls, prefix)

    @property
    def authority(self) -> str:
        """What the Host field says."""
        host = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        default = self.port in (0, 443 if self.is_tls else 80)
        return host if default else f"{host}:{self.port}"

    def url(self, path: str) -> str:
        """Return the URL of an API path, for people."""
        if self.unix_path is not None:
            return f"{path} at {self.base_url}"
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.prefix}{path}"

    def head(self, path: str, fields: Mapping[str, str]) -> bytes:
        """Return the head of a POST of JSON up to its length, which `payload` adds.

        Raises:
            ValueError: A header field cannot be sent; the text names it, not its value.
        """
        lines = [f"POST {self.prefix}{path} HTTP/1.1", f"host: {self.authority}"]
        all_fields = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": "lmtui",
        }
        all_fields.update((name.lower(), value) for name, value in fields.items())
        for name, value in all_fields.items():
            if fault := name_fault(name):
                raise ValueError(f"the header {name!r} {fault}")
            if not is_sendable(value):
                raise ValueError(f"the value of the header {name!r} is not printable ASCII text")
            lines.append(f"{name}: {value}")
        return "\r\n".join(lines).encode("ascii") + b"\r\n"


def payload(head: bytes, body: bytes) -> bytes:
    """Return the bytes of one request."""
    return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
