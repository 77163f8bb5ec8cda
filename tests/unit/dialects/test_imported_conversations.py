"""An imported conversation can be continued with any vendor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fidelity.conversations import ask, produce_request
from fidelity.parties import PARTIES, Party
from fidelity.structure import find_offence
from support.stores.exports import (
    FIXTURES,
    make_chatgpt,
    make_chatgpt_node,
    make_claude,
    make_claude_message,
)
from vibe_llms.conversations.exchange import import_conversations

CODE = {"content_type": "code", "language": "python", "text": "print(6*7)"}
OUTPUT = {"content_type": "execution_output", "text": "42"}
CHATGPT = [
    make_chatgpt(
        make_chatgpt_node("q", "root", "user", "6*7?"),
        make_chatgpt_node("c", "q", "assistant", CODE, recipient="python"),
        make_chatgpt_node("r", "c", "tool", OUTPUT, name="python"),
        make_chatgpt_node("o", "r", "tool", OUTPUT, name="memory"),
        make_chatgpt_node("a", "o", "assistant", "It is 42."),
    )
]
USE = {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "6*7"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "42"}]}
CLAUDE = [
    make_claude(
        make_claude_message("m1", "human", "6*7?"),
        make_claude_message(
            "m2", "assistant", {"type": "thinking", "thinking": "Hm."}, USE, RESULT, "It is 42."
        ),
    )
]
LLM = json.loads((FIXTURES / "llm-0.36.json").read_text("utf-8"))


@pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)
@pytest.mark.parametrize(
    ("export", "words"), [(CHATGPT, "It is 42."), (CLAUDE, "It is 42."), (LLM, "multiply")]
)
def test_an_imported_conversation_is_sent_to_every_vendor(
    tmp_path: Path, party: Party, export: Any, words: str
) -> None:
    """Each gets a valid request with the texts of the conversation."""
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export), encoding="utf-8")

    for found in import_conversations(path):
        request = produce_request((*found.value.canisters, ask("And now?")))
        body = party.nativize(request).value

        assert find_offence(body, party, is_common=False) is None
        if words in str(found.value.canisters):
            assert words in msgspec.json.encode(body).decode()
