"""One request with exactly the run's fields, before the run: what a server refuses is explained or left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets.server_body import OPTIONAL, BodyMaker
from lmtui.targets.server_ready import redirect
from lmtui.wire.client import Client
from lmtui.wire.exchange import Ask
from lmtui.wire.request import Endpoint
from lmtui.workload.plan import PlannedRequest

PROBE = PlannedRequest(index=0, prompt="Hello, how are you today?", output_len=2)
LONGER_PROBE = PlannedRequest(index=0, prompt=PROBE.prompt, output_len=16)
"""For servers that keep the first tokens to themselves: half a character, or the mark that reasoning begins."""
REFUSED = (400, 422)


class ProbeSession:
    """The record of a preflight request: only how it ended."""

    def __init__(self) -> None:
        self.cut_as: Outcome | None = None
        self.on_cut: Callable[[], None] | None = None
        self.outcome = Outcome.DROPPED
        self.error = ""
        self.token_source = TokenSource.NONE

    def sent(self, at_ns: int) -> None:
        """Take no notice."""

    def tick(self, at_ns: int, tokens: int) -> bool:
        """Take no notice."""
        return False

    def over(self, at_ns: int) -> None:
        """Take no notice."""

    def end(
        self,
        outcome: Outcome,
        at_ns: int,
        *,
        output_tokens: int = UNKNOWN,
        token_source: TokenSource = TokenSource.NONE,
        prompt_tokens: int = UNKNOWN,
        cached_tokens: int = UNKNOWN,
        connect_ns: int = UNKNOWN,
        let_go_ns: int = UNKNOWN,
        wasted_tokens: int = UNKNOWN,
        text_tokens: int = UNKNOWN,
        error: str = "",
    ) -> None:
        """Keep how it ended."""
        self.outcome, self.error, self.token_source = outcome, error, token_source


@dataclass(frozen=True, slots=True)
class Preflight:
    """What the preflight found: the bodies that the server takes, what was changed, and how it counts tokens."""

    bodies: BodyMaker
    notes: tuple[str, ...]
    token_source: TokenSource


@dataclass(frozen=True, slots=True)
class _Try:
    outcome: Outcome
    status: int | None
    error: str
    token_source: TokenSource
    location: str | None
    """Where a redirect leads."""


class Preflighter:
    """Tries one request until the server takes it, or until it is clear that it will not."""

    def __init__(
        self, client: Client, endpoint: Endpoint, config: Config, ask: Callable[[BodyMaker, PlannedRequest], Ask]
    ) -> None:
        self._client, self._endpoint, self._config, self._ask = client, endpoint, config, ask

    async def run(self, bodies: BodyMaker, models: tuple[str, ...], progress: Callable[[str], None]) -> Preflight:
        """Return the bodies that work.

        Raises:
            TargetError: The server refuses, and nothing optional is left to leave out.
        """
        progress(f"preflight: one request to {self._endpoint.url(bodies.path)}")
        first = await self._try(bodies)
        if first.status in REFUSED and "max_completion_tokens" in first.error and bodies.api == "chat":
            older = bodies.with_max_tokens()
            again = await self._try(older)
            if again.status not in REFUSED or "max_tokens" not in again.error:
                note = "The server does not know max_completion_tokens: max_tokens was sent instead."
                return await self._drop(older, again, (note,), models, progress)
        return await self._drop(bodies, first, (), models, progress)

    async def _drop(
        self,
        bodies: BodyMaker,
        current: _Try,
        notes: tuple[str, ...],
        models: tuple[str, ...],
        progress: Callable[[str], None],
    ) -> Preflight:
        """Leave out optional fields while the server refuses: those that it names, else one by one, else all.

        `current` is how the server took `bodies`.
        """
        while current.status in REFUSED and self._config.target.drop_rejected:
            left = bodies.optional()
            named = tuple(name for name in left if re.search(rf"\b{name}\b", current.error))
            candidates = [named] if named else [*((name,) for name in left), left]
            accepted = False
            for fields in candidates:
                if not fields:
                    continue
                progress(f"preflight: the server refuses the request; without {', '.join(fields)}?")
                without = bodies.with_dropped((*bodies.dropped, *fields))
                tried = await self._try(without)
                if tried.status not in REFUSED or (named and tried.error != current.error):
                    bodies, current, accepted = without, tried, True
                    break
            if not accepted:
                break
        if current.outcome is Outcome.NO_TOKEN:
            current = await self._try(bodies, LONGER_PROBE)
        if current.outcome not in (Outcome.OK, Outcome.SHORT):
            raise TargetError(self._explain(current, bodies, models))
        notes += tuple(f"The server rejects {name}: it is left out{_effect(name)}." for name in bodies.dropped)
        if current.outcome is Outcome.SHORT:
            notes += ("The server stopped before the asked length in the preflight, although ignore_eos was asked.",)
        return Preflight(bodies, notes, current.token_source)

    async def _try(self, bodies: BodyMaker, request: PlannedRequest = PROBE) -> _Try:
        session = ProbeSession()
        exchange = await self._client.perform(self._ask(bodies, request), session)
        if exchange is None:
            return _Try(session.outcome, None, session.error, session.token_source, None)
        http = exchange.http
        return _Try(session.outcome, http.status, session.error, session.token_source, http.headers.get("location"))

    def _explain(self, failed: _Try, bodies: BodyMaker, models: tuple[str, ...]) -> str:
        """Return what was refused, by whom, and what to change."""
        if failed.status is not None and 300 <= failed.status < 400:
            return redirect(self._endpoint, "POST", bodies.path, failed.status, failed.location)
        what = f"POST {self._endpoint.url(bodies.path)} failed ({failed.outcome.label}): {failed.error.rstrip('.')}."
        return f"{what} {self._remedy(failed, bodies, models)}"

    def _remedy(self, failed: _Try, bodies: BodyMaker, models: tuple[str, ...]) -> str:
        status, target = failed.status, self._config.target
        rejected = [name for name in bodies.fields(PROBE) if re.search(rf"\b{re.escape(name)}\b", failed.error)]
        if failed.outcome is Outcome.CONNECT_ERROR:
            return "Start the server, or correct target.base_url."
        if failed.outcome is Outcome.TIMEOUT:
            return "The server accepts requests but does not answer: look at its log, or raise the limit."
        if failed.outcome is Outcome.PROTOCOL_ERROR:
            streaming = ", and that it streams" if bodies.streams else ""
            return f'Check that target.api = "{target.api}" is what this server speaks{streaming}.'
        if failed.outcome is Outcome.NO_TOKEN:
            return (
                f'Check that target.api = "{target.api}" is what this server speaks; if its first '
                f"{LONGER_PROBE.output_len} tokens may well be empty, set target.preflight to false."
            )
        if status in (401, 403):
            variable = target.api_key_env or "that target.api_key_env names"
            return f"Set the environment variable {variable} to a key that this server accepts."
        if status == 404 and "model" in failed.error.lower() and models:
            return f"Set target.model to one that the server lists: {', '.join(models[:8])}."
        if status in (404, 405):
            return f'Check target.base_url, and that target.api = "{target.api}" is what this server speaks.'
        if status == 429:
            return "The server is full or limits requests: try again later, or with another key."
        if status in REFUSED and rejected:
            names = ", ".join(_key(name, target.extra_body) for name in rejected)
            extra = "" if target.drop_rejected else ", or set target.drop_rejected to true"
            return f"The server rejects {names}: change it{extra}."
        if status in REFUSED and models and target.model is not None and target.model not in models:
            return f"Set target.model to one that the server lists: {', '.join(models[:8])}."
        return "Look at the server's log."


def _key(name: str, extra_body: dict[str, object]) -> str:
    return f"target.extra_body.{name}" if name in extra_body else OPTIONAL.get(name, name)


def _effect(name: str) -> str:
    return ", so that an answer may stop before the asked length" if name == "ignore_eos" else ""
