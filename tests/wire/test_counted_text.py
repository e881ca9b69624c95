"""What a text that is tokenised again proves: pieces merge, so the server's own word comes first."""

from __future__ import annotations

import pytest

from lmtui.metrics.sessions import Outcome, TokenSource
from lmtui.wire.answer import Answer
from lmtui.wire.native import TrtAnswer
from lmtui.wire.openai import OpenAIAnswer
from lmtui.wire.outcome import Ending, Response, judge


def judged(answer: Answer, *events: bytes, asked: int = 12, counted: int = 5) -> Outcome:
    for event in events:
        answer.take(event)
    response = Response(Ending.BODY, "", 200, "", answer, b"", is_blank=False, saw_event=True, ended_inside=False)
    verdict = judge(response, max_tokens=asked, ignores_eos=True, cut_as=None, text_tokens=counted)
    assert (verdict.output_tokens, verdict.token_source) == (counted, TokenSource.TEXT)
    return verdict.outcome


def completion(finish: str) -> list[bytes]:
    pieces = [b'{"choices": [{"index": 0, "text": "a", "finish_reason": null}]}'] * 11
    return [*pieces, b'{"choices": [{"index": 0, "text": "a", "finish_reason": "%b"}]}' % finish.encode()]


@pytest.mark.parametrize(("finish", "outcome"), [("length", Outcome.OK), ("stop", Outcome.SHORT), ("x", Outcome.SHORT)])
def test_the_length_that_a_server_came_to_outdoes_a_text_that_merged(finish: str, outcome: Outcome) -> None:
    assert judged(OpenAIAnswer(), *completion(finish)) is outcome


def test_enough_text_outdoes_stop() -> None:
    assert judged(OpenAIAnswer(), *completion("stop"), counted=12) is Outcome.OK


def test_an_api_without_finish_reasons_is_not_judged_by_its_text() -> None:
    assert judged(TrtAnswer(), *[b'{"text_output": "a"}'] * 12) is Outcome.OK
