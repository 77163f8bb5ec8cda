"""The definition of equal meanings in the round-trip tests."""

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
def test_some_spellings_have_the_same_meaning(protocol: str, one: Any, other: Any) -> None:
    """By the definition of the protocol."""
    assert distil(protocol, one) == distil(protocol, other)


@pytest.mark.parametrize(("protocol", "one", "other"), OTHER, ids=repr)
def test_different_meanings_are_different(protocol: str, one: Any, other: Any) -> None:
    """Even if the spellings are similar."""
    assert distil(protocol, one) != distil(protocol, other)


@pytest.mark.parametrize("protocol", SILENCE)
def test_absent_null_and_empty_are_equal(protocol: str) -> None:
    """But in a user's own data, null is a value."""
    assert distil(protocol, {"a": None, "b": [], "c": ""}) == distil(protocol, {})
    assert distil(protocol, {"args": {"a": None}}) != distil(protocol, {"args": {}})
