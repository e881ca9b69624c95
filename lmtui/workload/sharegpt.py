"""Requests from ShareGPT conversations: the first turn is the prompt, the second says how long the answer is.

LMDeploy's scripts (profile_throughput, profile_pipeline_api, benchmark_guided and profile_restful_api alike) draw so:

1. conversations of at least two turns, the first two kept, in the file's order;
2. `random.shuffle` of all of them;
3. from the front, until there are enough: encode prompt and completion (with special tokens); leave out a prompt or an
   output length under 4, a prompt over 1024, and, unless the output length is fixed, a sum over 2048.

A shuffle swaps places only, so shuffling the numbers 0..n-1 orders the conversations just as shuffling them would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lmtui.errors import ConfigError, DatasetError
from lmtui.workload import conversations
from lmtui.workload.conversations import Conversations, Progress
from lmtui.workload.cutter import Cutter, Prompt
from lmtui.workload.sample import Draft, Generators, Sample

SHORTEST, LONGEST_PROMPT, LONGEST_SUM = 4, 1024, 2048

_TELL_EVERY = 200


def sample(
    path: Path,
    count: int,
    output_len: int | None,
    cutter: Cutter,
    prefixes: list[Prompt],
    generators: Generators,
    progress: Progress,
    *,
    takes_fewer: bool = False,
) -> Sample:
    """Draw `count` requests.

    Args:
        path: The file.
        count: How many.
        output_len: Tokens asked for; None: as many as the completion has.
        cutter: Counts; where it counts words, so do the filters.
        prefixes: Shared prefixes that prompts begin with in turn; none: [].
        generators: `python` shuffles.
        progress: Is told how far it is.
        takes_fewer: Whether the usable ones are enough when there are fewer, as for the scripts.

    Raises:
        ConfigError: The output length is too small, or unknown without a tokenizer.
        DatasetError: The file cannot be read, or too few conversations are usable.
    """
    if output_len is not None and output_len < SHORTEST:
        raise ConfigError(
            f"dataset.output_len = {output_len} is too small for sharegpt, which leaves out answers of under "
            f"{SHORTEST} tokens: set it to {SHORTEST} or more, or leave it out."
        )
    if output_len is None and not cutter.knows_tokens:
        raise ConfigError(
            "Without a tokenizer the answers of a sharegpt dataset have no known length: "
            "set target.tokenizer, or dataset.output_len."
        )
    found = conversations.read(path, progress)
    try:
        made = _draw(found, count, output_len, cutter, prefixes, generators, progress)
    finally:
        found.close()
    if (usable := len(made.drafts)) == count:
        return made
    if not (takes_fewer and usable):
        raise too_few(path, usable, count, made.dropped)
    note = f"the dataset has {usable} usable conversations of the {count} asked for: {usable} requests are sent"
    return replace(made, notes=(*made.notes, note))


def _draw(
    found: Conversations,
    count: int,
    output_len: int | None,
    cutter: Cutter,
    prefixes: list[Prompt],
    generators: Generators,
    progress: Progress,
) -> Sample:
    unit = cutter.unit
    short_prompt, short_output = f"prompt under {SHORTEST} {unit}", f"output under {SHORTEST} {unit}"
    long_prompt, long_sum = f"prompt over {LONGEST_PROMPT} {unit}", f"prompt and output over {LONGEST_SUM} {unit}"
    dropped = dict(found.dropped) | dict.fromkeys((short_prompt, short_output, long_prompt, long_sum), 0)
    order = list(range(len(found)))
    generators.python.shuffle(order)
    drafts: list[Draft] = []
    for index in order:
        if len(drafts) == count:
            break
        text, completion = found[index]
        prompt = cutter.whole(text)
        prompt_len = cutter.size(text) if prompt.length is None else prompt.length
        answer_len = cutter.size(completion) if output_len is None else output_len
        if prompt_len < SHORTEST:
            dropped[short_prompt] += 1
        elif answer_len < SHORTEST:
            dropped[short_output] += 1
        elif prompt_len > LONGEST_PROMPT:
            dropped[long_prompt] += 1
        elif output_len is None and prompt_len + answer_len > LONGEST_SUM:
            dropped[long_sum] += 1
        else:
            if prefixes:
                prompt = cutter.whole(f"{prefixes[len(drafts) % len(prefixes)].text}\n{text}")
            drafts.append(Draft(prompt, answer_len))
            if len(drafts) % _TELL_EVERY == 0:
                progress(f"drawing requests: {len(drafts)} of {count}", len(drafts) / count)
    notes = () if unit == "tokens" else ("sharegpt: the filters count words, as there is no tokenizer",)
    return Sample(drafts, dropped, notes)


def too_few(path: Path, usable: int, count: int, dropped: Mapping[str, int]) -> DatasetError:
    """Say that a file has fewer usable conversations than were asked for, and what the filters dropped."""
    reasons = ", ".join(f"{number} with {why}" for why, number in dropped.items() if number)
    remedy = f"Set load.num_prompts to {usable} or less" if usable else "Check dataset.path"
    return DatasetError(
        f"The dataset '{path}' has {usable} usable conversations, and load.num_prompts asks for {count}; "
        f"dropped: {reasons or 'none'}. {remedy}, or give a larger file."
    )
