"""Before anything is timed: wait until a server answers, and ask what it serves."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from lmtui.errors import TargetError
from lmtui.wire.answer import excerpt, mapping, sequence, string
from lmtui.wire.request import Endpoint

POLL_S = 0.5
ANSWER_WITHIN_S = 10.0
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

    async def wait(self, path: str, within_s: float, progress: Callable[[str], None]) -> httpx.Response:
        """Return the first answer to a GET that does not say that the server is still starting.

        Raises:
            TargetError: None came in time, or none can come.
        """
        begun = time.monotonic()
        url = self._endpoint.url(path)
        while True:
            cause = ""
            try:
                answer = await self._http.get(path)
                if answer.status_code not in STARTING:
                    return answer
                cause = f"HTTP {answer.status_code}: {self._mask(excerpt(answer.content))}"
            except (httpx.TransportError, OSError) as error:
                cause = self._cause(error)
            waited_s = time.monotonic() - begun
            if waited_s + POLL_S > within_s:
                raise TargetError(
                    f"{self._endpoint.base_url} did not answer within target.ready_timeout_s = {within_s:g} "
                    f"(GET {url}: {cause}). Start the server, or correct target.base_url."
                )
            progress(f"waiting for {self._endpoint.base_url} ({cause}), {waited_s:.0f} of {within_s:g} s")
            await asyncio.sleep(POLL_S)

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
        if isinstance(error, httpx.TimeoutException):
            return f"no answer within {ANSWER_WITHIN_S:g} s"
        return self._mask(str(error)) or type(error).__name__

    def check(self, path: str, answer: httpx.Response) -> None:
        """Raise TargetError for an answer that says that no request can succeed."""
        status, url = answer.status_code, self._endpoint.url(path)
        if status in (401, 403):
            variable = self._api_key_env or "target.api_key_env (which is empty)"
            raise TargetError(
                f"{url} answered HTTP {status}: {self._mask(excerpt(answer.content))}. "
                f"Set the environment variable {variable} to a key that this server accepts."
            )
        if 300 <= status < 400:
            where = self._mask(excerpt(answer.headers.get("location", "")))
            raise TargetError(f"{url} redirects to {where}: set target.base_url to where it leads.")

    async def served(self, answer: httpx.Response) -> Served:
        """Return what the answer to GET /v1/models lists, and the version when the server tells one."""
        listed: list[dict[str, Any]] = []
        if answer.status_code == 200:
            listed = [model for model in sequence(mapping(_json(answer)).get("data")) if isinstance(model, dict)]
        models = tuple(name for model in listed if (name := string(model.get("id"))))
        longest = next((n for model in listed if type(n := model.get("max_model_len")) is int), None)
        versions: dict[str, str] = {}
        try:
            told = await self._http.get("/version")
        except httpx.HTTPError:
            pass  # An extra; whether requests succeed is seen by the preflight.
        else:
            if told.status_code == 200 and (version := string(mapping(_json(told)).get("version"))):
                versions["server"] = excerpt(version)
        return Served(models, versions, {} if longest is None else {"max_model_len": longest})


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
