"""What an engine's log tells: the cause of a death in one line, and how far loading is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.targets import engine_log

STAMP = "2026-01-01 10:00:00,123 - lmdeploy - "
TRACEBACK = (
    f"{STAMP}ERROR - engine.py:663 - Engine main loop failed.\n"
    "Traceback (most recent call last):\n"
    '  File "/x/engine_loop.py", line 563, in main_loop\n'
    "    out = await self.executor.get_output_async()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    f'{STAMP}ERROR - async_engine.py:797 - session 9 finished, ResponseType.ENGINE_STOP_ERROR, reason "error"\n'
)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("", ""),
        ("INFO: all is well\n", ""),
        (TRACEBACK, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("[TM][FATAL][memory.cu:12] CUDA error: out of memory\nAborted\n", "CUDA error: out of memory"),
        (TRACEBACK + "[TM][FATAL][x.cc:1] CUDA runtime error\n", "CUDA runtime error"),
        (
            f"{STAMP}ERROR - base.py:70 - <PyTorch> check failed!\n\x1b[31mPyTorch is not available.\x1b[0m\n",
            "LMDeploy's check of PyTorch failed: PyTorch is not available.",
        ),
        (f"{STAMP}ERROR - a.py:1 - the first\n{STAMP}ERROR - a.py:2 - the last\n", "the last"),
        ("asyncio.exceptions.CancelledError\nSystemExit: 1\n", ""),
        (
            "RuntimeError: No enough gpu memory for kv cache.\nasyncio.exceptions.CancelledError\n",
            "RuntimeError: No enough gpu memory for kv cache.",
        ),
        ("Fatal Python error: Segmentation fault\n", "Fatal Python error: Segmentation fault"),
    ],
)
def test_the_cause_of_a_death_is_one_line(log: str, cause: str) -> None:
    assert engine_log.cause(log) == cause


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", ""),
        ("nothing of interest\n", ""),
        (
            "Loading weights from safetensors:  25%|##  | 1/4 [00:01<00:03]\r"
            "Loading weights from safetensors:  75%|####| 3/4 [00:03<00:01]",
            "loading weights from safetensors 75% (3/4)",
        ),
        ("Convert to turbomind format: 100%|######| 32/32 [00:01]\n", "convert to turbomind format 100% (32/32)"),
        (" 50%|###   | 2/4\n", "loading 50% (2/4)"),
        (f"{STAMP}INFO - base.py:1 - Building GraphRunner and warmup ops, please waiting.\n", "preparing CUDA graphs"),
        (f"{STAMP}INFO - base.py:1 - Warming up model.\nsomething else\n", "warming the engine up"),
        ("100%|####| 4/4\n" + f"{STAMP}INFO - base.py:1 - Warming up model.\n", "warming the engine up"),
    ],
)
def test_loading_is_one_line(log: str, line: str) -> None:
    assert engine_log.loading_line(log) == line


@given(st.text(max_size=400))
@settings(max_examples=200)
def test_any_text_gives_one_printable_line_at_most(text: str) -> None:
    for line in (engine_log.cause(text), engine_log.loading_line(text)):
        assert "\n" not in line
        assert "\r" not in line
        assert len(line) <= engine_log.MOST_CHARS
