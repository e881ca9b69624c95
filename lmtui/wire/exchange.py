"""One request's answer: bytes of a connection in, ticks and one end out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.wire.answer import Answer, NotJsonError, excerpt
from lmtui.wire.http import BrokenHttpError, ContentDecoder, HttpResponse
from lmtui.wire.limits import (
    COALESCED_NS,
    HEAD_KEPT_BYTES,
    MAX_BODY_BYTES,
    MAX_ERROR_BODY_BYTES,
    MAX_ERROR_CHARS,
    MAX_EVENT_BYTES,
)
from lmtui.wire.outcome import Ending, Response, Verdict, judge
from lmtui.wire.sse import EventSplitter, EventTooLargeError
from lmtui.wire.stats import WireStats

DONE = b"[DONE]"


class Sink(Protocol):
    """Where a request is recorded while it runs: the part of `targets.base.Session` that the wire uses."""

    cut_as: Outcome | None
    on_cut: Callable[[], None] | None

    def sent(self, at_ns: int) -> None:
        """Record that the request goes now; once more when its connection had to be replaced."""

    def tick(self, at_ns: int, tokens: int) -> bool:
        """Record an arrival with the cumulative tokens; whether to stop now."""

    def over(self, at_ns: int) -> None:
        """Record that nothing more comes and nothing can be cut; `end` follows once the tokens are counted."""

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
        """Record the end, exactly once."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One request, ready to be written.

    Attributes:
        payload: Its bytes, head and body.
        answer: Makes the reader of its answer.
        max_tokens: Tokens asked for. ignores_eos: whether the server was asked not to stop before.
        streams: Whether events are expected; else one JSON object, which is one tick.
        count_text: Counts the tokens of an answer's text where the server counts none; None: chunks are counted. It is
            called in a thread, once the answer is over and its connection free, and before its end is reported.
        counts_always: Whether it also counts where the server did, beside the server's count.
        mask: Applied to every error text: hides what must not be written down.
    """

    payload: bytes
    answer: Callable[[], Answer]
    max_tokens: int
    ignores_eos: bool = True
    streams: bool = True
    count_text: Callable[[str], int] | None = None
    counts_always: bool = False
    mask: Callable[[str], str] = str


class Exchange:
    """Reads one answer and reports it to its sink.

    Attributes:
        http: The framing of the response.
        answer: What its events have said.
        ending: What ended the reading; None while it goes on.
        started: Whether a byte of the response has come.
        wasted: Ticks that came after the cut.
        uncounted: Text whose tokens are to be counted before the end can be reported; None: it is, or will be at once.
    """

    __slots__ = (
        "_ask",
        "_at_ns",
        "_body",
        "_body_bytes",
        "_cut_tokens",
        "_decoder",
        "_end",
        "_ended_inside",
        "_has_head",
        "_is_refused",
        "_response",
        "_sink",
        "_splitter",
        "_stats",
        "_tick",
        "_verdict",
        "answer",
        "ending",
        "http",
        "started",
        "uncounted",
        "wasted",
    )

    def __init__(self, ask: Ask, sink: Sink, stats: WireStats) -> None:
        self._ask, self._sink, self._stats = ask, sink, stats
        self._tick = sink.tick
        self.http = HttpResponse(self.on_body)
        self.answer = ask.answer()
        self.ending: Ending | None = None
        self.started = False
        self.wasted = 0
        self.uncounted: str | None = None
        self._splitter = EventSplitter()
        self._decoder: ContentDecoder | None = None
        self._has_head = False
        self._is_refused = False
        self._at_ns = 0
        self._body = b""
        self._body_bytes = 0
        self._ended_inside = False
        self._cut_tokens = UNKNOWN
        self._response: Response | None = None
        self._verdict: Verdict | None = None
        self._end: tuple[int, int] = (0, UNKNOWN)
        self.answer.keep_text |= ask.count_text is not None

    def feed(self, data: bytes, at_ns: int, read_ns: int) -> None:
        """Take bytes that arrived at `at_ns` and were read at `read_ns`."""
        self.started = True
        self._at_ns = at_ns
        ticks = self.answer.content_events
        try:
            self.http.feed(data, self._body_bytes)
        except BrokenHttpError as error:
            self._stop(Ending.BROKEN, str(error))
        if self.ending is None and self.http.is_whole:
            self._end_of_body()
        if read_ns - at_ns > COALESCED_NS and (shared := self.answer.content_events - ticks) > 1:
            self._stats.coalesced += shared

    @property
    def said(self) -> int:
        """What changes with all that comes but comments and blank lines, which only keep the connection alive."""
        if self._has_head and self._ask.streams and not self._is_refused:
            return -1 - self._splitter.said
        return self.http.bytes_in

    def lost(self, detail: str) -> None:
        """Take the end of the connection."""
        if self.ending is None:
            if self.http.end_of_connection():
                self._end_of_body()
            else:
                self._stop(Ending.LOST, detail)

    def expire(self, detail: str) -> None:
        """Stop because a time limit has passed."""
        self._stop(Ending.TIMEOUT, detail)

    def cut(self) -> bool:
        """Stop because the session says so, unless the plan's cancel finds the answer finished; whether it stopped."""
        cut_as = self._sink.cut_as
        if cut_as is Outcome.CANCELLED and self.answer.is_complete:
            return False
        if cut_as is Outcome.TIMEOUT:
            self._stop(Ending.TIMEOUT, "not finished within its time limit")
        else:
            self._cut_tokens = self.answer.tokens
            self._stop(Ending.CUT, "cut by the end of the run")
        return True

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body, without its framing."""
        self._body_bytes += len(data)
        if self.ending is not None and self.ending is not Ending.CUT:
            return
        if not self._has_head:
            self._head()
        if self._decoder is not None:
            data = self._decoder.decode(data, MAX_EVENT_BYTES)
        if self._is_refused or not self._ask.streams:
            self._keep(data)
            return
        splitter = self._splitter
        if not splitter.saw_field and len(self._body) < HEAD_KEPT_BYTES:
            self._body += data[:HEAD_KEPT_BYTES]
        event = b""
        try:
            for event in splitter.feed(data):
                self._event(event)
        except NotJsonError:
            self._stop(Ending.BROKEN, f"an event that is not JSON: {excerpt(event)}")
        except EventTooLargeError:
            self._stop(Ending.BROKEN, f"an event of more than {MAX_EVENT_BYTES} bytes")
        if self._body_bytes > MAX_BODY_BYTES:
            self._stop(Ending.BROKEN, f"a body of more than {MAX_BODY_BYTES} bytes")

    def _head(self) -> None:
        self._has_head = True
        status = self.http.status
        self._is_refused = status is not None and not 200 <= status < 300
        coding = self.http.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity"):
            self._decoder = ContentDecoder(coding)

    def _keep(self, data: bytes) -> None:
        """Keep a body that is read in one piece: one JSON object, or what a refusal says."""
        self._body += data
        if self._is_refused:
            if len(self._body) > MAX_ERROR_BODY_BYTES:
                self._stop(Ending.BODY, "")
        elif len(self._body) > MAX_EVENT_BYTES:
            self._stop(Ending.BROKEN, f"a body of more than {MAX_EVENT_BYTES} bytes")

    def _event(self, data: bytes) -> None:
        """Take one event; after a cut only to count what was wasted. Raises NotJsonError."""
        ending = self.ending
        if ending is not None and ending is not Ending.CUT:
            return
        if data.strip() == DONE:
            self.answer.done = True
            if ending is None:
                self._stop(Ending.DONE, "")
            return
        answer = self.answer
        if not answer.take(data):
            if answer.error is not None:
                self._stop(Ending.DONE, "")
        elif ending is not None:
            self.wasted += 1
        elif self._tick(self._at_ns, answer.tokens):
            self.cut()

    def _end_of_body(self) -> None:
        """Take the end of a body that is whole."""
        if not self._has_head:
            try:
                self._head()
            except BrokenHttpError as error:
                self._stop(Ending.BROKEN, str(error))
                return
        if self._is_refused:
            pass
        elif self._ask.streams:
            try:
                for event in self._splitter.finish():
                    self._event(event)
            except NotJsonError:
                self._ended_inside = True
        elif self._body.strip():
            try:
                self._event(self._body)
            except NotJsonError:
                self._stop(Ending.BROKEN, f"a body that is not JSON: {excerpt(self._body)}")
            self.answer.done = True
        self._stop(Ending.BODY, "")

    def _stop(self, ending: Ending, detail: str) -> None:
        """Stop at the first thing that ends the reading, and judge what has come until then."""
        if self.ending is not None:
            return
        self.ending = ending
        self._stats.events += self.answer.content_events
        self._response = Response(
            ending=ending,
            detail=detail,
            status=self.http.status,
            location=self.http.headers.get("location", ""),
            answer=self.answer,
            body=self._body,
            is_blank=not self._splitter.said if self._ask.streams else not self._body.strip(),
            saw_event=self._splitter.saw_field if self._ask.streams else bool(self._body.strip()),
            ended_inside=self._ended_inside,
        )
        self._verdict = self._judge(self._response, UNKNOWN)

    def _judge(self, response: Response, text_tokens: int) -> Verdict:
        return judge(
            response,
            max_tokens=self._ask.max_tokens,
            ignores_eos=self._ask.ignores_eos,
            cut_as=self._sink.cut_as,
            text_tokens=text_tokens,
        )

    @property
    def end_ns(self) -> int:
        """When the bytes that ended the answer arrived."""
        return self._at_ns

    def ended(self, at_ns: int, connect_ns: int) -> None:
        """Report the end, or that it is over while its text is to be counted.

        Args:
            at_ns: When it was over.
            connect_ns: How long opening the connection took; UNKNOWN when it was kept.
        """
        self._end = (at_ns, connect_ns)
        self._sink.on_cut = None  # the connection may carry another request from now on
        self.uncounted = self._text_to_count()
        if self.uncounted is None:
            self.report(UNKNOWN)
        else:
            self._sink.over(at_ns)

    def _text_to_count(self) -> str | None:
        """Return the text whose tokens are to be counted here; None when that is not asked for, or not needed."""
        answer = self.answer
        if self._ask.count_text is None or answer.n != 1 or self.ending is Ending.CUT:
            return None
        is_counted = answer.counted_tokens != UNKNOWN and not self._ask.counts_always
        if is_counted or not answer.content_events:
            return None
        text = "".join([*answer.reasoning, *answer.text])
        return text.encode("utf-8", "replace").decode()  # Half a surrogate pair is no text to a tokenizer.

    def count(self) -> int:
        """Return the tokens of the text that is uncounted. Called in a thread."""
        assert self._ask.count_text is not None
        assert self.uncounted is not None
        return self._ask.count_text(self.uncounted)

    def report(self, text_tokens: int) -> None:
        """Report the end to the sink; `text_tokens` is UNKNOWN when the text was not counted."""
        answer, verdict = self.answer, self._verdict
        assert verdict is not None, "reported before it ended"
        if text_tokens != UNKNOWN and self._response is not None:
            verdict = self._judge(self._response, text_tokens)
        wasted = UNKNOWN
        if verdict.outcome is Outcome.CANCELLED:
            wasted = self.wasted
            if self._cut_tokens != UNKNOWN and answer.tokens != UNKNOWN:
                wasted = answer.tokens - self._cut_tokens
        at_ns, connect_ns = self._end
        self._sink.end(
            verdict.outcome,
            at_ns,
            output_tokens=verdict.output_tokens,
            token_source=verdict.token_source,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            connect_ns=connect_ns,
            wasted_tokens=wasted,
            text_tokens=text_tokens,
            error=self._ask.mask(verdict.error)[:MAX_ERROR_CHARS],
        )
