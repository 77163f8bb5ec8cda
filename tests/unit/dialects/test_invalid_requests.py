"""A client's invalid request raises one of our errors, whatever is wrong with it."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import pytest

from vibe_llms.exceptions import RequestError

FIRST: dict[str, dict[str, Any]] = {
    "bedrock": {"messages": [{"role": "user", "content": [{"text": "q"}]}]},
    "chat_completions": {"messages": [{"role": "user", "content": "q"}]},
    "generate_content": {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
    "messages": {"messages": [{"role": "user", "content": "q"}]},
    "ollama_chat": {"messages": [{"role": "user", "content": "q"}]},
    "responses": {"input": [{"role": "user", "content": "q"}]},
}


@pytest.mark.parametrize("protocol", FIRST)
@pytest.mark.parametrize("tools", [5, [5], [None], [{"type": 5}]])
def test_invalid_tools_are_rejected(protocol: str, tools: Any) -> None:
    """Or kept as native data; no other exception is raised."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")

    with contextlib.suppress(RequestError):
        dialect.normalize_request({**FIRST[protocol], "tools": tools})
    with contextlib.suppress(RequestError):
        dialect.normalize_request({**FIRST[protocol], "toolConfig": tools})
    with contextlib.suppress(RequestError):
        dialect.normalize_request({**FIRST[protocol], "toolConfig": {"tools": tools}})


@pytest.mark.parametrize("protocol", FIRST)
@pytest.mark.parametrize(
    "messages",
    [
        5,
        [5],
        [None],
        [{"role": 5}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [5]}],
    ],
)
def test_invalid_messages_are_rejected(protocol: str, messages: Any) -> None:
    """Or kept as native data; no other exception is raised."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    (name,) = FIRST[protocol]

    with contextlib.suppress(RequestError):
        dialect.normalize_request({name: messages})
