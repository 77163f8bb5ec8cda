"""Long conversations as clients of each protocol send them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

PROTOCOLS: Final = (
    "chat_completions",
    "generate_content",
    "messages",
    "ollama_chat",
    "responses",
)
FIELDS: Final = {"responses": "input", "generate_content": "contents"}
_FUNCTION: Final = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}


def normalize(protocol: str) -> Callable[..., Any]:
    """Return the function that reads requests of a protocol."""
    dialect: Any = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    produced: Callable[..., Any] = dialect.normalize_request
    return produced


def write_message(protocol: str, role: str, text: str) -> dict[str, Any]:
    """Return a message of the user or the assistant."""
    if protocol == "generate_content":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


def write_call(protocol: str, number: int) -> list[dict[str, Any]]:
    """Return a call and its result."""
    identity, arguments, result = f"call_{number}", {"n": number}, f"result {number}"
    if protocol == "messages":
        use = {"type": "tool_use", "id": identity, "name": "look", "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": identity, "content": result}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    if protocol == "responses":
        call = {"type": "function_call", "call_id": identity, "name": "look"}
        output = {"type": "function_call_output", "call_id": identity, "output": result}
        return [{**call, "arguments": f'{{"n":{number}}}'}, output]
    if protocol == "generate_content":
        function = {"id": identity, "name": "look", "args": arguments}
        response = {"id": identity, "name": "look", "response": {"output": result}}
        return [
            {"role": "model", "parts": [{"functionCall": function}]},
            {"role": "user", "parts": [{"functionResponse": response}]},
        ]
    if protocol == "ollama_chat":
        call = {"id": identity, "function": {"name": "look", "arguments": arguments}}
        answer = {"role": "tool", "tool_name": "look", "content": result}
        return [{"role": "assistant", "content": "", "tool_calls": [call]}, answer]
    function = {"name": "look", "arguments": f'{{"n":{number}}}'}
    call = {"id": identity, "type": "function", "function": function}
    answer = {"role": "tool", "tool_call_id": identity, "content": result}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, answer]


def write_conversation(protocol: str, turns: int, *, with_tools: bool) -> list[dict[str, Any]]:
    """Return a conversation of a message and ``turns`` turns of two messages each."""
    messages = [write_message(protocol, "user", "Begin.")]
    for number in range(turns):
        if with_tools:
            messages += write_call(protocol, number)
        else:
            messages.append(write_message(protocol, "assistant", f"Answer {number}."))
            messages.append(write_message(protocol, "user", f"Question {number}?"))
    return messages


def write_body(protocol: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a request with these messages, and a tool."""
    tools: dict[str, Any] = {
        "messages": {"name": "look", "description": "Look.", "input_schema": {"type": "object"}},
        "generate_content": {"functionDeclarations": [_FUNCTION]},
        "responses": {"type": "function", **_FUNCTION},
    }
    tool = tools.get(protocol, {"type": "function", "function": _FUNCTION})
    return {"model": "m", FIELDS.get(protocol, "messages"): messages, "tools": [tool]}
