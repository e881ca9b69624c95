"""The transformers target: Hugging Face's continuous batching in this process, on a CPU or a GPU.

Its manager generates in a thread of its own. An output is stamped there, the moment it is handed out; the loop gets the
outputs of a step in one call. A cancel is over when the manager's scheduler has dropped the request.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmtui.config.model import Config
from lmtui.errors import TargetError
from lmtui.metrics.sessions import UNKNOWN, Outcome, TokenSource
from lmtui.targets import tiny_model
from lmtui.targets.base import Session, TargetInfo
from lmtui.targets.batch_limit import batch_limit
from lmtui.targets.cut import cut_error
from lmtui.targets.detokenize import IncrementalText
from lmtui.targets.kv_cache import CacheSize, cpu_cache_size
from lmtui.targets.sampling import sampling
from lmtui.workload import tokenizers
from lmtui.workload.plan import PlannedRequest

GPU_PAGE = 256
NO_EOS = -1
STOP_TIMEOUT_S = 30.0


class _Flight:
    """A request in the engine and the session that hears of it."""

    def __init__(self, session: Session, prompt_tokens: int, text: IncrementalText | None) -> None:
        self.session = session
        self.prompt_tokens = prompt_tokens
        self.text = text
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tokens = 0
        self.made = 0
        self.cut_ns: int | None = None

    def end(self, outcome: Outcome, at_ns: int, error: str = "", lost: TargetError | None = None) -> None:
        """End the session, and `perform`: with `lost` when the engine is gone."""
        self.session.end(
            outcome,
            at_ns,
            output_tokens=self.tokens,
            token_source=TokenSource.ENGINE,
            prompt_tokens=self.prompt_tokens,
            let_go_ns=UNKNOWN if self.cut_ns is None else max(at_ns - self.cut_ns, 0),
            wasted_tokens=UNKNOWN if self.cut_ns is None else self.made - self.tokens,
            error=error,
        )
        if lost is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(lost)


class TransformersTarget:
    """Loads a model and generates with `ContinuousBatchingManager`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._flights: dict[str, _Flight] = {}
        self._count = 0
        self._is_closing = False
        self._death = ""
        self._manager: Any = None

    async def open(self, progress: Callable[[str], None]) -> TargetInfo:
        """Load the model in this thread, and start the manager's.

        Raises:
            TargetError: PyTorch is missing, the model cannot be loaded, or the device is not there.
        """
        self._loop = asyncio.get_running_loop()
        if importlib.util.find_spec("torch") is None:
            raise TargetError("target.kind \"transformers\" needs PyTorch: pip install 'lmtui[cpu]'")
        progress("loading PyTorch")
        model_name = self._config.target.model
        source, is_local = _model_source(model_name)
        if is_local:
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch

        device = _device(self._config.target.device, torch)
        progress(f"loading the model {model_name or tiny_model.NAME}")
        model = self._load(source or str(tiny_model.path()), is_local, device)
        self._tokenizer = tokenizers.load(
            self._config.target.tokenizer or source or str(tiny_model.path()), self._config.target.trust_remote_code
        )
        progress("preparing the KV cache")
        size = self._start(model, device)
        self._kv_tokens = size.tokens
        text_config = model.config.get_text_config()
        self._vocabulary = int(text_config.vocab_size)
        self._longest = int(getattr(text_config, "max_position_embeddings", None) or sys.maxsize)
        import transformers

        return TargetInfo(
            model=model_name or tiny_model.NAME,
            versions={"torch": str(torch.__version__), "transformers": transformers.__version__},
            limits={
                "kv_tokens": size.tokens,
                "page_size": size.page_size,
                "max_batch_tokens": size.max_batch_tokens,
                "max_batch_size": size.max_requests,
                "device": device,
                "dtype": str(model.dtype).removeprefix("torch."),
            },
            notes=() if model_name else ("A tiny model with random weights answered: its text means nothing.",),
        )

    async def perform(self, request: PlannedRequest, session: Session) -> None:
        """Generate for one request; over when it is finished, or when the engine let go of it after a cut."""
        if session.cut_as is not None:
            session.end(Outcome.DROPPED, time.monotonic_ns(), error=cut_error(session.cut_as))
            return
        skip_tokenize = self._config.request.skip_tokenize
        ids = self._ids(request) if skip_tokenize else []
        self._count += 1
        name = f"lmtui-{self._count}"
        session.on_cut = lambda: self._cut(name)
        session.sent(time.monotonic_ns())
        if not skip_tokenize:
            ids = self._ids(request)
        text = None if self._config.request.skip_detokenize else IncrementalText(self._tokenizer)
        flight = _Flight(session, len(ids), text)
        if refusal := self._refusal(ids, request.output_len):
            flight.end(Outcome.BAD_FINISH, time.monotonic_ns(), refusal)
        else:
            self._submit(name, flight, ids)
        try:
            await flight.over
        finally:
            self._flights.pop(name, None)  # still there only when the load gave up waiting

    def _submit(self, name: str, flight: _Flight, ids: list[int]) -> None:
        self._flights[name] = flight
        accepted = self._manager.add_request(
            ids,
            request_id=name,
            max_new_tokens=flight.session.request.output_len,
            streaming=self._config.request.stream,
            eos_token_id=NO_EOS if self._config.request.ignore_eos else None,
        )
        if accepted is None:
            lost = self._lost()
            flight.end(Outcome.BAD_FINISH, time.monotonic_ns(), str(lost), lost)

    async def close(self) -> None:
        """Stop the manager's thread and drop the model."""
        self._is_closing = True
        if self._manager is not None:
            self._manager.stop(block=True, timeout=STOP_TIMEOUT_S, hard_stop=True)
            self._manager.destroy()
            self._manager = None

    def _load(self, source: str, is_local: bool, device: str) -> Any:
        import torch
        from transformers.models.auto.modeling_auto import AutoModelForCausalLM

        target = self._config.target
        dtype: Any = target.dtype if target.dtype == "auto" else getattr(torch, target.dtype)
        if target.dtype == "auto" and device == "cpu":
            dtype = torch.float32
        try:
            model = AutoModelForCausalLM.from_pretrained(
                source,
                dtype=dtype,
                revision=target.revision or "main",
                local_files_only=is_local,
                trust_remote_code=target.trust_remote_code,
            )
            return model.to(device)
        except Exception as error:  # Code and weights of a model may raise anything.
            raise TargetError(
                f"The model '{source}' cannot be loaded ({type(error).__name__}: {_first_line(error)}): "
                "set target.model to a folder or a hub name of a causal language model."
            ) from error

    def _start(self, model: Any, device: str) -> CacheSize:
        """Start the manager and listen to it; return the size of its cache."""
        from transformers.generation.configuration_utils import ContinuousBatchingConfig

        batching = ContinuousBatchingConfig(seed=self._config.seed)
        if device == "cpu":
            size = cpu_cache_size(self._config, _bytes_per_token(model), _memory_bytes())
            batching.page_size = size.page_size
            batching.num_blocks = size.num_blocks
            batching.max_batch_tokens = size.max_batch_tokens
            batching.max_requests_per_batch = size.max_requests
            batching.auto_switch_to_flash = False
        else:
            batching.max_requests_per_batch = batch_limit(self._config)
            if self._config.target.kv_tokens is not None:
                batching.page_size = GPU_PAGE
                batching.num_blocks = -(-self._config.target.kv_tokens // GPU_PAGE)
        try:
            manager = model.init_continuous_batching(self._sampling(model), batching)
            manager.warmup()
        except Exception as error:  # Anything from an unsupported layer to too little memory.
            raise TargetError(
                f"The model cannot be served by transformers' continuous batching ({type(error).__name__}: "
                f"{_first_line(error)}): try a smaller target.kv_tokens, or another model."
            ) from error
        self._manager = manager
        self._listen()
        manager.start()
        thread = manager._generation_thread
        threading.Thread(target=self._wait_for_end_of, args=(thread,), name="lmtui-engine-watch", daemon=True).start()
        resolved = manager.continuous_batching_config
        return CacheSize(
            resolved.page_size, resolved.num_blocks, resolved.max_batch_tokens, resolved.max_requests_per_batch
        )

    def _sampling(self, model: Any) -> Any:
        """Return the generation config: the request's sampling, the model's EOS, nothing else of the model's."""
        from transformers.generation.configuration_utils import GenerationConfig

        asked = sampling(self._config)
        eos = model.generation_config.eos_token_id
        common = {"eos_token_id": NO_EOS if eos is None else eos}
        if asked.temperature == 0:
            return GenerationConfig(do_sample=False, **common)
        return GenerationConfig(
            do_sample=True,
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_k=asked.top_k,
            **common,
        )

    def _listen(self) -> None:
        """Put this target's ears where the manager hands out outputs and drops cancelled requests."""
        router = self._manager.output_router
        router.deliver = lambda output: self._hand_over([output])
        router.deliver_batch = self._hand_over
        scheduler = self._manager.batch_processor.scheduler
        drop_cancelled = scheduler.clear_cancelled_requests

        def drop_and_tell() -> Any:
            dropped = drop_cancelled()
            if dropped:
                names = [state.request_id for state in dropped]
                self._loop.call_soon_threadsafe(self._let_go, time.monotonic_ns(), names)
            return dropped

        scheduler.clear_cancelled_requests = drop_and_tell

    def _hand_over(self, outputs: list[Any]) -> None:
        """Stamp the outputs of a step and give them to the loop. Runs in the manager's thread."""
        self._loop.call_soon_threadsafe(self._receive, time.monotonic_ns(), outputs)

    def _wait_for_end_of(self, thread: threading.Thread) -> None:
        thread.join()
        if not self._is_closing:
            self._loop.call_soon_threadsafe(self._thread_ended)

    def _receive(self, at_ns: int, outputs: list[Any]) -> None:
        for output in outputs:
            flight = self._flights.get(output.request_id)
            if flight is None:
                continue  # Let go of while a GPU was at work on its last batch, or given up by the load.
            flight.made = max(flight.made, len(output.generated_tokens))
            stop = False
            if flight.cut_ns is None and flight.made > flight.tokens:
                flight.tokens = flight.made
                stop = flight.session.tick(at_ns, flight.tokens)
                if flight.text is not None:
                    flight.text.add(output.generated_tokens)
            if output.is_finished():
                del self._flights[output.request_id]
                self._finish(flight, at_ns, output.error)
            elif stop:
                self._cut(output.request_id)

    def _finish(self, flight: _Flight, at_ns: int, error: str | None) -> None:
        cut_as = flight.session.cut_as
        if flight.cut_ns is not None and cut_as is not None:
            flight.end(cut_as, at_ns, cut_error(cut_as))
        elif error is not None:
            if is_dead := self._manager.background_thread_status.can_accept_new_requests() is not None:
                self._death = error
            flight.end(Outcome.BAD_FINISH, at_ns, error or "no reason given", self._lost() if is_dead else None)
        elif flight.tokens == 0:
            flight.end(Outcome.NO_TOKEN, at_ns, "finished without any token")
        elif self._config.request.ignore_eos and flight.tokens < flight.session.request.output_len:
            flight.end(Outcome.SHORT, at_ns)
        else:
            flight.end(Outcome.OK, at_ns)

    def _cut(self, name: str) -> None:
        flight = self._flights.get(name)
        if flight is not None and flight.cut_ns is None:
            flight.cut_ns = time.monotonic_ns()
            self._manager.cancel_request(name)

    def _let_go(self, at_ns: int, names: list[str]) -> None:
        for name in names:
            flight = self._flights.pop(name, None)
            if flight is not None and (cut_as := flight.session.cut_as) is not None:
                flight.end(cut_as, at_ns, cut_error(cut_as))

    def _thread_ended(self) -> None:
        """End what is left when the manager's thread died."""
        lost = self._lost()
        for flight in self._flights.values():
            flight.end(Outcome.BAD_FINISH, time.monotonic_ns(), str(lost), lost)
        self._flights.clear()

    def _lost(self) -> TargetError:
        """Say why the manager's thread died: it fails its requests first and records the reason for itself later."""
        cause = self._manager.background_thread_status.fatal_error
        words = self._death or "no reason known" if cause is None else f"{type(cause).__name__}: {_first_line(cause)}"
        return TargetError(f"The transformers engine died ({words}): see the run's engine.log.")

    def _ids(self, request: PlannedRequest) -> list[int]:
        if request.token_ids is not None:
            ids: list[int] = request.token_ids.tolist()
            return ids
        return self._tokenizer.encode(request.prompt)

    def _refusal(self, ids: list[int], output_len: int) -> str:
        """Say why the engine could not take the prompt ("" when it can): a bad one would cost all others theirs."""
        if not ids:
            return "The prompt has no tokens."
        if not 0 <= min(ids) <= max(ids) < self._vocabulary:
            return (
                f"The prompt has token ids outside the model's vocabulary of {self._vocabulary}: see target.tokenizer."
            )
        needed = len(ids) + output_len
        if needed > self._longest:
            return f"The request has {needed} tokens with its output; the model takes {self._longest} at most."
        if needed > self._kv_tokens:
            return (
                f"The request needs {needed} tokens of KV; the cache holds {self._kv_tokens}: raise target.kv_tokens."
            )
        return ""


def _model_source(model: str | None) -> tuple[str | None, bool]:
    """Return the folder or hub name (None: the tiny model), and whether it is on this machine."""
    if model is None:
        return None, True
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path), True
    if path.exists():
        raise TargetError(f"target.model '{model}' is a file: give the folder that holds the model.")
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        raise TargetError(f"target.model '{model}' does not exist: give a folder that holds a model, or a hub name.")
    return model, False


def _device(asked: str, torch: Any) -> str:
    if asked not in ("auto", "cpu", "cuda"):
        raise TargetError(f'target.device "{asked}" is not for transformers: use "auto", "cpu" or "cuda".')
    has_cuda = torch.cuda.is_available()
    if asked == "cuda" and not has_cuda:
        raise TargetError('target.device is "cuda", but PyTorch sees no GPU: use "cpu", or install a PyTorch for CUDA.')
    return "cuda" if asked != "cpu" and has_cuda else "cpu"


def _bytes_per_token(model: Any) -> int:
    """Return the bytes that keys and values of one token take in all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * head_dim * model.dtype.itemsize)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no reason given"
