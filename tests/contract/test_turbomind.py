"""The turbomind target over a stand-in that behaves as TurboMind's Python part does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets import lmdeploy_preflight
from lmtui.targets.turbomind import TurbomindTarget
from tests.contract.engine_runs import config
from tests.targets.making import request
from tests.targets.recording import RecordingSession

pytestmark = pytest.mark.slow


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    import lmdeploy.turbomind

    from tests.contract.turbomind_stand_in import StandIn

    class Fresh(StandIn):
        made: list[StandIn] = []  # noqa: RUF012 - of this test

    monkeypatch.setattr(lmdeploy.turbomind, "TurboMind", Fresh, raising=False)
    monkeypatch.setattr(lmdeploy_preflight, "refuse", lambda config: None)
    return Fresh


async def opened(made_from: Config) -> TurbomindTarget:
    target = TurbomindTarget(made_from)
    await target.open(lambda line: None)
    return target


async def performed(target: TurbomindTarget, **more: Any) -> RecordingSession:
    session = RecordingSession(request(**more))
    await target.perform(session.request, session)
    return session


async def test_tokens_are_counted_not_outputs(stand_in: Any, model: str) -> None:
    stand_in.steps = (1, 3, 2)
    target = await opened(config("turbomind", model))
    session = await performed(target, output_len=8)
    assert session.outcome is Outcome.OK
    assert [tokens for _, tokens in session.ticks] == [1, 4, 6, 8]  # FINISH carries the last
    assert session.output_tokens == 8
    assert session.token_source is TokenSource.ENGINE
    assert session.let_go_ns == UNKNOWN
    assert session.prompt_tokens == len(target._tokenizer.encode(session.request.prompt))
    await target.close()
    assert stand_in.made[0].instances_at_close == 0, "each instance holds the engine"


async def test_without_streaming_the_engine_gives_one_output(stand_in: Any, model: str) -> None:
    target = await opened(config("turbomind", model, request={"stream": False}))
    session = await performed(target, output_len=8)
    assert [tokens for _, tokens in session.ticks] == [8]
    await target.close()


async def test_instances_are_reused_and_session_numbers_are_not(stand_in: Any, model: str) -> None:
    target = await opened(config("turbomind", model))
    for _ in range(3):
        await asyncio.gather(*(performed(target, index=index) for index in range(4)))
    assert len(stand_in.made[0].instances) == 4
    assert len(stand_in.made[0].seen_ids) == 12
    await target.close()


async def test_a_planned_cut_leaves_the_stream_and_waits_until_it_is_let_go_of(stand_in: Any, model: str) -> None:
    target = await opened(config("turbomind", model))
    session = await performed(target, output_len=50, cancel_after=3)
    assert session.outcome is Outcome.CANCELLED
    assert session.output_tokens == 4
    assert session.let_go_ns >= 2_000_000  # about a step
    assert session.wasted_tokens == UNKNOWN
    again = await performed(target, output_len=5)
    assert again.outcome is Outcome.OK
    assert len(stand_in.made[0].instances) == 1
    await target.close()


async def test_a_cut_from_outside_reaches_a_request_that_waits(stand_in: Any, model: str) -> None:
    from tests.contract import turbomind_stand_in

    target = await opened(config("turbomind", model))
    session = RecordingSession(request(output_len=1000))
    session.on_tick = lambda at_ns, tokens: session.cut(Outcome.TIMEOUT) if tokens == 2 else None
    await target.perform(session.request, session)
    assert turbomind_stand_in.STEP_S
    assert session.outcome is Outcome.TIMEOUT
    assert session.error == "not finished within its time limit"
    assert session.output_tokens == 2
    assert session.let_go_ns > 0
    await target.close()


async def test_what_finishes_after_the_cut_was_cut(stand_in: Any, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.contract import turbomind_stand_in

    async def deaf(self: Any, session_id: int | None = None) -> None:
        return

    monkeypatch.setattr(turbomind_stand_in.Instance, "async_cancel", deaf)
    stand_in.steps = (1, 7)
    target = await opened(config("turbomind", model))
    session, ticked = RecordingSession(request(output_len=8)), asyncio.Event()
    session.on_tick = lambda at_ns, tokens: ticked.set()
    performing = asyncio.ensure_future(target.perform(session.request, session))
    await ticked.wait()
    session.cut(Outcome.ABORTED)
    await performing
    assert (session.outcome, session.output_tokens) == (Outcome.ABORTED, 1)
    await target.close()


async def test_a_late_cut_does_not_hit_the_next_request_of_the_instance(stand_in: Any, model: str) -> None:
    target = await opened(config("turbomind", model))
    first, second = RecordingSession(request(0, output_len=3)), RecordingSession(request(1, output_len=6))
    first.on_tick = lambda at_ns, tokens: first.cut(Outcome.ABORTED) if tokens == 3 else None
    await target.perform(first.request, first)
    await target.perform(second.request, second)
    assert first.outcome is Outcome.OK  # it had finished with that output
    assert second.outcome is Outcome.OK
    await target.close()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("OUT_OF_MEMORY", "raise target.cache_max_entry_count"),
        ("INPUT_LENGTH_ERROR", "raise target.session_len"),
        ("INTERNAL_ENGINE_ERROR", "engine.log"),
        ("CANCEL", "by itself"),
        ("NO_QUEUE", "the engine ended it with NO_QUEUE"),
    ],
)
async def test_an_error_status_is_the_outcome_of_its_request(
    stand_in: Any, model: str, status: str, words: str
) -> None:
    from lmdeploy.messages import ResponseType

    stand_in.status_of = lambda self, number, asked: ResponseType[status] if number == 1 else None
    target = await opened(config("turbomind", model))
    good, bad, after = [await performed(target, index=index) for index in range(3)]
    assert (good.outcome, bad.outcome, after.outcome) == (Outcome.OK, Outcome.BAD_FINISH, Outcome.OK)
    assert words in bad.error
    assert bad.output_tokens == 1  # what came before is kept
    await target.close()


async def test_fewer_tokens_than_asked_are_short(stand_in: Any, model: str) -> None:
    target = await opened(config("turbomind", model))
    short = RecordingSession(request(output_len=8))
    given = target._generation_config
    target._generation_config = lambda **more: given(**{**more, "max_new_tokens": 5})  # as a full session does
    await target.perform(short.request, short)
    assert short.outcome is Outcome.SHORT
    assert short.output_tokens == 5
    await target.close()


async def test_an_empty_prompt_never_reaches_the_engine(stand_in: Any, model: str) -> None:
    target = await opened(config("turbomind", model))
    session = await performed(target, prompt="")
    assert session.outcome is Outcome.BAD_FINISH
    assert session.error == "The prompt has no tokens."
    assert stand_in.made[0].requests == 0
    await target.close()


async def test_ids_outside_the_vocabulary_never_reach_the_engine(stand_in: Any, model: str) -> None:
    import numpy as np

    target = await opened(config("turbomind", model, target={"tokenizer": model}))
    ids = np.array([5, 1_000_000], dtype=np.int32)
    session = await performed(target, prompt="", token_ids=ids)
    assert "outside the model's vocabulary of 1024" in session.error
    assert stand_in.made[0].requests == 0
    await target.close()


async def test_the_scripts_sampling_is_the_default_and_eos_ids_are_told_where_stops_are_allowed(
    stand_in: Any, model: str
) -> None:
    target = await opened(config("turbomind", model))
    await performed(target, output_len=2)
    await target.close()
    free = await opened(config("turbomind", model, request={"ignore_eos": False, "temperature": 0.0, "top_k": -1}))
    await performed(free, output_len=2)
    await free.close()
    first, second = (made.configs[0] for made in stand_in.made)
    assert (first.temperature, first.top_p, first.top_k, first.ignore_eos) == (0.8, 0.8, 1, True)
    assert first.stop_token_ids is None
    assert (second.temperature, second.top_k, second.ignore_eos) == (0.0, 0, False)
    assert second.stop_token_ids == [1]


async def test_a_held_output_that_ends_by_itself_counts(stand_in: Any, model: str) -> None:
    from lmdeploy.messages import ResponseType

    stand_in.status_of = lambda self, number, asked: ResponseType.FINISH
    guided = {"response_format": "regex_schema", "regex": "[a-z]+", "baseline": False}
    target = await opened(config("turbomind", model, guided=guided))
    session = await performed(target, output_len=30)
    assert session.outcome is Outcome.OK
    assert session.output_tokens == 1
    told = stand_in.made[0].configs[0]
    assert told.response_format == {"type": "regex_schema", "regex_schema": "[a-z]+"}
    assert told.stop_token_ids == [1]
    await target.close()


async def test_a_format_that_cannot_be_compiled_is_refused_before_the_engine_loads(stand_in: Any, model: str) -> None:
    guided = {"response_format": "regex_schema", "regex": "[a-z", "baseline": False}
    with pytest.raises(TargetError, match=r"guided.regex cannot be compiled into a grammar \(.*\): \[a-z"):
        await opened(config("turbomind", model, guided=guided))
    assert stand_in.made == []


async def test_the_engine_s_settings_arrive_under_lmdeploy_s_names(stand_in: Any, model: str) -> None:
    given = {"session_len": 512, "tp": 2, "dp": 2, "async_": 0, "quant_policy": 8, "disable_metrics": True}
    target = await opened(config("turbomind", model, target=given, load={"concurrency": 9}))
    told = stand_in.made[0].engine_config
    assert (told.session_len, told.tp, told.dp, told.async_, told.quant_policy) == (512, 2, 2, 0, 8)
    assert told.enable_metrics is False
    assert told.max_batch_size == 4  # the script's concurrency // dp
    assert told.hf_overrides is None
    await target.close()


async def test_a_missing_native_module_is_told_with_its_reason(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdeploy_preflight, "refuse", lambda config: None)
    with pytest.raises(TargetError, match=r"TurboMind's native module cannot be loaded \(.*lib.*so.*\): install"):
        await opened(config("turbomind", model))
