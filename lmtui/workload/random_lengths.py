"""Requests of random lengths, cut from ShareGPT prompts or from the shipped text.

LMDeploy's scripts draw so, with r = range ratio:

1. `numpy.random.randint(max(int(input_len·r), 1), input_len + 1, size=n)`: all input lengths;
2. `numpy.random.randint(low, output_len + 1, size=n)`: all output lengths; low is int(output_len·r) for the engines and
   the pipeline, and max(int(output_len·r), 1) in profile_restful_api;
3. conversations of at least two turns with a prompt that is not empty, in the file's order; `random.shuffle` of them;
4. request i: the prompt of conversation i, encoded with special tokens, cut to its length or repeated up to it, and
   decoded again (special tokens stay in the text).

No length filter applies. With fewer conversations than requests benchmark_guided begins again, and the others crash;
here that is a DatasetError. A prompt that has no token at all crashes them all; here it is left out and counted. With
no file there is nothing to compare with: the
python generator shuffles the places of the shipped text at which prompts begin.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from lmtui.errors import ConfigError
from lmtui.workload import conversations, prose, sharegpt
from lmtui.workload.conversations import Progress
from lmtui.workload.cutter import Cutter, Prompt
from lmtui.workload.sample import Draft, Generators, Sample

_TELL_EVERY = 200
_EMPTY_PROMPT, _NO_PIECES = "an empty prompt", "a prompt of no tokens"


def lengths(
    count: int,
    input_len: int | None,
    output_len: int | None,
    range_ratio: float,
    is_server: bool,
    generators: Generators,
) -> tuple[list[int], list[int]]:
    """Draw all input and output lengths (raw).

    Raises:
        ConfigError: A length is missing.
    """
    for key, length in (("dataset.input_len", input_len), ("dataset.output_len", output_len)):
        if length is None:
            raise ConfigError(f"{key} is missing: a random dataset needs it (for example {key} = 256).")
    assert input_len is not None
    assert output_len is not None
    lowest_output = int(output_len * range_ratio)
    if is_server:
        lowest_output = max(lowest_output, 1)
    inputs = generators.numpy.randint(max(int(input_len * range_ratio), 1), input_len + 1, size=count)
    outputs = generators.numpy.randint(lowest_output, output_len + 1, size=count)
    return inputs.tolist(), outputs.tolist()


def sample_file(
    path: Path,
    inputs: list[int],
    outputs: list[int],
    cutter: Cutter,
    prefixes: list[Prompt],
    generators: Generators,
    progress: Progress,
    *,
    wraps: bool = False,
) -> Sample:
    """Draw requests of the given lengths from a ShareGPT file; prompts begin with the prefixes in turn.

    With `wraps` a file with fewer conversations than requests begins again, as benchmark_guided does.

    Raises:
        DatasetError: The file cannot be read, or has fewer usable conversations than requests.
    """
    found = conversations.read(path, progress)
    try:
        order: list[int] = found.with_prompt().tolist()
        dropped = dict(found.dropped) | {_EMPTY_PROMPT: len(found) - len(order), _NO_PIECES: 0}
        generators.python.shuffle(order)
        drafts: list[Draft] = []
        for turn, index in enumerate(itertools.cycle(order) if wraps else order):
            if len(drafts) == len(inputs):
                break
            if turn == len(order) and not drafts:
                break  # no conversation is usable, however often it comes
            place = len(drafts)
            prefix = prefixes[place % len(prefixes)] if prefixes else None
            prompt = cutter.fit(found[index][0], inputs[place], prefix)
            if prompt is None:
                dropped[_NO_PIECES] += turn < len(order)
                continue
            drafts.append(Draft(prompt, outputs[place]))
            if len(drafts) % _TELL_EVERY == 0:
                progress(f"drawing requests: {len(drafts)} of {len(inputs)}", len(drafts) / len(inputs))
    finally:
        found.close()
    if len(drafts) < len(inputs):
        raise sharegpt.too_few(path, len(drafts), len(inputs), dropped)
    usable = len(order) - dropped[_NO_PIECES]
    if usable < len(drafts):
        note = f"the dataset has {usable} usable conversations for {len(drafts)} requests: prompts come again"
        return Sample(drafts, dropped, (note,))
    return Sample(drafts, dropped)


def sample_text(
    inputs: list[int], outputs: list[int], cutter: Cutter, prefixes: list[Prompt], generators: Generators
) -> Sample:
    """Draw requests of the given lengths from the shipped text, each beginning at another place."""
    lap = cutter.places()
    drafts = []
    for index, place in enumerate(prose.spread(len(inputs), lap, generators.python.shuffle)):
        prefix = prefixes[index % len(prefixes)] if prefixes else None
        drafts.append(Draft(cutter.passage(place, inputs[index], prefix), outputs[index]))
    return Sample(drafts, {}, (prose.NOTE,), next_place=-(-len(inputs) // lap) * lap)
