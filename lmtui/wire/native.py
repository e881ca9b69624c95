"""The servers' own streaming APIs: SGLang's (and LMDeploy's) `/generate`, TensorRT-LLM's `generate_stream`."""

from __future__ import annotations

from typing import Any

import msgspec

from lmtui.metrics.sessions import UNKNOWN
from lmtui.wire.answer import Answer, count, mapping, parse, reported_error, sequence, string


class Meta(msgspec.Struct, gc=False):
    """SGLang's facts about the answer; `finish_reason` is an object with a `type`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: Any = None


class GenerateEvent(msgspec.Struct, gc=False):
    """One event of `/generate`."""

    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: Meta | None = None
    error: Any = None
    object: str | None = None
    error_code: Any = None


class TrtEvent(msgspec.Struct, gc=False):
    """One event of `generate_stream`."""

    text_output: str | None = None
    error: Any = None
    object: str | None = None
    error_code: Any = None


_decode_generate = msgspec.json.Decoder(GenerateEvent).decode
_decode_trt = msgspec.json.Decoder(TrtEvent).decode


class SglangAnswer(Answer):
    """An answer of `/generate`: each event has everything so far, or only what is new."""

    __slots__ = ("_seen_ids", "_seen_text")

    def __init__(self, n: int = 1, keep_text: bool = False) -> None:
        super().__init__(n, keep_text)
        self._seen_text = ""
        self._seen_ids = 0

    def take(self, data: bytes) -> bool:
        """Read one event."""
        try:
            event = _decode_generate(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = _lenient_generate(data)
        if event.error is not None or event.error_code is not None or event.object == "error":
            self.error = reported_error(parse(data))
            if self.error is not None:
                return False
        meta = event.meta_info or Meta()
        before, running = self.output_tokens, count(meta.completion_tokens)
        if running != UNKNOWN:
            self.output_tokens = running
        if (prompt := count(meta.prompt_tokens)) != UNKNOWN:
            self.prompt_tokens = prompt
        if (cached := count(meta.cached_tokens)) != UNKNOWN:
            self.cached_tokens = cached
        if reason := meta.finish_reason:
            self.finish[0] = reason if isinstance(reason, str) else string(mapping(reason).get("type")) or "unknown"
        text, ids = event.text or "", len(event.output_ids or ())
        if self._repeats(text, ids if event.output_ids is not None else UNKNOWN, running, max(before, 0)):
            new_text, new_ids = text[len(self._seen_text) :], ids - self._seen_ids
            self._seen_text, self._seen_ids = text, ids
        else:
            new_text, new_ids = text, ids
            self._seen_text += text
            self._seen_ids += ids
        if not new_text and new_ids <= 0:
            return False
        self._content(max(new_ids, 0), running)
        if self.keep_text:
            self.text.append(new_text)
        return True

    def _repeats(self, text: str, ids: int, running: int, before: int) -> bool:
        """Whether the event has everything so far, by its ids when they tell, else by its text."""
        if ids != UNKNOWN and running != UNKNOWN:
            if ids == running - before:
                return False
            if ids == running:
                return True
        return text.startswith(self._seen_text)


class TrtAnswer(Answer):
    """An answer of `generate_stream`: text and nothing else; the end of the HTTP body is the end.

    With `accumulate_tokens` each event has all the text so far, which is told by its beginning with it.
    """

    __slots__ = ("_seen_text",)

    def __init__(self, n: int = 1, keep_text: bool = False) -> None:
        super().__init__(n, keep_text)
        self._seen_text = ""

    @property
    def ends_with_body(self) -> bool:
        """True: there is no other end marker."""
        return True

    def take(self, data: bytes) -> bool:
        """Read one event."""
        try:
            event = _decode_trt(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fields = mapping(parse(data))
            event = TrtEvent(
                string(fields.get("text_output")),
                fields.get("error"),
                string(fields.get("object")),
                fields.get("error_code"),
            )
        if event.error is not None or event.error_code is not None or event.object == "error":
            self.error = reported_error(parse(data))
            if self.error is not None:
                return False
        if not event.text_output:
            return False
        self._content(0, UNKNOWN)
        if self.keep_text:
            text = event.text_output
            repeats = text.startswith(self._seen_text)
            self.text.append(text[len(self._seen_text) :] if repeats else text)
            self._seen_text = text if repeats else self._seen_text + text
        return True


def _lenient_generate(data: bytes) -> GenerateEvent:
    """Return an event that the typed decoder refused: parts of another type than expected are left out."""
    fields = mapping(parse(data))
    meta = mapping(fields.get("meta_info"))
    ids = fields.get("output_ids")
    return GenerateEvent(
        text=string(fields.get("text")),
        output_ids=sequence(ids) if ids is not None else None,
        meta_info=Meta(
            count(meta.get("prompt_tokens")),
            count(meta.get("completion_tokens")),
            count(meta.get("cached_tokens")),
            meta.get("finish_reason"),
        ),
        error=fields.get("error"),
        object=string(fields.get("object")),
        error_code=fields.get("error_code"),
    )
