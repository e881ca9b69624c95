"""What one server may cost at most, in bytes and in time: it can neither hang the client nor bloat it."""

from __future__ import annotations

READ_BYTES = 64 * 1024
"""Most bytes of one read from a socket."""

MAX_HEAD_BYTES = 256 * 1024
"""Status line and header fields, interim responses too."""

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""One event (or one line) of a stream, and the whole body where one JSON object is expected."""

MAX_BODY_BYTES = 16 * 1024**3
"""A whole streamed body after its content coding was undone. A server that repeats all text so far needs gigabytes."""

MAX_FRAMING_BYTES = 1024 * 1024
"""Bytes of HTTP framing beyond 64 for each byte of body: chunk extensions and trailers without end."""

MAX_ERROR_BODY_BYTES = 64 * 1024
"""How much of the body of a failed request is read; more is left, and the connection closed."""

HEAD_KEPT_BYTES = 64 * 1024
"""How much of the start of a body is kept until its first event, to tell what it was when none comes."""

EXCERPT_CHARS = 500
"""Longest excerpt of a server's words in an error text."""

MAX_ERROR_CHARS = 1500
"""Longest error text."""

SWEEP_S = 0.05
"""How often the clock's offset is refreshed, and the time limits of live requests are looked at, at most."""

BODY_END_S = 0.02
"""How long a finished request waits for its last HTTP chunk, so that the connection can be kept."""

COALESCED_NS = 1_000_000
"""Events of a read that came later than this after their bytes share a stamp through the client's fault."""
