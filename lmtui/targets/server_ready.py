"""Before anything is timed: wait until a server answers, and ask what it serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx

from lmtui.config.server_url import normalised
from lmtui.errors import TargetError
from lmtui.wire.answer import excerpt, mapping, sequence, string
from lmtui.wire.request import Endpoint

POLL_S = 0.5
ANSWER_WITHIN_S = 10.0
TELL_EVERY_S = 5.0
MOST_BYTES = 16 * 1024 * 1024
"""Largest answer to a question; a list of models is a page."""
STARTING = frozenset({502, 503, 504})
"""Statuses of a server, or of a proxy before it, that is still starting."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a server says of itself.

    Attributes:
        models: Names it lists, in its order; () when it lists none.
        versions: Name → version. limits: words for a limit → value.
    """

    models: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, whole: its status, its header fields, and its body without content coding."""

    status: int
    headers: httpx.Headers
    body: bytes

    def json(self) -> Any:
        """Return the body's value; None when it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Inquiry:
    """Asks one server untimed questions; a context, within which its connections are kept."""

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
        mask: Callable[[str], str],
        api_key_env: str,
    ) -> None:
        self._endpoint, self._mask, self._api_key_env = endpoint, mask, api_key_env
        transport = httpx.AsyncHTTPTransport(uds=endpoint.unix_path, verify=context or True)
        base = f"{'https' if endpoint.is_tls else 'http'}://{endpoint.authority}{endpoint.prefix}"
        self._http = httpx.AsyncClient(
            base_url=base, headers=dict(headers), timeout=ANSWER_WITHIN_S, trust_env=False, transport=transport
        )

    async def __aenter__(self) -> Inquiry:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._http.__aexit__(*exception)

    async def wait(self, path: str, within_s: float, progress: Callable[[str], None]) -> Reply:
        """Return the first answer to a GET that does not say that the server is still starting.

        Raises:
            TargetError: None came in time, or none can come.
        """
        begun = time.monotonic()
        told_s = -TELL_EVERY_S
        url = self._endpoint.url(path)
        while True:
            cause = ""
            left_s = within_s - (time.monotonic() - begun)
            probe_s = min(max(left_s, POLL_S), ANSWER_WITHIN_S)
            try:
                answer = await self._get(path, probe_s)
                if answer.status not in STARTING:
                    return answer
                cause = f"HTTP {answer.status}: {self._mask(excerpt(answer.body))}"
            except (asyncio.TimeoutError, TimeoutError, httpx.TimeoutException):
                cause = f"no answer within {probe_s:.3g} s"
            except (httpx.RequestError, OSError) as error:
                cause = self._cause(error)
            waited_s = time.monotonic() - begun
            if waited_s + POLL_S > within_s:
                raise TargetError(
                    f"{self._endpoint.base_url} did not answer within {within_s:g} s (GET {url}: {cause}). Start the "
                    "server, or correct target.base_url; target.ready_timeout_s is how long a run waits for it."
                )
            if waited_s - told_s >= TELL_EVERY_S:
                progress(f"waiting for {self._endpoint.base_url} ({cause}), {waited_s:.0f} of {within_s:g} s")
                told_s = waited_s
            await asyncio.sleep(POLL_S)

    async def _get(self, path: str, within_s: float) -> Reply:
        """Return an answer, all of which came in time. Raises what httpx and asyncio.wait_for do, and TargetError."""

        async def whole() -> Reply:
            body = b""
            async with self._http.stream("GET", path, timeout=within_s) as answer:
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise TargetError(
                            f"GET {self._endpoint.url(path)} answered with over {MOST_BYTES >> 20} MiB: "
                            "target.base_url is probably wrong, for no list of models is that long."
                        )
            return Reply(answer.status_code, answer.headers, body)

        return await asyncio.wait_for(whole(), within_s)

    def _cause(self, error: Exception) -> str:
        """Return why there was no answer; raise when waiting cannot help."""
        chain: list[BaseException] = [error]
        while (below := chain[-1].__cause__ or chain[-1].__context__) is not None and below not in chain:
            chain.append(below)
        base = self._endpoint.base_url
        for link in chain:
            if isinstance(link, ssl.SSLCertVerificationError):
                raise TargetError(
                    f"The certificate of {base} is refused: {link.verify_message}. "
                    "Set target.ca to the file of the authority that signed it, or target.insecure to true."
                ) from error
            if isinstance(link, ssl.SSLError):
                raise TargetError(
                    f"{base} does not speak TLS ({link.reason or link}). Use http:// in target.base_url."
                ) from error
        words = self._mask(excerpt(str(error))) or type(error).__name__
        if "location header" in words:
            raise TargetError(
                f"{base} redirects to what is no URL ({words.rstrip('.')}): "
                "set target.base_url to the URL of the server itself."
            ) from error
        if isinstance(error, (httpx.LocalProtocolError, httpx.DecodingError)) or "illegal status line" in words:
            raise TargetError(
                f"{base} does not answer in HTTP ({words}): correct target.base_url, its port above all."
            ) from error
        return words

    def check(self, path: str, answer: Reply) -> None:
        """Raise TargetError for an answer that says that no request can succeed."""
        status, url = answer.status, self._endpoint.url(path)
        if status in (401, 403):
            variable = self._api_key_env or "target.api_key_env (which is empty)"
            raise TargetError(
                f"{url} answered HTTP {status}: {self._mask(excerpt(answer.body))}. "
                f"Set the environment variable {variable} to a key that this server accepts."
            )
        if 300 <= status < 400:
            raise TargetError(self._mask(redirect(self._endpoint, "GET", path, status, answer.headers.get("location"))))

    def no_model(self, path: str, answer: Reply) -> str:
        """Return why the answer to GET /v1/models names no model, and what to do."""
        status, words = answer.status, self._mask(excerpt(answer.body)) or "an empty body"
        told = f"GET {self._endpoint.url(path)} answered HTTP {status}: {words.rstrip('.')}."
        named = "set target.model to the model's name"
        if status >= 500:
            return f"{told} The server is broken: look at its log; or {named}, if it answers requests all the same."
        is_json = answer.json() is not None
        if status in (404, 405) or not is_json:
            return f"{told} It lists no model: target.base_url is probably wrong; if it is right, {named}."
        return f"{told} It lists no model: {named}."

    async def served(self, answer: Reply) -> Served:
        """Return what the answer to GET /v1/models lists, and the version when the server tells one."""
        listed: list[dict[str, Any]] = []
        if answer.status == 200:
            listed = [model for model in sequence(mapping(answer.json()).get("data")) if isinstance(model, dict)]
        models = tuple(name for model in listed if (name := string(model.get("id"))))
        longest = next((n for model in listed if type(n := model.get("max_model_len")) is int), None)
        versions: dict[str, str] = {}
        with contextlib.suppress(httpx.RequestError, OSError, asyncio.TimeoutError, TimeoutError, TargetError):
            # An extra; whether requests succeed is seen by the preflight.
            told = await self._get("/version", ANSWER_WITHIN_S)
            if told.status == 200 and (version := string(mapping(told.json()).get("version"))):
                versions["server"] = excerpt(version)
        return Served(models, versions, {} if longest is None else {"max_model_len": longest})


def redirect(endpoint: Endpoint, method: str, path: str, status: int, location: str | None) -> str:
    """Return where a server sends a request instead of answering it, and what to set target.base_url to.

    Redirects are not followed: inside a timed stream that would measure another server, and two requests as one.
    """
    asked = endpoint.url(path)
    if not location:
        return (
            f"{method} {asked} answered HTTP {status}, a redirect that does not say where to: "
            "set target.base_url to the URL of the server itself."
        )
    try:
        leads_to = urljoin("" if endpoint.unix_path else asked, location)
        base = _base_of(leads_to, path)
    except ValueError:
        leads_to, base = location, None
    told = f"{method} {asked} redirects to {excerpt(leads_to)} (HTTP {status})"
    if base is None:
        return f"{told}, which is not where this API lies: set target.base_url to the URL of the server itself."
    if base == endpoint.base_url:
        return (
            f"{told}, and target.base_url is that already: set it to a server that answers at {path} itself, "
            "not to a proxy that changes paths."
        )
    return f"{told}: set target.base_url to {excerpt(base)}."


def _base_of(url: str, path: str) -> str | None:
    """Return the target.base_url with which `url` is where `path` lies; None when there is none."""
    parts = urlsplit(url)
    below = parts.path.rstrip("/")
    if not below.endswith(path):
        return None
    return normalised(urlunsplit((parts.scheme, parts.netloc, below.removesuffix(path), parts.query, parts.fragment)))
