"""What every dataset gives: requests whose lengths are raw, and what happened to the rest."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from lmtui.workload.cutter import Prompt
from lmtui.workload.plan import Message


class Generators:
    """The two private generators of a plan, seeded as LMDeploy's scripts seed the global ones: the same sequences.

    Attributes:
        python: What `random` is to the scripts: dataset shuffle, cancel picks and points.
        numpy: What `numpy.random` is to the scripts: random lengths, arrival gaps.
    """

    def __init__(self, seed: int) -> None:
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A request as the dataset gives it; its output length is raw and may be 0."""

    prompt: Prompt
    output_len: int
    messages: tuple[Message, ...] | None = None
    due_s: float | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The requests a dataset gave.

    Attributes:
        drafts: In the order they are sent.
        dropped: Why others were left out → how many.
        notes: Sentences for the plan.
        next_place: First place of the shipped text from which no prompt was cut.
    """

    drafts: list[Draft]
    dropped: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    next_place: int = 0
