"""Requests from JSON Lines files: prompts (jsonl), or the times and lengths of a recorded load (trace).

jsonl: one object a line, `{"prompt": "…"}` or `{"messages": [{"role", "content"}, …]}`, with the tokens to ask for
under `output_len`, `output_tokens` or `max_tokens`, or as long as the text under `completion`. Lines are used in their
order. With a server, a line may name its own `model` (a model or LoRA adapter that the server lists).

trace: besides (or in place of) a prompt, `input_length` and `output_length`, and a time: `timestamp_ms` or
`timestamp_s`, or Mooncake's `timestamp`: milliseconds when all are written as whole numbers, seconds when one has a
fraction. `hash_ids` name the blocks of 512 tokens that a prompt is made of: prompts that begin with the same ids begin
with the same text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from lmtui.errors import ConfigError, DatasetError
from lmtui.workload.conversations import Progress
from lmtui.workload.cutter import Cutter, Prompt
from lmtui.workload.plan import Message
from lmtui.workload.sample import Draft, Sample

LONGEST_LINE = 1 << 25
HASH_BLOCK = 512
"""Tokens that one of Mooncake's hash ids stands for."""

_TELL_EVERY = 200
_MODELS_TOLD = 8
_MOST_TOKENS = 1 << 24  # No model reads or writes more; a slip of the pen would fill the memory.
_Count = Annotated[int, Meta(ge=0, le=_MOST_TOKENS)]
_Length = Annotated[int, Meta(ge=1, le=_MOST_TOKENS)]
_HashId = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_LATEST = 1e15
_Time = Annotated[float, Meta(ge=0, le=_LATEST)]


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class _Turn(msgspec.Struct):
    role: str
    content: str | list[_Part]


class _Line(msgspec.Struct):
    prompt: str | None = None
    messages: list[_Turn] | None = None
    output_len: _Count | None = None
    output_tokens: _Count | None = None
    max_tokens: _Count | None = None
    completion: str | None = None
    model: str | None = None


class _TraceLine(_Line):
    timestamp: int | float | None = None
    timestamp_ms: _Time | None = None
    timestamp_s: _Time | None = None
    input_length: _Length | None = None
    output_length: _Count | None = None
    hash_ids: list[_HashId] | None = None


def sample_jsonl(
    path: Path,
    count: int,
    output_len: int | None,
    cutter: Cutter,
    prefixes: list[Prompt],
    progress: Progress,
    no_models: str | None,
) -> Sample:
    """Take the first `count` requests of a file of prompts.

    Args:
        path: The file.
        count: How many.
        output_len: Tokens asked for; None: what each line says.
        cutter: Counts prompts and completions.
        prefixes: Shared prefixes that prompts (not chats) begin with in turn.
        progress: Is told how far it is.
        no_models: Why a line cannot name its own model; None: it can.

    Raises:
        DatasetError: A line is not what it should be (with its number), or there are too few.
        ConfigError: A completion's length is needed, and there is no tokenizer to count it.
    """
    drafts: list[Draft] = []
    overruled = 0
    for number, raw in _lines(path):
        line = _decode(path, number, raw, _Line)
        prompt, messages = _given(line, path, number, cutter, prefixes, len(drafts))
        if prompt is None:
            raise _fault(path, number, "it has neither 'prompt' nor 'messages'")
        asked, model = _asked(line, None, output_len, path, number, cutter), _model(line, no_models, path, number)
        drafts.append(Draft(prompt, asked, messages, model=model))
        overruled += _own_length(line, None) not in (None, drafts[-1].output_len)
        if len(drafts) == count:
            break
        if len(drafts) % _TELL_EVERY == 0:
            progress(f"reading requests: {len(drafts)} of {count}", len(drafts) / count)
    if len(drafts) < count:
        raise DatasetError(
            f"The dataset '{path}' has {len(drafts)} requests, and load.num_prompts asks for {count}: "
            + (f"set load.num_prompts to {len(drafts)} or less." if drafts else "check dataset.path.")
        )
    return Sample(drafts, {}, _notes(drafts, output_len, overruled))


def sample_trace(
    path: Path, count: int, output_len: int | None, cutter: Cutter, progress: Progress, no_models: str | None
) -> Sample:
    """Take the first `count` requests of a recorded load (all, noted, when it has fewer), in the order of their times.

    Args:
        path: The file.
        count: How many at most.
        output_len: Tokens asked for; None: what each line says.
        cutter: Cuts prompts of the recorded lengths from the shipped text.
        progress: Is told how far it is.
        no_models: Why a line cannot name its own model; None: it can.

    Raises:
        DatasetError: A line is not what it should be (with its number), or there is none.
        ConfigError: A completion's length is needed, and there is no tokenizer to count it.
    """
    drafts: list[Draft] = []
    times: list[_Stamp] = []
    next_place = overruled = 0
    for number, raw in _lines(path):
        line = _decode(path, number, raw, _TraceLine)
        prompt, messages = _given(line, path, number, cutter, [], len(drafts))
        if prompt is None:
            if line.input_length is None:
                raise _fault(path, number, "it has no 'input_length', 'prompt' or 'messages'")
            places = line.hash_ids or [next_place]
            prompt = cutter.blocks(places, HASH_BLOCK, line.input_length)
            next_place = max(next_place, max(places) + 1)
        asked = _asked(line, line.output_length, output_len, path, number, cutter)
        drafts.append(Draft(prompt, asked, messages, model=_model(line, no_models, path, number)))
        overruled += _own_length(line, line.output_length) not in (None, drafts[-1].output_len)
        times.append(_stamp(line, path, number))
        if len(drafts) == count:
            break
        if len(drafts) % _TELL_EVERY == 0:
            progress(f"reading the trace: {len(drafts)} of at most {count}", len(drafts) / count)
    if not drafts:
        raise DatasetError(f"The trace '{path}' has no request: check dataset.path.")
    notes = list(_notes(drafts, output_len, overruled))
    if len(drafts) < count:
        notes.append(f"the trace has {len(drafts)} requests, fewer than load.num_prompts = {count}: all are sent")
    if next_place:
        notes.append("trace: prompts of the recorded lengths are cut from the text that ships with lmtui")
    timed = _in_time(drafts, times, notes)
    return Sample(timed, {}, tuple(notes), next_place)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """A line's time; `unit_s` is None where only the whole file tells it."""

    value: float
    unit_s: float | None
    is_whole: bool


def _stamp(line: _TraceLine, path: Path, number: int) -> _Stamp:
    if line.timestamp_s is not None:
        return _Stamp(line.timestamp_s, 1.0, False)
    if line.timestamp_ms is not None:
        return _Stamp(line.timestamp_ms, 1e-3, False)
    if line.timestamp is None:
        raise _fault(path, number, "it has no 'timestamp' ('timestamp_ms' and 'timestamp_s' are read too)")
    if not 0 <= line.timestamp <= _LATEST:
        raise _fault(path, number, f"'timestamp' is {line.timestamp}, and must be 0 or more")
    return _Stamp(line.timestamp, None, isinstance(line.timestamp, int))


def _in_time(drafts: list[Draft], stamps: list[_Stamp], notes: list[str]) -> list[Draft]:
    """Give each draft the seconds after the earliest one, and sort them."""
    unit_s = 1e-3 if all(stamp.is_whole for stamp in stamps if stamp.unit_s is None) else 1.0
    if any(stamp.unit_s is None for stamp in stamps):
        what = "milliseconds, as all of them are whole" if unit_s < 1 else "seconds, as some have fractions"
        notes.append(f"the trace's 'timestamp' is read as {what}")
    seconds = [stamp.value * (unit_s if stamp.unit_s is None else stamp.unit_s) for stamp in stamps]
    order = sorted(range(len(drafts)), key=seconds.__getitem__)
    if order != list(range(len(drafts))):
        notes.append("the trace's lines are not in the order of their times; its requests are")
    return [replace(drafts[index], due_s=seconds[index] - seconds[order[0]]) for index in order]


def _given(
    line: _Line, path: Path, number: int, cutter: Cutter, prefixes: list[Prompt], index: int
) -> tuple[Prompt | None, tuple[Message, ...] | None]:
    """Return the prompt that a line brings along; chats also as their turns."""
    if line.messages is not None:
        if not line.messages:
            raise _fault(path, number, "'messages' is empty")
        messages = tuple(Message(role=turn.role, content=_text(turn, path, number)) for turn in line.messages)
        text = "\n".join(message["content"] for message in messages)
        if not text.strip():
            raise _fault(path, number, "'messages' has no text")
        return cutter.whole(text), messages
    if line.prompt is None:
        return None, None
    if not line.prompt.strip():
        raise _fault(path, number, "'prompt' is empty")
    prefix = f"{prefixes[index % len(prefixes)].text}\n" if prefixes else ""
    return cutter.whole(prefix + line.prompt), None


def _text(turn: _Turn, path: Path, number: int) -> str:
    if isinstance(turn.content, str):
        return turn.content
    if others := {part.type for part in turn.content if part.type != "text" or part.text is None}:
        raise _fault(path, number, f"a message has a part of type '{min(others)}', and only text can be sent")
    return "".join(part.text or "" for part in turn.content)


def _asked(line: _Line, recorded: int | None, fixed: int | None, path: Path, number: int, cutter: Cutter) -> int:
    """Return the tokens to ask for: the config's, else the line's, else those of its completion."""
    length = fixed if fixed is not None else _own_length(line, recorded)
    if length is not None:
        return length
    if line.completion is None:
        raise _fault(
            path, number, "it does not say how many tokens to ask for ('output_len'); or set dataset.output_len"
        )
    if not cutter.knows_tokens:
        raise ConfigError(
            f"Line {number} of '{path}' gives a completion, whose tokens cannot be counted without a tokenizer: "
            "set target.tokenizer, or dataset.output_len."
        )
    return cutter.size(line.completion)


def _model(line: _Line, no_models: str | None, path: Path, number: int) -> str | None:
    """Return the model that a line names; one text for all lines with the same name."""
    if line.model is None:
        return None
    if no_models:
        raise _fault(path, number, f"it names a 'model', and {no_models}")
    if not line.model.strip():
        raise _fault(path, number, "'model' is empty")
    return sys.intern(line.model)


def _own_length(line: _Line, recorded: int | None) -> int | None:
    """Return the tokens that a line itself says to ask for; None when it says none, or only by its completion."""
    return next((n for n in (recorded, line.output_len, line.output_tokens, line.max_tokens) if n is not None), None)


def _notes(drafts: list[Draft], output_len: int | None, overruled: int) -> tuple[str, ...]:
    notes = []
    if overruled:
        notes.append(
            f"dataset.output_len = {output_len} is asked for in place of the output length that {overruled} of "
            f"{len(drafts)} lines have; leave it out (null) to ask for theirs"
        )
    if named := sum(draft.model is not None for draft in drafts):
        models = sorted({draft.model for draft in drafts if draft.model is not None})
        some = ", ".join(models[:_MODELS_TOLD]) + (", …" if len(models) > _MODELS_TOLD else "")
        notes.append(f"{named} of {len(drafts)} lines name their own model, which is asked for: {some}")
    if any(draft.messages for draft in drafts):
        notes.append("chats are sent as their turns by the chat api, and as their joined text by everything else")
    return tuple(notes)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each line that is not blank."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise _fault(path, number, f"it is over {LONGEST_LINE >> 20} MiB long")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise DatasetError(
            f"The dataset '{path}' cannot be read: {error.strerror or error}. Correct dataset.path."
        ) from error


def _decode(path: Path, number: int, raw: bytes, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise _fault(path, number, _mismatch(str(error))) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _fault(path, number, f"it is not JSON ({str(error).removeprefix('JSON is malformed: ')})") from None
    except RecursionError:
        raise _fault(path, number, "it is nested too deeply") from None


_MISMATCH = re.compile(
    r"Expected `(?P<wanted>.+?)`(?: (?P<limit>[<>]=? \S+))?(?:, got `(?P<got>.+?)`)?(?: - at `\$\.?(?P<place>.*)`)?"
)
_MISSING = re.compile(r"Object missing required field `(?P<name>.+?)`(?: - at `\$\.?(?P<place>.*)`)?")
_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _mismatch(words: str) -> str:
    """Return what the JSON reader found wrong with a line's fields, in words of a file's writer."""
    if found := _MISSING.fullmatch(words):
        return f"{_place(found['place'])} has no '{found['name']}'"
    if not (found := _MISMATCH.fullmatch(words)):
        return words[:1].lower() + words[1:]
    wanted = " or ".join(_TYPES.get(name, name) for name in found["wanted"].split(" | ") if name != "null")
    if limit := found["limit"]:
        wanted += f" of at {'least' if limit.startswith('>') else 'most'} {limit.lstrip('<>= ')}"
    got = f", and it is {_TYPES.get(found['got'], found['got'])}" if found["got"] else ""
    return f"{_place(found['place'])} must be {wanted}{got}"


def _place(path: str | None) -> str:
    return f"'{path}'" if path else "it"


def _fault(path: Path, number: int, what: str) -> DatasetError:
    return DatasetError(f"Line {number} of the dataset '{path}' cannot be used: {what}.")
