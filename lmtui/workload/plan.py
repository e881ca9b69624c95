"""The plan: what a config asks for, drawn with its seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray


class Message(TypedDict):
    """One turn of a chat."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRequest:
    """One request, complete: what is sent, when, and when it is cut.

    Attributes:
        index: Place in the plan, from 0; the request's name everywhere (tick log, errors).
        prompt: Its text ("" when it exists only as token ids).
        output_len: Tokens asked for, at least 1.
        input_len: Tokens of the prompt as drawn; None without a tokenizer.
        token_ids: The prompt's token ids, int32; None without a tokenizer.
        messages: The chat turns of a dataset that has them; None: `prompt` is the one user turn.
        due_s: Seconds after the start at which it should go (open load, trace); None: when a slot is free.
        cancel_after: Cut once more tokens than this have come (what the script draws); None: not cut by tokens.
        cancel_after_s: Cut this many seconds after it was sent; None: not cut by time.
        cancel_before_token: The cut by time counts only while no token has come.
        model: The model (or LoRA adapter) that this request names to a server; None: the config's.
    """

    index: int
    prompt: str
    output_len: int
    input_len: int | None = None
    token_ids: NDArray[np.int32] | None = None
    messages: tuple[Message, ...] | None = None
    due_s: float | None = None
    cancel_after: int | None = None
    cancel_after_s: float | None = None
    cancel_before_token: bool = False
    model: str | None = None

    @property
    def is_cancel_planned(self) -> bool:
        """Whether the plan picked it to be cancelled."""
        return self.cancel_after is not None or self.cancel_after_s is not None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All requests of a run, in the order they are sent.

    Attributes:
        requests: The measured ones.
        warmup: Requests that are sent before the start and not measured; their prompts occur in no measured one.
        raised: How many output lengths of 0 became 1.
        dropped: What each filter of the dataset dropped: words for the filter → count.
        notes: Sentences about what was done on the user's behalf.
    """

    requests: tuple[PlannedRequest, ...]
    warmup: tuple[PlannedRequest, ...] = ()
    raised: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def cycled(plan: Plan, index: int) -> PlannedRequest:
    """Return request number `index` of a run that repeats its plan (closed load with `load.duration_s`).

    Beyond the plan's end its requests come again in order, under their own index; due times go on where the plan's
    end, one mean gap after its last one. (The plan of an open load with a duration already has all its requests.)
    """
    count = len(plan.requests)
    lap, place = divmod(index, count)
    request = plan.requests[place]
    if lap == 0:
        return request
    due_s = request.due_s
    if due_s is not None:
        last_s = plan.requests[-1].due_s or 0.0
        due_s += lap * last_s * count / max(count - 1, 1)
    return replace(request, index=index, due_s=due_s)
