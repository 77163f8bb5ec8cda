"""What counts as the same in the tests of fidelity, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from fidelity.meanings import SILENCE, distil

SAME: list[tuple[str, Any, Any]] = [
    ("chat_completions", {"role": "user", "content": "a"},
     {"role": "user", "content": [{"type": "text", "text": "a"}]}),
    ("chat_completions", {"max_tokens": 5, "stop": "x"},
     {"max_completion_tokens": 5, "stop": ["x"]}),
    ("generate_content", {"parts": [{"text": "a"}, {"text": "b"}]}, {"parts": [{"text": "ab"}]}),
    ("messages", {"role": "user", "content": "a"},
     {"role": "user", "content": [{"type": "text", "text": "a"}]}),
    ("ollama_chat", {"format": {"type": "object"}}, {"format": "json"}),
    ("responses", {"input": "a"}, {"input": [{"role": "user", "content": "a"}]}),
]  # fmt: skip
OTHER: list[tuple[str, Any, Any]] = [
    ("chat_completions", {"role": "user", "content": ["a", "b"]},
     {"role": "user", "content": "ab"}),
    ("chat_completions", {"strict": True}, {}),
    ("generate_content", {"parts": [{"text": "a"}, {"text": "b", "thought": True}]},
     {"parts": [{"text": "ab"}]}),
    ("generate_content", {"parts": [{"text": "", "thoughtSignature": "s"}]}, {"parts": []}),
    ("ollama_chat", {"think": True}, {"think": "medium"}),
    ("responses", {"store": False}, {}),
    ("responses", {"type": "function", "name": "f", "strict": False},
     {"type": "function", "name": "f"}),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "one", "other"), SAME, ids=repr)
def test_some_spellings_mean_the_same(protocol: str, one: Any, other: Any) -> None:
    """Because the protocol says so."""
    assert distil(protocol, one) == distil(protocol, other)


@pytest.mark.parametrize(("protocol", "one", "other"), OTHER, ids=repr)
def test_what_differs_in_meaning_differs(protocol: str, one: Any, other: Any) -> None:
    """However alike the two are."""
    assert distil(protocol, one) != distil(protocol, other)


@pytest.mark.parametrize("protocol", SILENCE)
def test_nothing_is_said_in_three_ways(protocol: str) -> None:
    """But in what is a user's own, null is a value."""
    assert distil(protocol, {"a": None, "b": [], "c": ""}) == distil(protocol, {})
    assert distil(protocol, {"args": {"a": None}}) != distil(protocol, {"args": {}})
