"""The timed HTTP stream: sockets, kernel stamps, HTTP parser, server-sent events, per-API events."""
