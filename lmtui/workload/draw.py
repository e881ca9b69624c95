"""Draws the plan: config + seed → every request with its prompt, lengths, due time and cut.

Private generators stand for the global ones of LMDeploy's scripts and are consulted in the scripts' order, as if
loading a model drew nothing: the dataset (see sharegpt, random_lengths), then the cuts (cancels; `random`) and the
arrival gaps (arrivals; `numpy.random`). All of that uses raw output lengths; only then does a length of 0 become 1, or
`request.max_tokens` take the place of every length.
What the scripts do not have (shared prefixes, warm-up prompts) draws nothing from either.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.errors import ConfigError, TargetError
from lmtui.workload import arrivals, cancels, memory, random_lengths, records, sharegpt, tiny_tokenizer, tokenizers
from lmtui.workload.conversations import Progress
from lmtui.workload.cutter import Cutter, Prompt, TokenCutter, WordCutter
from lmtui.workload.plan import Plan, PlannedRequest
from lmtui.workload.sample import Draft, Generators, Sample

if TYPE_CHECKING:
    from lmtui.config.model import Config

__all__ = ["Progress", "draw"]


def draw(config: Config, progress: Progress) -> Plan:
    """Draw the plan of a config. Equal configs, datasets and tokenizers give equal plans.

    Args:
        config: What to run.
        progress: Called with a line for the status and the share done (None: not known).

    Raises:
        ConfigError: A key is missing or does not fit the dataset, or the tokenizer cannot be loaded.
        DatasetError: The dataset cannot be read, or has too few usable requests.
    """
    generators = Generators(config.seed)
    cutter = _cutter(config, progress)
    memory.check(config, cutter.unit)
    sample = _sample(config, cutter, generators, progress)
    raw = [draft.output_len for draft in sample.drafts]
    cuts = cancels.draw(config.cancel, raw, generators.python)
    requests = [
        PlannedRequest(
            index=index,
            prompt=draft.prompt.text,
            output_len=config.request.max_tokens or max(draft.output_len, 1),
            input_len=draft.prompt.length,
            token_ids=draft.prompt.token_ids,
            messages=draft.messages,
            due_s=draft.due_s if config.load.mode == "trace" else None,
            cancel_after=cut.cancel_after,
            cancel_after_s=cut.cancel_after_s,
            cancel_before_token=cut.cancel_before_token,
            model=draft.model,
        )
        for index, (draft, cut) in enumerate(zip(sample.drafts, cuts, strict=True))
    ]
    notes = list(sample.notes)
    if config.dataset.prefix_len and any(_has_no_prefix(config, draft) for draft in sample.drafts):
        notes.append("dataset.prefix_len has no effect on traces and on chats: they bring their own beginnings")
    if cutter.unit == "words":
        notes.append(_WORDS_ARE_TOKENS if cutter.knows_tokens else _WORDS)
    if config.load.mode == "open":
        requests = _scheduled(requests, config, generators, notes)
    elif config.load.duration_s is not None:
        notes.append(f"{len(requests)} prompts are drawn once, and sent again in turn until the duration is over")
    return Plan(
        requests=tuple(requests),
        warmup=_warmup(config, cutter, sample),
        raised=0 if config.request.max_tokens else raw.count(0),
        dropped=sample.dropped,
        notes=tuple(notes),
    )


_WORDS = "no tokenizer: prompts are cut by words, and their tokens are known only when the server counts them"
_WORDS_ARE_TOKENS = "no tokenizer: a word counts as a token"


def _has_no_prefix(config: Config, draft: Draft) -> bool:
    return config.dataset.kind == "trace" or draft.messages is not None


def _cutter(config: Config, progress: Progress) -> Cutter:
    """Choose how prompts are cut: the tokenizer given, else the engine's own, else words."""
    target = config.target
    name = target.tokenizer
    if name is None and target.kind == "transformers":
        name = target.model or str(tiny_tokenizer.path())
    elif name is None and target.kind in ("turbomind", "pytorch", "pipeline"):
        if target.model is None:
            raise ConfigError(f"target.model is missing: the target '{target.kind}' needs one.")
        name = target.model
    if name is None:
        return WordCutter(words_are_tokens=target.kind == "simulated")
    progress("loading the tokenizer", None)
    try:
        return TokenCutter(tokenizers.load(name, target.trust_remote_code))
    except ConfigError as error:
        if name != target.model:
            raise
        raise TargetError(
            f"target.model = '{name}': no tokenizer comes with it, so it is no model that can run, or target.tokenizer "
            f"must name one. {error}"
        ) from error


def _sample(config: Config, cutter: Cutter, generators: Generators, progress: Progress) -> Sample:
    dataset, count = config.dataset, config.load.num_prompts
    if config.load.mode == "trace" and dataset.kind != "trace":
        raise ConfigError(
            f"load.mode = 'trace' needs dataset.kind = 'trace' with its times, and it is '{dataset.kind}': "
            "set load.mode to 'closed' or 'open'."
        )
    groups = dataset.prefix_groups if dataset.prefix_len else 0
    prefixes = [_prefix(cutter, group, dataset.prefix_len) for group in range(groups)]
    if dataset.kind == "random":
        inputs, outputs = random_lengths.lengths(
            count,
            dataset.input_len,
            dataset.output_len,
            dataset.range_ratio,
            config.target.kind == "server",
            generators,
        )
        if dataset.path is None:
            return random_lengths.sample_text(inputs, outputs, cutter, prefixes, generators)
        path = Path(dataset.path).expanduser()
        return random_lengths.sample_file(
            path, inputs, outputs, cutter, prefixes, generators, progress, wraps=dataset.take_fewer
        )
    if dataset.kind == "image":
        raise ConfigError("dataset.kind = 'image' is not built yet: use random, sharegpt or jsonl.")
    if dataset.path is None:
        raise ConfigError(f"dataset.path is missing: dataset.kind = '{dataset.kind}' needs its file.")
    path = Path(dataset.path).expanduser()
    if dataset.kind == "sharegpt":
        return sharegpt.sample(
            path,
            count,
            dataset.output_len,
            cutter,
            prefixes,
            generators,
            progress,
            takes_fewer=dataset.take_fewer,
        )
    if dataset.kind == "jsonl":
        return records.sample_jsonl(path, count, dataset.output_len, cutter, prefixes, progress, _no_models(config))
    return records.sample_trace(path, count, dataset.output_len, cutter, progress, _no_models(config))


def _no_models(config: Config) -> str | None:
    """Return why a line of a dataset cannot name its own model, and what to do; None: it can."""
    target = config.target
    if target.kind != "server":
        return f"target.kind = '{target.kind}' runs one model: remove it, or set target.kind to 'server'"
    if target.api not in ("completions", "chat"):
        return f"a request of target.api = '{target.api}' names none: remove it, or use 'completions' or 'chat'"
    if "model" in target.extra_body:
        return "target.extra_body.model is put over it: remove one of them"
    return None


def _prefix(cutter: Cutter, group: int, length: int) -> Prompt:
    """Cut the prefix of a group; groups begin far apart in the shipped text, and in a lap that no prompt comes to."""
    lap = cutter.places()
    return cutter.passage((lap - 1) * lap + group * 7919 % lap, length)


def _scheduled(
    requests: list[PlannedRequest], config: Config, generators: Generators, notes: list[str]
) -> list[PlannedRequest]:
    """Give the requests of an open load their due times; with a duration, repeat them until it is over."""
    load = config.load
    shape = (load.rate, load.arrival, load.burstiness, load.ramp_s, generators.numpy)
    if math.isinf(load.rate):
        if load.ramp_s:
            notes.append("load.ramp_s has no effect: at the rate inf all requests are due at once")
        if load.duration_s is not None:
            notes.append("at the rate inf each request is sent once; the duration only ends the run")
    arrivals.skip(load.skip_arrivals, len(requests), *shape)
    if load.duration_s is None or math.isinf(load.rate):
        due = arrivals.schedule(len(requests), *shape)
    else:
        due = arrivals.schedule_until(load.duration_s, *shape)
        notes.append(f"{len(requests)} prompts are drawn once, and sent in turn: {len(due)} are due in the duration")
    return [
        replace(requests[index % len(requests)], index=index, due_s=due_s) for index, due_s in enumerate(due.tolist())
    ]


def _warmup(config: Config, cutter: Cutter, sample: Sample) -> tuple[PlannedRequest, ...]:
    """Cut warm-up prompts from the shipped text where no measured one begins; as long as the first measured ones.

    With `load.warmup_prompts = "plan"` they are the first measured ones.
    """
    drafts = sample.drafts
    warmup = []
    for index in range(config.load.warmup_requests):
        draft = drafts[index % len(drafts)]
        if config.load.warmup_prompts == "plan":
            prompt, messages = draft.prompt, draft.messages
        else:
            length = draft.prompt.length or len(draft.prompt.text.split())
            prompt, messages = cutter.passage(sample.next_place + index, length), None
        tokens = max(draft.output_len, 1)
        warmup.append(
            PlannedRequest(index, prompt.text, tokens, prompt.length, prompt.token_ids, messages, model=draft.model)
        )
    return tuple(warmup)
