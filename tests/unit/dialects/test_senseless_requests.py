"""A client's request that makes no sense is an error of ours, whatever is wrong with it."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import pytest

from vibe_llms.exceptions import RequestError

FIRST: dict[str, dict[str, Any]] = {
    "chat_completions": {"messages": [{"role": "user", "content": "q"}]},
    "generate_content": {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
    "messages": {"messages": [{"role": "user", "content": "q"}]},
    "ollama_chat": {"messages": [{"role": "user", "content": "q"}]},
    "responses": {"input": [{"role": "user", "content": "q"}]},
}


@pytest.mark.parametrize("protocol", FIRST)
@pytest.mark.parametrize("tools", [5, [5], [None], [{"type": 5}]])
def test_tools_without_sense_are_refused(protocol: str, tools: Any) -> None:
    """Or read as what only the vendor understands; nothing else comes of them."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")

    with contextlib.suppress(RequestError):
        dialect.normalize_request({**FIRST[protocol], "tools": tools})


@pytest.mark.parametrize("protocol", FIRST)
@pytest.mark.parametrize("said", [5, [5], [None], [{"role": 5}], [{"role": "user", "content": 5}]])
def test_messages_without_sense_are_refused(protocol: str, said: Any) -> None:
    """Or read as what only the vendor understands; nothing else comes of them."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    (name,) = FIRST[protocol]

    with contextlib.suppress(RequestError):
        dialect.normalize_request({name: said})
