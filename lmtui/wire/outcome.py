"""How a request ended: the first rule that applies decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.wire.answer import BAD_FINISHES, Answer, NotJsonError, excerpt, parse, reported_error


class Ending(Enum):
    """What ended the reading of a response."""

    DONE = auto()
    """The end marker, or an error that the server reported."""
    BODY = auto()
    """The body ended as HTTP says it should."""
    LOST = auto()
    """The connection ended before the body did."""
    BROKEN = auto()
    """What came was not HTTP, not JSON, or not readable."""
    TIMEOUT = auto()
    """A time limit passed."""
    CUT = auto()
    """The session cut it."""


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """What is known of a response once its reading has ended.

    Attributes:
        ending, detail: What ended it, in a word and in words.
        status: HTTP status; None when no status line came. location: the target of a redirect.
        answer: What its events said.
        body: The start of the body, kept while no event had come.
        is_blank: Whether the body held nothing but comments and blank lines. saw_event: whether it held an event.
        ended_inside: Whether the body ended inside an event that is not whole.
    """

    ending: Ending
    detail: str
    status: int | None
    location: str
    answer: Answer
    body: bytes
    is_blank: bool
    saw_event: bool
    ended_inside: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome with its error text, and the token count with its source."""

    outcome: Outcome
    error: str
    output_tokens: int
    token_source: TokenSource


TEXT_TOLERANCE = 0.9
"""A text that is tokenised again may have fewer tokens than were made, since pieces merge: only less than this share of
what was asked for hints at a short answer, and only where the server does not say that it came to the length."""


def judge(
    response: Response,
    *,
    max_tokens: int,
    ignores_eos: bool,
    cut_as: Outcome | None,
    text_tokens: int = UNKNOWN,
) -> Verdict:
    """Return how the request ended.

    Args:
        response: What came.
        max_tokens: Tokens that were asked for.
        ignores_eos: Whether the server was asked not to stop before.
        cut_as: What the session cut it as; None when it did not.
        text_tokens: Tokens of its text, tokenised here; UNKNOWN when that was not done.
    """
    answer = response.answer
    output_tokens, source, least = answer.counted_tokens, TokenSource.USAGE, float(max_tokens)
    if output_tokens == UNKNOWN:
        least = 0.0 if _says_length(answer) or answer.ends_with_body else max_tokens * TEXT_TOLERANCE
        output_tokens, source = text_tokens, TokenSource.TEXT
    if output_tokens == UNKNOWN:
        chunks = answer.content_events
        # A chunk may hold several tokens: their number proves nothing.
        output_tokens, source, least = (chunks, TokenSource.CHUNKS, 0.0) if chunks else (UNKNOWN, TokenSource.NONE, 0.0)
    outcome, error = _outcome(response, cut_as)
    # A server that is told to go on may still say "stop" of the last token: a count that can be trusted says more.
    is_whole = source in (TokenSource.USAGE, TokenSource.TEXT) and output_tokens >= max_tokens * answer.n
    is_short = not is_whole and (0 <= output_tokens < least or "stop" in answer.finish.values())
    if outcome is Outcome.OK and ignores_eos and is_short:
        outcome = Outcome.SHORT
    return Verdict(outcome, error, output_tokens, source)


def _says_length(answer: Answer) -> bool:
    """Whether every finish reason is that the asked length was reached."""
    return bool(answer.finish) and set(answer.finish.values()) == {"length"}


def _outcome(response: Response, cut_as: Outcome | None) -> tuple[Outcome, str]:
    answer, ending = response.answer, response.ending
    if refused := _refused(response):
        return refused
    if answer.error is not None:
        return Outcome.STREAM_ERROR, answer.error
    if ending is Ending.BODY and not response.saw_event and not response.is_blank:
        return _no_stream(response.body)
    is_complete = answer.is_complete or (answer.ends_with_body and ending is Ending.BODY)
    if not is_complete and (failed := _failed(response, cut_as)):
        return failed
    bad = next((reason for reason in answer.finish.values() if reason in BAD_FINISHES), None)
    if bad is not None:
        return Outcome.BAD_FINISH, f"the server ended the answer with finish_reason {bad}"
    if not answer.content_events:
        return Outcome.NO_TOKEN, "the server finished without any output"
    if not is_complete:
        return Outcome.TRUNCATED, "the stream ended without a finish_reason and without [DONE]"
    return Outcome.OK, ""


def _refused(response: Response) -> tuple[Outcome, str] | None:
    status = response.status
    if status is None or 200 <= status < 300:
        return None
    if status < 400:
        where = f" to {excerpt(response.location)}" if response.location else ""
        return Outcome.HTTP_ERROR, f"HTTP {status}: redirected{where}; set target.base_url to where it leads"
    words = excerpt(response.body)
    return Outcome.HTTP_ERROR, f"HTTP {status}: {words}" if words else f"HTTP {status} without a body"


def _no_stream(body: bytes) -> tuple[Outcome, str]:
    """Judge a complete body that is no event stream."""
    try:
        error = reported_error(parse(body))
    except NotJsonError:
        error = None
    if error is not None:
        return Outcome.STREAM_ERROR, error
    return Outcome.PROTOCOL_ERROR, f"the server did not answer with an event stream: {excerpt(body)}"


def _failed(response: Response, cut_as: Outcome | None) -> tuple[Outcome, str] | None:
    """Judge an answer that is not complete by what ended it."""
    if response.ending is Ending.CUT:
        outcome = cut_as if cut_as is not None else Outcome.ABORTED
        return outcome, response.detail if outcome is not Outcome.CANCELLED else ""
    if response.ending is Ending.TIMEOUT:
        return Outcome.TIMEOUT, response.detail
    if response.ending is Ending.BROKEN:
        return Outcome.PROTOCOL_ERROR, response.detail
    if response.ending is Ending.LOST:
        return Outcome.TRUNCATED, response.detail
    if response.ended_inside:
        return Outcome.TRUNCATED, "the body ended inside an event"
    return None
