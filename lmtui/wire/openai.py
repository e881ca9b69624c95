"""OpenAI's two streaming APIs, completions and chat, as servers really send them."""

from __future__ import annotations

from typing import Any

import msgspec

from lmtui.metrics.sessions import UNKNOWN
from lmtui.wire.answer import Answer, count, mapping, parse, reported_error, sequence, string


class Function(msgspec.Struct, gc=False):
    """The function of a tool call; its parts come piece by piece."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    """A piece of one tool call."""

    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    """What a chat event adds to one choice; also the whole message of an answer that is not streamed."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None

    @property
    def calls_tool(self) -> bool:
        """Whether it carries part of a tool call's name or arguments."""
        return any(f is not None and (f.name or f.arguments) for f in (c.function for c in self.tool_calls or ()))


class Choice(msgspec.Struct, gc=False):
    """One choice of an event; `output_ids` is LMDeploy's name for its new token ids, `token_ids` vLLM's."""

    index: int = 0
    text: str | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    output_ids: list[int] | None = None
    token_ids: list[int] | None = None


class PromptDetails(msgspec.Struct, gc=False):
    """Where the prompt's tokens came from."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """The server's own counts."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class Event(msgspec.Struct, gc=False):
    """The parts of an event that are looked at; everything else is skipped unread."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    object: str | None = None
    error_code: Any = None


_decode = msgspec.json.Decoder(Event).decode


class OpenAIAnswer(Answer):
    """An answer of `/v1/completions` or `/v1/chat/completions`, streamed or in one piece."""

    __slots__ = ()

    def take(self, data: bytes) -> bool:
        """Read one event."""
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = _lenient(data)
        if event.error is not None or event.error_code is not None or event.object == "error":
            self.error = reported_error(parse(data))
            if self.error is not None:
                return False
        running = UNKNOWN
        if event.usage is not None:
            running = self._count(event.usage)
        is_content, new_ids = False, 0
        for choice in event.choices or ():
            index = choice.index
            if index:
                self._others.add(index)
            if choice.finish_reason:
                self.finish[index] = choice.finish_reason
            text, reasoning, called = choice.text, None, False
            delta = choice.delta or choice.message
            if delta is not None:
                text = delta.content or delta.refusal or text
                reasoning = delta.reasoning_content or delta.reasoning
                called = delta.tool_calls is not None and delta.calls_tool
            ids = choice.output_ids or choice.token_ids
            if text or reasoning or called or ids:
                is_content = True
                if ids:
                    new_ids += len(ids)
                if self.keep_text and index == 0:
                    self.text.append(text or "")
                    self.reasoning.append(reasoning or "")
        if is_content:
            self._content(new_ids, running)
        return is_content

    def _count(self, usage: Usage) -> int:
        """Take the counts that are there; return the running count of output tokens."""
        if (prompt := count(usage.prompt_tokens)) != UNKNOWN:
            self.prompt_tokens = prompt
        if (details := usage.prompt_tokens_details) and (cached := count(details.cached_tokens)) != UNKNOWN:
            self.cached_tokens = cached
        if (output := count(usage.completion_tokens)) != UNKNOWN:
            self.output_tokens = output
        return output


def _lenient(data: bytes) -> Event:
    """Return an event that the typed decoder refused: parts of another type than expected are left out."""
    value = parse(data)
    fields = mapping(value)
    usage = mapping(fields.get("usage"))
    return Event(
        choices=[_choice(choice) for choice in sequence(fields.get("choices")) if isinstance(choice, dict)],
        usage=Usage(
            prompt_tokens=count(usage.get("prompt_tokens")),
            completion_tokens=count(usage.get("completion_tokens")),
            prompt_tokens_details=PromptDetails(
                count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
            ),
        ),
        error=fields.get("error"),
        object=string(fields.get("object")),
        error_code=fields.get("error_code"),
    )


def _choice(choice: dict[str, Any]) -> Choice:
    index = choice.get("index")
    return Choice(
        index=index if type(index) is int else 0,
        text=string(choice.get("text")),
        delta=_delta(mapping(choice.get("delta"))),
        message=_delta(mapping(choice.get("message"))),
        finish_reason=string(choice.get("finish_reason")),
        output_ids=sequence(choice.get("output_ids")),
        token_ids=sequence(choice.get("token_ids")),
    )


def _delta(delta: dict[str, Any]) -> Delta | None:
    if not delta:
        return None
    functions = [mapping(mapping(call).get("function")) for call in sequence(delta.get("tool_calls"))]
    return Delta(
        content=string(delta.get("content")),
        refusal=string(delta.get("refusal")),
        reasoning_content=string(delta.get("reasoning_content")),
        reasoning=string(delta.get("reasoning")),
        tool_calls=[ToolCall(Function(string(f.get("name")), string(f.get("arguments")))) for f in functions],
    )
