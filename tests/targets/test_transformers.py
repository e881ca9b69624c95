"""The transformers target with the real engine on a CPU and the embedded tiny model."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets import tiny_model
from lmtui.targets.base import TargetInfo
from lmtui.targets.build import build
from lmtui.targets.transformers import TransformersTarget
from lmtui.workload.plan import PlannedRequest
from tests.targets.making import config, request
from tests.targets.recording import RecordingSession

pytestmark = pytest.mark.slow
T = TypeVar("T")
PROMPT = "The quick brown fox jumps over the lazy dog, and the dog does not mind."


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMTUI_HOME", str(folder))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield folder


class Engine:
    """An open target, its loop, and the token ids that it handed out for each request."""

    def __init__(self, asked: Config) -> None:
        self.loop = asyncio.new_event_loop()
        self.target = TransformersTarget(asked)
        self.ids: dict[int, list[int]] = {}
        self.progress: list[str] = []
        receive = self.target._receive

        def spy(at_ns: int, outputs: list[Any]) -> None:
            for output in outputs:
                if (flight := self.target._flights.get(output.request_id)) is not None:
                    self.ids[flight.session.request.index] = output.generated_tokens
            receive(at_ns, outputs)

        self.target._receive = spy  # type: ignore[method-assign]
        self.info: TargetInfo = self.loop.run_until_complete(self.target.open(self.progress.append))

    def run(self, body: Callable[[], Awaitable[T]]) -> T:
        async def main() -> T:
            return await asyncio.wait_for(asyncio.ensure_future(body()), timeout=60)

        return self.loop.run_until_complete(main())

    def perform(self, *requests: PlannedRequest, concurrency: int = 8) -> list[RecordingSession]:
        sessions = [RecordingSession(one) for one in requests]
        todo = iter(sessions)

        async def worker() -> None:
            for session in todo:
                await self.target.perform(session.request, session)

        async def all_workers() -> None:
            await asyncio.gather(*(worker() for _ in range(concurrency)))

        self.run(all_workers)
        return sessions

    def close(self) -> None:
        self.loop.run_until_complete(self.target.close())
        self.loop.close()


@pytest.fixture(scope="module")
def engine(home: Path) -> Iterator[Engine]:
    engine = Engine(config("transformers", kv_tokens=2048, max_batch_size=8))
    yield engine
    engine.close()
    assert not engine.target._flights


@pytest.fixture
def engines(home: Path) -> Iterator[Callable[[Config], Engine]]:
    """Open engines of other configs; all are closed at the end, or their threads would keep the process alive."""
    opened: list[Engine] = []

    def open_one(asked: Config) -> Engine:
        opened.append(Engine(asked))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()


def greedy(prompt: str, length: int) -> list[int]:
    """Return what the model itself generates."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(tiny_model.path()))
    model = AutoModelForCausalLM.from_pretrained(str(tiny_model.path()), dtype=torch.float32)
    ids = tokenizer(prompt, return_tensors="pt")
    out = model.generate(**ids, do_sample=False, max_new_tokens=length, min_new_tokens=length)
    return list(out[0, ids["input_ids"].shape[1] :].tolist())


def test_its_tokens_are_the_models_own(engine: Engine) -> None:
    """Sampling as LMDeploy's scripts ask for it (top_k 1) is greedy, alone and in a full batch."""
    prompts = [f"{n} {PROMPT[n:]}" for n in range(8)]
    sessions = engine.perform(*(request(n, prompt=prompt, output_len=24) for n, prompt in enumerate(prompts)))
    for n in (0, 3, 7):
        assert engine.ids[n] == greedy(prompts[n], 24)
    assert len({tuple(engine.ids[n]) for n in range(8)}) == 8
    for session in sessions:
        assert (session.outcome, session.output_tokens, session.token_source) == (Outcome.OK, 24, TokenSource.ENGINE)
        assert [tokens for _, tokens in session.ticks] == list(range(1, 25))
        assert session.end_ns == session.last_ns


def test_it_says_what_it_is(engine: Engine) -> None:
    assert not engine.info.simulated
    assert engine.info.model == tiny_model.NAME
    assert set(engine.info.versions) == {"torch", "transformers"}
    # It goes into status and summary: torch's version, a subclass of str, would not.
    assert msgspec.json.decode(msgspec.json.encode([engine.info.versions, engine.info.limits]))
    assert engine.info.limits["kv_tokens"] == 2048
    assert engine.info.limits["device"] == "cpu"
    assert "random weights" in engine.info.notes[0]
    assert engine.progress


def test_token_ids_of_the_plan_are_taken_as_they_are(engine: Engine) -> None:
    ids = np.arange(10, 40, dtype=np.int32)
    (by_ids,) = engine.perform(PlannedRequest(index=0, prompt="", output_len=5, input_len=30, token_ids=ids))
    assert (by_ids.prompt_tokens, by_ids.output_tokens) == (30, 5)


def test_a_cancel_by_tokens_frees_the_engine_of_it(engine: Engine) -> None:
    cut, other = engine.perform(
        request(0, prompt=PROMPT, output_len=200, cancel_after=4), request(1, prompt=PROMPT, output_len=40)
    )
    assert (cut.outcome, cut.output_tokens, cut.error) == (Outcome.CANCELLED, 5, "")
    assert cut.let_go_ns > 0
    assert 0 <= cut.wasted_tokens < 10
    assert cut.ticks_after_cut == 0
    assert cut.end_ns >= cut.cut_ns
    assert (other.outcome, other.output_tokens) == (Outcome.OK, 40)
    scheduler = engine.target._manager.batch_processor.scheduler
    assert not scheduler.active_requests
    assert not scheduler.waiting_requests


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.ABORTED])
def test_a_cut_from_outside_ends_a_request_that_generates(engine: Engine, outcome: Outcome) -> None:
    session = RecordingSession(request(prompt=PROMPT, output_len=1500))
    session.on_tick = lambda _, tokens: session.cut(outcome) if tokens == 3 else None
    engine.run(lambda: engine.target.perform(session.request, session))
    assert (session.outcome, session.output_tokens) == (outcome, 3)
    assert session.let_go_ns > 0
    assert bool(session.error) == (outcome is Outcome.ABORTED)


def test_a_cut_before_the_first_token(engine: Engine) -> None:
    session = RecordingSession(request(prompt=PROMPT, output_len=1500))

    async def body() -> None:
        task = asyncio.ensure_future(engine.target.perform(session.request, session))
        await asyncio.sleep(0)
        session.cut(Outcome.CANCELLED)
        await task

    engine.run(body)
    assert (session.outcome, session.output_tokens, session.ticks) == (Outcome.CANCELLED, 0, [])
    assert session.let_go_ns >= 0
    assert session.wasted_tokens >= 0


def test_a_session_that_is_cut_before_it_is_sent_is_dropped(engine: Engine) -> None:
    session = RecordingSession(request(prompt=PROMPT), cut_as=Outcome.ABORTED)
    engine.run(lambda: engine.target.perform(session.request, session))
    assert (session.outcome, session.sent_ns) == (Outcome.DROPPED, UNKNOWN)


def test_a_load_that_gives_up_waiting_hears_no_more_of_the_request(engine: Engine) -> None:
    session = RecordingSession(request(prompt=PROMPT, output_len=200))

    async def body() -> None:
        task = asyncio.ensure_future(engine.target.perform(session.request, session))

        def give_up(_: int, tokens: int) -> None:
            if tokens == 2:
                task.cancel()

        session.on_tick = give_up
        with pytest.raises(asyncio.CancelledError):
            await task
        session.end(Outcome.ABORTED, time.monotonic_ns(), error="given up")

    engine.run(body)
    (after,) = engine.perform(request(1, prompt=PROMPT, output_len=300))
    assert after.outcome is Outcome.OK


def test_many_requests_with_cancels_all_end(engine: Engine) -> None:
    requests = [
        request(n, prompt=f"{n} {PROMPT}", output_len=1 + n % 13, cancel_after=n % 5 if n % 3 == 0 else None)
        for n in range(60)
    ]
    sessions = engine.perform(*requests, concurrency=16)
    for session in sessions:
        if session.outcome is Outcome.OK:
            assert session.output_tokens == session.request.output_len
        else:
            assert session.outcome is Outcome.CANCELLED
            assert session.output_tokens == (session.request.cancel_after or 0) + 1
    assert sum(session.outcome is Outcome.CANCELLED for session in sessions) > 10


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (request(output_len=5000, prompt="a"), "the model takes 4096 at most"),
        (request(output_len=3000, prompt="a"), "raise target.kv_tokens"),
        (request(prompt=""), "no tokens"),
        (PlannedRequest(0, "", 4, token_ids=np.array([5, 99_999], dtype=np.int32)), "target.tokenizer"),
    ],
)
def test_a_request_that_cannot_be_done_fails_alone(engine: Engine, bad: PlannedRequest, words: str) -> None:
    failed, fine = engine.perform(bad, request(1, prompt=PROMPT, output_len=3))
    assert failed.outcome is Outcome.BAD_FINISH
    assert words in failed.error
    assert failed.ticks == []
    assert fine.outcome is Outcome.OK


def test_a_request_that_the_engine_fails_is_told_with_its_reason(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = engine.target._manager.batch_processor.scheduler

    def refuse(_: Any) -> None:
        raise ValueError("no room today")

    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "add_waiting_request", refuse)
        (failed,) = engine.perform(request(prompt=PROMPT))
    assert (failed.outcome, failed.error) == (Outcome.BAD_FINISH, "no room today")
    (fine,) = engine.perform(request(prompt=PROMPT))
    assert fine.outcome is Outcome.OK


def test_stamps_are_taken_before_the_loop_gets_to_the_outputs(engine: Engine) -> None:
    """A loop that is busy for a while must not move the stamps of what the engine did meanwhile."""
    session = RecordingSession(request(prompt=PROMPT, output_len=40))
    released: list[int] = []

    def block(_: int, tokens: int) -> None:
        if tokens == 1:
            scheduler = engine.target._manager.batch_processor.scheduler
            until = time.monotonic() + 60
            while scheduler.active_requests and time.monotonic() < until:
                time.sleep(0.001)
            released.append(time.monotonic_ns())

    session.on_tick = block
    engine.run(lambda: engine.target.perform(session.request, session))
    assert session.outcome is Outcome.OK
    assert session.last_ns <= released[0]


def test_other_settings_of_a_request(engines: Callable[[Config], Engine]) -> None:
    """Natural stops, whole answers, prompts tokenised before the start, and greedy by temperature 0."""
    asked = {
        "ignore_eos": False,
        "stream": False,
        "skip_tokenize": True,
        "skip_detokenize": True,
        "temperature": 0.0,
    }
    engine = engines(config("transformers", request=asked))
    reference = greedy(PROMPT, 12)
    (whole,) = engine.perform(request(prompt=PROMPT, output_len=12))
    assert [tokens for _, tokens in whole.ticks] == [12]
    assert (whole.outcome, engine.ids[0]) == (Outcome.OK, reference)
    # The model's end token is one that it is about to say.
    stop = reference[6]
    engine.target._manager.generation_config.eos_token_id = stop
    (stopped,) = engine.perform(request(prompt=PROMPT, output_len=12))
    assert (stopped.outcome, stopped.output_tokens) == (Outcome.OK, reference.index(stop) + 1)


def test_a_cache_that_is_too_small_for_the_batch_costs_time_but_no_tokens(engines: Callable[[Config], Engine]) -> None:
    """The engine takes requests out of the cache and reads them in again; counts go on where they were."""
    engine = engines(config("transformers", kv_tokens=256))
    prompts = [f"{n} {PROMPT[n:]}" for n in range(6)]
    sessions = engine.perform(*(request(n, prompt=prompt, output_len=60) for n, prompt in enumerate(prompts)))
    assert engine.ids[5] == greedy(prompts[5], 60)
    for session in sessions:
        assert session.outcome is Outcome.OK
        assert [tokens for _, tokens in session.ticks] == list(range(1, 61))


def test_an_engine_that_dies_ends_every_session_and_the_target(engines: Callable[[Config], Engine]) -> None:
    engine = engines(config("transformers"))
    sessions = [RecordingSession(request(n, prompt=PROMPT, output_len=500)) for n in range(3)]

    def boom(*_: Any) -> None:
        raise MemoryError("out of everything")

    def break_it(_: int, tokens: int) -> None:
        if tokens == 2:
            engine.target._manager.batch_processor._generation_step = boom

    sessions[0].on_tick = break_it

    async def body() -> list[BaseException | None]:
        return await asyncio.gather(
            *(engine.target.perform(session.request, session) for session in sessions), return_exceptions=True
        )

    raised = engine.run(body)
    assert [type(one) for one in raised] == [TargetError] * 3
    assert all("out of everything" in session.error for session in sessions)
    assert all(session.outcome is Outcome.BAD_FINISH for session in sessions)
    assert all(session.output_tokens >= 1 for session in sessions)

    late = RecordingSession(request(prompt=PROMPT))
    with pytest.raises(TargetError, match=r"died \(.*out of everything\)"):
        engine.run(lambda: engine.target.perform(late.request, late))
    assert late.outcome is Outcome.BAD_FINISH
    assert late.let_go_ns == UNKNOWN


def opened(asked: Config) -> None:
    async def main() -> None:
        target = TransformersTarget(asked)
        await target.open(lambda _: None)

    asyncio.run(main())


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    with pytest.raises(TargetError, match=r"needs PyTorch: pip install 'lmtui\[cpu\]'"):
        opened(config("transformers"))


def test_models_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="'/nowhere/model' does not exist"):
        opened(config("transformers", model="/nowhere/model"))
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(TargetError, match="is a file"):
        opened(config("transformers", model=str(file)))
    with pytest.raises(TargetError, match=r"cannot be loaded .*target\.model"):
        opened(config("transformers", model=str(tmp_path)))


def test_devices_that_are_not_there() -> None:
    import torch

    with pytest.raises(TargetError, match='"ascend" is not for transformers'):
        opened(config("transformers", device="ascend"))
    if not torch.cuda.is_available():
        with pytest.raises(TargetError, match="sees no GPU"):
            opened(config("transformers", device="cuda"))


def test_build_gives_it() -> None:
    assert isinstance(build(config("transformers")), TransformersTarget)


def test_the_tiny_model_is_made_once_and_always_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from safetensors.torch import load_file

    first = tiny_model.path()
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert (tiny_model.path() / "model.safetensors").stat().st_mtime_ns == stamp
    assert (first / "tokenizer.json").is_file()
    monkeypatch.setenv("LMTUI_HOME", str(home / "again"))
    state = torch.random.get_rng_state()
    second = tiny_model.path()
    assert second != first
    assert torch.equal(state, torch.random.get_rng_state()), "the global generator is not touched"
    one, two = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert [entry.name for entry in (home / "again" / "cache").iterdir() if entry.name.count("-") > 5] == []
