"""Server URLs as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.config import server_url
from lmtui.config.target import Target


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000"),
        ("https://h/v1/chat/completions", "https://h"),
        ("https://h/v1/completions/", "https://h"),
        ("https://h/proxy/v1", "https://h/proxy"),
        ("https://h/proxy/v1/models", "https://h/proxy"),
        ("https://h/generate", "https://h"),
        ("https://h/v2/models/ensemble/generate_stream", "https://h"),
        ("https://h/v1beta", "https://h/v1beta"),
        (" http://[::1]:80/ ", "http://[::1]:80"),
        ("HTTP://H", "http://H"),
        ("unix:///run/llm.sock", "unix:///run/llm.sock"),
    ],
)
def test_endpoints_and_slashes_are_stripped(typed: str, url: str) -> None:
    assert server_url.normalised(typed) == url
    assert server_url.normalised(url) == url


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("h:8000", "starts with http"),
        ("localhost", "starts with http"),
        ("http://", "names a host"),
        ("ftp://h", "starts with http"),
        ("http://h:99999", "URL such as"),
        ("http://h:0", "between 1 and 65535"),
        ("http://h:x", "URL such as"),
        ("http://h h", "without spaces"),
        ("http://h\n", None),
        ("http://a:b@h", "without a user name or password"),
        ("http://h/?key=5", "without . or #"),
        ("http://[::1", "URL such as"),
        ("http://" + "a" * 64, "parts of 1 to 63 letters"),
        ("http://a..b", "parts of 1 to 63 letters"),
        ("unix://run/llm.sock", "absolute path"),
        ("unix:///", "absolute path"),
    ],
)
def test_what_is_no_url_is_refused(typed: str, words: str | None) -> None:
    if words is None:
        assert server_url.normalised(typed) == "http://h"
        return
    with pytest.raises(ValueError, match=words):
        server_url.normalised(typed)


@given(st.text() | st.text("htp:/[]@?#1.v").map("http://".__add__))
def test_any_text_is_normalised_or_refused(text: str) -> None:
    try:
        url = server_url.normalised(text)
    except ValueError:
        return
    assert server_url.normalised(url) == url


def test_presets_know_their_local_ports() -> None:
    def url(**more: str) -> str | None:
        return Target.model_validate({"kind": "server", **more}).server_url

    assert url(preset="lmdeploy") == "http://127.0.0.1:23333"
    assert url(preset="vllm") == "http://127.0.0.1:8000"
    assert url(preset="sglang") == "http://127.0.0.1:30000"
    assert url(preset="trt") == "http://127.0.0.1:8000"
    assert url() is None
    assert url(preset="vllm", base_url="http://gpu:1/v1/") == "http://gpu:1"
