"""What a request to a server says: its path and the fields of its body, by API and preset."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lmtui.config.model import Config
from lmtui.targets.guided import is_guided, server_fields
from lmtui.wire.answer import Answer
from lmtui.wire.native import SglangAnswer, TrtAnswer
from lmtui.wire.openai import OpenAIAnswer
from lmtui.workload.plan import PlannedRequest

PATHS: Mapping[str, str] = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "sglang": "/generate",
    "trt": "/v2/models/ensemble/generate_stream",
}
ANSWERS: Mapping[str, type[Answer]] = {
    "completions": OpenAIAnswer,
    "chat": OpenAIAnswer,
    "sglang": SglangAnswer,
    "trt": TrtAnswer,
}
OPTIONAL: Mapping[str, str] = {
    "ignore_eos": "request.ignore_eos",
    "stream_options": "stream_options",
    "top_k": "request.top_k",
    "top_p": "request.top_p",
    "temperature": "request.temperature",
}
"""Fields that a run can do without, in the order in which they are tried → how a result names them."""

TRT_NO_END_ID = 1048576
"""An end token that no vocabulary has: how TensorRT-LLM is told to ignore the real one."""


class BodyMaker:
    """Makes the bodies of all requests of a run.

    Attributes:
        api: The API's name. path: its path below the server's URL.
        dropped: Fields (keys of OPTIONAL) that are left out. uses_max_tokens: the chat API is told `max_tokens`.
    """

    def __init__(
        self,
        config: Config,
        model: str | None,
        extra: Mapping[str, Any],
        dropped: tuple[str, ...] = (),
        uses_max_tokens: bool = False,
    ) -> None:
        """Make it; `extra` is `target.extra_body` with its variables expanded."""
        self.api = config.target.api
        self.path = PATHS[self.api]
        self.dropped = dropped
        self.uses_max_tokens = uses_max_tokens
        self._config, self._model, self._extra = config, model, extra
        self._guided = server_fields(config)

    def with_dropped(self, dropped: tuple[str, ...]) -> BodyMaker:
        """Return one that leaves out these fields."""
        return BodyMaker(self._config, self._model, self._extra, dropped, self.uses_max_tokens)

    def with_max_tokens(self) -> BodyMaker:
        """Return one that says `max_tokens` to the chat API, as before OpenAI renamed it."""
        return BodyMaker(self._config, self._model, self._extra, self.dropped, True)

    def fields(self, request: PlannedRequest) -> dict[str, Any]:
        """Return the body's fields."""
        made = {"completions": self._completions, "chat": self._chat, "sglang": self._sglang, "trt": self._trt}
        return merged(made[self.api](request), self._extra)

    def optional(self) -> tuple[str, ...]:
        """Return the optional fields that are sent now, in the order in which they are tried."""
        sent = self.fields(PlannedRequest(index=0, prompt="", output_len=1))
        nested = sent.get("sampling_params")
        names = {*sent, *nested} if isinstance(nested, dict) else set(sent)
        if self.api == "trt" and "end_id" in sent:
            names.add("ignore_eos")
        return tuple(name for name in OPTIONAL if name in names and name not in self._extra)

    @property
    def streams(self) -> bool:
        """Whether an event stream is expected; generate_stream sends one, of one event, also when none is asked for."""
        return self.api == "trt" or bool(self._sent().get("stream", True))

    @property
    def ignores_eos(self) -> bool:
        """Whether the server is asked not to stop before the asked length, and no grammar can end an answer."""
        if is_guided(self._config):
            return False
        sent = self._sent()
        nested = sent.get("sampling_params")
        if self.api == "trt":
            return "end_id" in sent
        return bool(sent.get("ignore_eos") or (isinstance(nested, dict) and nested.get("ignore_eos")))

    def answer(self) -> Callable[[], Answer]:
        """Return what makes the reader of an answer."""
        kind, n = ANSWERS[self.api], self._sent().get("n", 1)
        choices = n if isinstance(n, int) and n > 0 else 1
        return lambda: kind(choices)

    def _sent(self) -> dict[str, Any]:
        return self.fields(PlannedRequest(index=0, prompt="", output_len=1))

    def _sampling(self) -> dict[str, Any]:
        """Return the sampling fields that were given and are not dropped."""
        asked = self._config.request
        given = {"temperature": asked.temperature, "top_p": asked.top_p, "top_k": asked.top_k}
        return {name: value for name, value in given.items() if value is not None and name not in self.dropped}

    @property
    def _asks_ignore_eos(self) -> bool:
        return self._config.request.ignore_eos and "ignore_eos" not in self.dropped

    def _openai_tail(self) -> dict[str, Any]:
        tail: dict[str, Any] = {"stream": self._config.request.stream}
        if self._config.request.stream and "stream_options" not in self.dropped:
            tail["stream_options"] = {"include_usage": True}
        if self._asks_ignore_eos:
            tail["ignore_eos"] = True
        return {**tail, **self._guided}

    def _model_of(self, request: PlannedRequest) -> str | None:
        return self._model if request.model is None else request.model

    def _completions(self, request: PlannedRequest) -> dict[str, Any]:
        prompt: Any = request.prompt
        if not request.prompt and request.token_ids is not None:
            prompt = request.token_ids.tolist()
        length = {"max_tokens": request.output_len}
        return {"model": self._model_of(request), "prompt": prompt, **self._sampling(), **length, **self._openai_tail()}

    def _chat(self, request: PlannedRequest) -> dict[str, Any]:
        messages = list(request.messages or ({"role": "user", "content": request.prompt},))
        length = {"max_tokens" if self.uses_max_tokens else "max_completion_tokens": request.output_len}
        return {
            "model": self._model_of(request),
            "messages": messages,
            **self._sampling(),
            **length,
            **self._openai_tail(),
        }

    def _sglang(self, request: PlannedRequest) -> dict[str, Any]:
        # LMDeploy's /generate answers as SGLang's does, but takes flat fields under its own names.
        is_lmdeploy = self._config.target.preset == "lmdeploy"
        parameters = {**self._sampling(), "max_tokens" if is_lmdeploy else "max_new_tokens": request.output_len}
        if self._asks_ignore_eos:
            parameters["ignore_eos"] = True
        prompt: dict[str, Any] = {"prompt" if is_lmdeploy else "text": request.prompt}
        if not request.prompt and request.token_ids is not None:
            prompt = {"input_ids": request.token_ids.tolist()}
        sampling = parameters if is_lmdeploy else {"sampling_params": parameters}
        return {**prompt, **sampling, "stream": self._config.request.stream}

    def _trt(self, request: PlannedRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {"accumulate_tokens": True, "text_input": request.prompt, **self._sampling()}
        fields |= {"max_tokens": request.output_len, "stream": self._config.request.stream}
        if self._asks_ignore_eos:
            fields |= {"min_length": request.output_len, "end_id": TRT_NO_END_ID}
        return fields


def merged(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the fields of `extra` put over it, tables within tables too."""
    result = dict(base)
    for name, value in extra.items():
        below = result.get(name)
        result[name] = merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


def encoded(fields: Mapping[str, Any]) -> bytes:
    """Return a body's bytes; half of a surrogate pair in a prompt goes as its escape."""
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:
        return json.dumps(fields).encode()
