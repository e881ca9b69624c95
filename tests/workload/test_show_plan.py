from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest

from lmtui.workload.plan import Plan, PlannedRequest
from lmtui.workload.show import plan_object, plan_text

PLAN = Plan(
    requests=(
        PlannedRequest(0, "hello", 5, 2, np.array([7, 8], dtype=np.int32), due_s=0.0, cancel_after=3),
        PlannedRequest(1, "chat", 9, 4, messages=({"role": "user", "content": "chat"},), due_s=1.5),
        PlannedRequest(2, "late", 1, 3, due_s=2.25, cancel_after_s=0.5, cancel_before_token=True),
    ),
    warmup=(PlannedRequest(0, "warm", 5, 2),),
    raised=1,
    dropped={"a prompt too short": 12, "nothing": 0},
    notes=("a note",),
)


def cells(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def test_the_object_is_what_the_command_prints() -> None:
    assert json.loads(json.dumps(plan_object(PLAN))) == {
        "requests": [
            {
                "index": 0,
                "prompt": "hello",
                "token_ids": [7, 8],
                "input_len": 2,
                "output_len": 5,
                "due_s": 0.0,
                "cancel_after": 3,
            },
            {
                "index": 1,
                "prompt": "chat",
                "token_ids": None,
                "input_len": 4,
                "output_len": 9,
                "due_s": 1.5,
                "cancel_after": None,
                "messages": [{"role": "user", "content": "chat"}],
            },
            {
                "index": 2,
                "prompt": "late",
                "token_ids": None,
                "input_len": 3,
                "output_len": 1,
                "due_s": 2.25,
                "cancel_after": None,
                "cancel_after_s": 0.5,
                "cancel_before_token": True,
            },
        ],
        "totals": {
            "requests": 3,
            "input_len": 9,
            "output_len": 15,
            "cancelled": 2,
            "raised": 1,
            "duration_s": 2.25,
        },
        "dropped": {"a prompt too short": 12, "nothing": 0},
        "warmup": 1,
        "notes": ["a note"],
    }


def test_what_is_not_known_is_null_and_a_dash() -> None:
    plan = Plan((PlannedRequest(0, "one", 5, 2), PlannedRequest(1, "two", 5)))
    totals = plan_object(plan)["totals"]
    assert isinstance(totals, dict)
    assert totals["input_len"] is None
    assert totals["duration_s"] is None
    text = plan_text(plan, 80)
    assert "input tokens      –" in text
    assert "last due          –" in text


def test_the_text_tells_the_plan() -> None:
    text = plan_text(PLAN, 80)
    assert "cancels planned   2" in text
    assert "last due          2.250 s" in text
    assert ">3" in text
    assert "0.50s" in text
    assert "12  a prompt too short" in text
    assert "nothing" not in text
    assert "note: a note" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    prompt = "文字\x1b[31m red\t\n 😀 \u202e" * 80
    requests = tuple(PlannedRequest(k, prompt, 1 + k * k % 977, 5 + k, due_s=k * 1.0) for k in range(5000))
    text = plan_text(Plan(requests, notes=("word " * 90,), dropped={"x" * 200: 3}), width)
    assert max(map(cells, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "4999" in text
    assert "…" in text
    assert len(text.splitlines()) < 60


def test_a_histogram_counts_every_request() -> None:
    requests = tuple(PlannedRequest(k, "p", 1 + k % 100) for k in range(1000))
    lines = plan_text(Plan(requests), 80).split("output length: 1 to 100, mean 50.5\n")[1].splitlines()
    assert len(lines) == 8
    assert sum(int(line.split()[-1].replace(",", "")) for line in lines) == 1000
    assert plan_text(Plan((PlannedRequest(0, "p", 7),)), 80).endswith("output length: 7 each")


def test_a_long_prompt_is_cut_where_the_line_ends() -> None:
    line = plan_text(Plan((PlannedRequest(0, "word " * 99, 8),)), 80).splitlines()[1]
    assert len(line) == 80
    assert line.endswith("word word w…")


def test_a_wide_character_takes_two_columns() -> None:
    line = plan_text(Plan((PlannedRequest(0, "汉" * 99, 8),)), 80).splitlines()[1]
    assert line.count("汉") == (80 - line.index("汉") - 1) // 2
