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
from support.stores.sessions import (
    OPENCODE_SESSION,
    PNG,
    answer_claude,
    ask_claude,
    make_codex_item,
    make_opencode_message,
    write_lines,
    write_opencode,
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


LOOK = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
FOUND = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py"}]
CLAUDE_CODE = [
    ask_claude("u", None, "How many?"),
    answer_claude("a", "u", {"type": "thinking", "thinking": "Hm.", "signature": "sig"}),
    answer_claude("aa", "a", LOOK),
    answer_claude("aaa", "aa", {**LOOK, "id": "toolu_2"}),
    ask_claude("r", "aa", FOUND),
    answer_claude("b", "aaa", {"type": "text", "text": "It is 42."}, answer="msg_2"),
]
CODEX = [
    make_codex_item("message", role="user", content=[{"type": "input_text", "text": "How many?"}]),
    make_codex_item("reasoning", summary=[], encrypted_content="gAAAA"),
    make_codex_item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c"),
    make_codex_item("custom_tool_call_output", call_id="c", output="Done"),
    make_codex_item(
        "agent_message", author="/lead/a", content=[{"type": "input_text", "text": "1"}]
    ),
    make_codex_item("image_generation_call", id="ig_1", status="completed", result=PNG),
    make_codex_item("image_generation_call", id="ig_2", status="failed", result=None),
    make_codex_item(
        "message", role="assistant", content=[{"type": "output_text", "text": "It is 42."}]
    ),
]


def write_session(folder: Path, agent: str) -> Path:
    """Write a session with a call that has no result."""
    if agent == "claude-code":
        return write_lines(folder / "s.jsonl", *CLAUDE_CODE)
    if agent == "codex":
        return write_lines(folder / "rollout-s.jsonl", *CODEX)
    states = ({"status": "completed", "input": {}, "output": "a.py"}, {"status": "pending"})
    tools = [
        {"type": "tool", "callID": f"c{number}", "tool": "bash", "state": state}
        for number, state in enumerate(states)
    ]
    answer = make_opencode_message("msg_2", "assistant", *tools)
    last = make_opencode_message("msg_3", "assistant", {"type": "text", "text": "It is 42."})
    question = make_opencode_message("msg_1", "user", {"type": "text", "text": "How many?"})
    return write_opencode(folder, OPENCODE_SESSION, [question, answer, last])


@pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)
@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode"])
def test_a_session_of_a_coding_agent_is_sent_to_every_vendor(
    tmp_path: Path, party: Party, agent: str
) -> None:
    """Each gets a valid request, also with a call that was interrupted."""
    (found,) = import_conversations(write_session(tmp_path, agent))
    body = party.nativize(produce_request((*found.value.canisters, ask("And now?")))).value

    assert find_offence(body, party, is_common=False) is None
    assert "It is 42." in msgspec.json.encode(body).decode()
