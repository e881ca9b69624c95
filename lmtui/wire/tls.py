"""TLS over a raw socket, so that the kernel's receive stamps are taken under it."""

from __future__ import annotations

import ssl


def context(ca: str | None, insecure: bool) -> ssl.SSLContext:
    """Return the context of all connections: verified, against `ca` when given, unless `insecure`.

    Raises:
        OSError: The file of certificates cannot be read (ssl.SSLError: it holds none).
    """
    made = ssl.create_default_context(cafile=ca)
    made.set_alpn_protocols(["http/1.1"])
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


class TlsLayer:
    """One connection's cipher state, between bytes of the socket and bytes of HTTP.

    Attributes:
        is_closed: Whether the server said that it sends no more.
    """

    __slots__ = ("_in", "_object", "_out", "is_closed")

    def __init__(self, made: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = made.wrap_bio(self._in, self._out, server_hostname=host)
        self.is_closed = False

    def handshake(self, received: bytes) -> bool:
        """Go on with the handshake; whether it is over. What it wants to send is in `outgoing`.

        Raises:
            ssl.SSLError: It failed.
        """
        if received:
            self._in.write(received)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def outgoing(self) -> bytes:
        """Return the bytes to send, once."""
        return self._out.read() if self._out.pending else b""

    def encrypt(self, data: bytes) -> bytes:
        """Return what to send for these bytes."""
        self._object.write(data)
        return self._out.read()

    def decrypt(self, received: bytes) -> bytes:
        """Return the bytes that these complete, perhaps none.

        Raises:
            ssl.SSLError: They are not TLS.
        """
        self._in.write(received)
        parts = []
        while True:
            try:
                part = self._object.read(1 << 16)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if not part:
                self.is_closed = True
                break
            parts.append(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]
