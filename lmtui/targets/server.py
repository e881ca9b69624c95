"""Any streaming server, over the wire: opened once in the run process, used by every load worker."""

from __future__ import annotations

import contextlib
import os
import resource
import ssl
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import TokenSource
from lmtui.targets.base import Session, TargetInfo
from lmtui.targets.server_body import OPTIONAL, BodyMaker, encoded
from lmtui.targets.server_preflight import Preflighter
from lmtui.targets.server_ready import Inquiry, Served
from lmtui.targets.server_secrets import Secrets
from lmtui.wire import Ask, Client, ConnectError, Endpoint, WireStats, payload
from lmtui.wire.tls import context
from lmtui.workload import tokenizers
from lmtui.workload.plan import PlannedRequest

SERIALISED_BYTES = 256 * 1024 * 1024
"""Most memory that requests written out before the start may take; the rest are written out just before they go."""

LISTS_MODELS = "/v1/models"
HEALTH = {"trt": "/v2/health/ready"}


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What opening found out, as a load worker needs it. It can be pickled and holds no secret."""

    info: TargetInfo
    dropped: tuple[str, ...]
    uses_max_tokens: bool
    counts_text: bool
    """There is a tokenizer, and the server counts no tokens or its count is not enough: texts are tokenised here."""


class ServerTarget:
    """A server under load (`targets.base.Target`)."""

    def __init__(self, config: Config) -> None:
        self._config = config
        target = config.target
        base_url = target.server_url
        if base_url is None:
            raise TargetError(f'target.base_url is needed: a server of preset "{target.preset}" has no local port.')
        self._endpoint = Endpoint.parse(base_url)
        self._secrets = Secrets()
        self._plan: ServerPlan | None = None
        self._bodies: BodyMaker | None = None
        self._client: Client | None = None
        self._head = b""
        self._template: Ask | None = None
        self._count_text: Callable[[str], int] | None = None
        self._written: dict[int, bytes] = {}

    @classmethod
    def from_prepared(cls, config: Config, plan: ServerPlan) -> ServerTarget:
        """Return the target for a load worker: its `open` asks the server nothing."""
        made = cls(config)
        made._plan = plan
        return made

    def prepared(self) -> ServerPlan:
        """Return what `open` found out, for `from_prepared`."""
        if self._plan is None:
            raise RuntimeError("the target is not open")
        return self._plan

    @property
    def stats(self) -> WireStats:
        """What the wire noticed about itself so far."""
        return self._opened.stats

    @property
    def _opened(self) -> Client:
        if self._client is None:
            raise RuntimeError("the target is not open")
        return self._client

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        """Wait for the server, ask what it serves, and try one request. Raises TargetError."""
        target = self._config.target
        fields = self._fields()
        extra = self._secrets.expand(target.extra_body, "target.extra_body")
        tls = self._context()
        _raise_open_files()
        self._client = client = Client(
            self._endpoint,
            timeout_s=target.timeout_s,
            idle_timeout_s=target.idle_timeout_s,
            connect_timeout_s=target.connect_timeout_s,
            tls=tls,
        )
        try:
            await client.open()
            if self._plan is None:
                self._plan = await self._prepare(client, fields, extra, tls, progress)
        except ConnectError as error:
            await self.close()
            raise TargetError(f"{self._secrets.mask(str(error))}. Correct target.base_url.") from error
        except TargetError as error:
            await self.close()
            raise TargetError(self._secrets.mask(str(error))) from error
        except Exception as error:
            await self.close()
            if (masked := self._secrets.mask(str(error))) != str(error):  # a bug, whose text goes to the log
                raise RuntimeError(f"{type(error).__name__}: {masked}") from None
            raise
        except BaseException:
            await self.close()
            raise
        plan = self._plan
        if plan.counts_text and target.tokenizer is not None:
            tokenizer = tokenizers.load(target.tokenizer, target.trust_remote_code)
            self._count_text = lambda text: len(tokenizer.encode(text, special_tokens=False))
        self._use(BodyMaker(self._config, plan.info.model, extra, plan.dropped, plan.uses_max_tokens))
        return plan.info

    async def prepare(self, connections: int, requests: Iterable[PlannedRequest] = ()) -> None:
        """Open connections and write out requests before the release, so that neither happens inside the load.

        Raises:
            TargetError: A connection cannot be opened.
        """
        left = SERIALISED_BYTES
        for request in requests:
            self._written[request.index] = written = self._payload(request)
            left -= len(written)
            if left <= 0:
                break
        try:
            await self._opened.prepare(connections)
        except ConnectError as error:
            words = f"{error}: {connections} connections were to be opened before the start."
            if error.is_full:
                key = "load.concurrency" if self._config.load.mode == "closed" else "load.max_in_flight"
                words += f" Raise the limit (nofile in /etc/security/limits.conf) or load.workers, or lower {key}."
            raise TargetError(words) from error

    async def perform(self, request: PlannedRequest, session: Session) -> Coroutine[Any, Any, None] | None:
        """Send one request and record its answer. A server is never lost: each request has its own error."""
        written = self._written.pop(request.index, None)
        exchange = await self._opened.perform(self._ask(request, written), session)
        return None if exchange is None or exchange.uncounted is None else self._opened.count(exchange)

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.close()

    async def _prepare(
        self,
        client: Client,
        fields: dict[str, str],
        extra: dict[str, object],
        tls: ssl.SSLContext | None,
        progress: Callable[[str], None],
    ) -> ServerPlan:
        target, api = self._config.target, self._config.target.api
        path = HEALTH.get(api, LISTS_MODELS)
        async with Inquiry(self._endpoint, fields, tls, self._secrets.mask, target.api_key_env) as inquiry:
            progress(f"asking {self._endpoint.base_url} what it serves")
            answer = await inquiry.wait(path, target.ready_timeout_s, progress)
            inquiry.check(path, answer)
            served = await inquiry.served(answer) if path == LISTS_MODELS else Served()
        model = target.model or next(iter(served.models), None)
        if model is None and api in ("completions", "chat"):
            raise TargetError(inquiry.no_model(path, answer))
        bodies, notes, counts = BodyMaker(self._config, model, extra), tuple[str, ...](), False
        if target.preflight:
            self._use(bodies)
            found = await Preflighter(client, self._endpoint, self._config, self._probe).run(
                bodies, served.models, progress
            )
            bodies, notes, counts = found.bodies, found.notes, found.token_source is TokenSource.USAGE
        dropped = tuple(OPTIONAL[name] for name in bodies.dropped)
        info = TargetInfo(model, served.versions, served.limits, notes, dropped_fields=dropped)
        return ServerPlan(
            info,
            bodies.dropped,
            bodies.uses_max_tokens,
            target.tokenizer is not None and (target.retokenize or not counts),
        )

    def _fields(self) -> dict[str, str]:
        """Return the header fields of every request, with the API key when there is one."""
        target = self._config.target
        fields = {name.lower(): self._secrets.header(value) for name, value in target.headers.items()}
        if "authorization" not in fields and (key := self._secrets.api_key(target.api_key_env)):
            fields["authorization"] = f"Bearer {key}"
        return fields

    def _context(self) -> ssl.SSLContext | None:
        target = self._config.target
        if not self._endpoint.is_tls:
            return None
        try:
            return context(target.ca and os.path.expanduser(target.ca), target.insecure)
        except ssl.SSLError as error:
            raise TargetError(
                f"target.ca = {target.ca!r} holds no certificate: set it to a PEM file of the authority that signed "
                "the server's certificate."
            ) from error
        except OSError as error:
            raise TargetError(
                f"target.ca = {target.ca!r} cannot be read: {error.strerror or error}. Set it to a file that exists."
            ) from error

    def _use(self, bodies: BodyMaker) -> None:
        """Make every following request with these bodies."""
        try:
            self._head = self._endpoint.head(bodies.path, self._fields())
        except ValueError as error:
            raise TargetError(f"target.headers (or the API key) cannot be sent: {error}.") from error
        self._bodies = bodies
        self._template = Ask(
            payload=b"",
            answer=bodies.answer(),
            max_tokens=0,
            ignores_eos=bodies.ignores_eos,
            streams=bodies.streams,
            count_text=self._count_text,
            counts_always=self._config.target.retokenize,
            mask=self._secrets.mask,
        )

    def _probe(self, bodies: BodyMaker, request: PlannedRequest) -> Ask:
        self._use(bodies)
        return self._ask(request, None)

    def _payload(self, request: PlannedRequest) -> bytes:
        if self._bodies is None:
            raise RuntimeError("the target is not open")
        return payload(self._head, encoded(self._bodies.fields(request)))

    def _ask(self, request: PlannedRequest, written: bytes | None) -> Ask:
        if self._template is None or self._bodies is None:
            raise RuntimeError("the target is not open")
        payload_bytes = written if written is not None else self._payload(request)
        return replace(self._template, payload=payload_bytes, max_tokens=request.output_len)


def _raise_open_files() -> None:
    """Allow as many open files as the system lets this process have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
