"""The timed HTTP stream: sockets, kernel stamps, HTTP parser, server-sent events, per-API events."""

from __future__ import annotations

from lmtui.wire.client import Client, ConnectError
from lmtui.wire.exchange import Ask, Sink
from lmtui.wire.native import SglangAnswer, TrtAnswer
from lmtui.wire.openai import OpenAIAnswer
from lmtui.wire.request import Endpoint, payload
from lmtui.wire.stats import WireStats

__all__ = [
    "Ask",
    "Client",
    "ConnectError",
    "Endpoint",
    "OpenAIAnswer",
    "SglangAnswer",
    "Sink",
    "TrtAnswer",
    "WireStats",
    "payload",
]
