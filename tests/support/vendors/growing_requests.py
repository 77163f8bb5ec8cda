"""Requests that grow in one respect, as clients of each protocol write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FIELDS = {"responses": "input", "generate_content": "contents"}


def produce_client(protocol: str) -> Client:
    """Make the client that writes requests in a protocol."""
    return {"generate_content": Gemini, "messages": Anthropic, "responses": Responses}.get(
        protocol, Client
    )(protocol)


class Client:
    """Writes requests of Chat Completions and of Ollama, as clients do."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol

    def say(self, text: str = "hi", role: str = "user") -> dict[str, Any]:
        return {"role": role, "content": text}

    def ask(self, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {FIELDS.get(self.protocol, "messages"): list(messages), **fields}

    def part(self) -> dict[str, Any]:
        return {"type": "text", "text": "hi"}

    def say_parts(self, count: int) -> dict[str, Any]:
        if self.protocol == "ollama_chat":
            return {**self.say(), "images": ["iVBORw0KGgo="] * count}
        return {"role": "user", "content": [self.part()] * count}

    def tool(self, name: str, schema: Any = SCHEMA) -> dict[str, Any]:
        inner = {"name": name, "description": "d", "parameters": schema}
        return {"type": "function", "function": inner}

    def own_tool(self) -> dict[str, Any]:
        return {"type": "web_search"}

    def gather(self, count: int) -> list[dict[str, Any]]:
        return [self.tool(f"n__f{number}") for number in range(count)]

    def offer(self, *tools: dict[str, Any]) -> dict[str, Any]:
        return self.ask(self.say(), tools=list(tools))

    def call(self, ids: list[str]) -> list[dict[str, Any]]:
        arguments: Any = {} if self.protocol == "ollama_chat" else "{}"
        calls = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": arguments}}
            for each in ids
        ]
        return [{"role": "assistant", "content": "", "tool_calls": calls}]

    def answer(self, ids: list[str]) -> list[dict[str, Any]]:
        return [{"role": "tool", "tool_call_id": each, "content": "r"} for each in ids]


class Anthropic(Client):
    """Writes requests of Messages, as clients do."""

    def tool(self, name: str, schema: Any = SCHEMA) -> dict[str, Any]:
        return {"name": name, "description": "d", "input_schema": schema}

    def own_tool(self) -> dict[str, Any]:
        return {"type": "web_search_20250305", "name": "web_search"}

    def call(self, ids: list[str]) -> list[dict[str, Any]]:
        calls = [{"type": "tool_use", "id": each, "name": "f", "input": {}} for each in ids]
        return [{"role": "assistant", "content": calls}]

    def answer(self, ids: list[str]) -> list[dict[str, Any]]:
        results = [{"type": "tool_result", "tool_use_id": each, "content": "r"} for each in ids]
        return [{"role": "user", "content": results}]


class Responses(Client):
    """Writes requests of Responses, as clients do."""

    def part(self) -> dict[str, Any]:
        return {"type": "input_text", "text": "hi"}

    def tool(self, name: str, schema: Any = SCHEMA) -> dict[str, Any]:
        return {"type": "function", "name": name, "description": "d", "parameters": schema}

    def gather(self, count: int) -> list[dict[str, Any]]:
        tools = [self.tool(f"f{number}") for number in range(count)]
        return [{"type": "namespace", "name": "n", "tools": tools}]

    def call(self, ids: list[str]) -> list[dict[str, Any]]:
        return [
            {"type": "function_call", "call_id": each, "name": "f", "arguments": "{}"}
            for each in ids
        ]

    def answer(self, ids: list[str]) -> list[dict[str, Any]]:
        return [{"type": "function_call_output", "call_id": each, "output": "r"} for each in ids]


class Gemini(Client):
    """Writes requests of generateContent, as clients do."""

    def say(self, text: str = "hi", role: str = "user") -> dict[str, Any]:
        return {"role": "user" if role == "user" else "model", "parts": [{"text": text}]}

    def say_parts(self, count: int) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": "hi"}] * count}

    def tool(self, name: str, schema: Any = SCHEMA) -> dict[str, Any]:
        inner = {"name": name, "description": "d", "parameters": schema}
        return {"functionDeclarations": [inner]}

    def own_tool(self) -> dict[str, Any]:
        return {"codeExecution": {}}

    def call(self, ids: list[str]) -> list[dict[str, Any]]:
        calls = [{"functionCall": {"id": each, "name": "f", "args": {}}} for each in ids]
        return [{"role": "model", "parts": calls}]

    def answer(self, ids: list[str]) -> list[dict[str, Any]]:
        parts = [
            {"functionResponse": {"id": each, "name": "f", "response": {"r": 1}}} for each in ids
        ]
        return [{"role": "user", "parts": parts}]


def call_each(client: Client, count: int) -> list[dict[str, Any]]:
    ids = name_calls(count)
    return [each for one in ids for each in (*client.call([one]), *client.answer([one]))]


def name_calls(count: int) -> list[str]:
    return [f"call_{number:06}" for number in range(count)]


def produce_properties(count: int) -> dict[str, Any]:
    names = [f"p{number}" for number in range(count)]
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


CASES: dict[str, Callable[[Client, int], dict[str, Any]]] = {
    "tools of one name": lambda c, n: c.offer(*[c.tool("f")] * n),
    "tools that only have a name": lambda c, n: c.offer(
        *[{"type": "function", "name": "f", "function": {"name": "f"}}] * n
    ),
    "tools of names of their own": lambda c, n: c.offer(*[c.tool(f"f{i}") for i in range(n)]),
    "tools of strange names": lambda c, n: c.offer(*[c.tool(f"f é {i}") for i in range(n)]),
    "tools of the vendor": lambda c, n: c.offer(*[c.own_tool()] * n),
    "tools of a namespace": lambda c, n: c.offer(*c.gather(n)),
    "properties": lambda c, n: c.offer(c.tool("f", produce_properties(n))),
    "values of one property": lambda c, n: c.offer(
        c.tool("f", {"type": "object", "properties": {"a": {"enum": [str(i) for i in range(n)]}}})
    ),
    "forms of one property": lambda c, n: c.offer(
        c.tool("f", {"type": "object", "properties": {"a": {"anyOf": [SCHEMA] * n}}})
    ),
    "messages": lambda c, n: c.ask(*[c.say()] * n),
    "messages of both": lambda c, n: c.ask(*[c.say(), c.say(role="assistant")] * n, c.say()),
    "parts": lambda c, n: c.ask(c.say_parts(n)),
    "calls of one turn": lambda c, n: c.ask(
        c.say(), *c.call(name_calls(n)), *c.answer(name_calls(n))
    ),
    "calls of one turn, answered from the last": lambda c, n: c.ask(
        c.say(), *c.call(name_calls(n)), *c.answer(name_calls(n)[::-1])
    ),
    "calls of many turns": lambda c, n: c.ask(c.say(), *call_each(c, n)),
    "calls of one id": lambda c, n: c.ask(
        c.say(), *[*c.call(["call_1"]), *c.answer(["call_1"])] * n
    ),
    "calls of one id in one turn": lambda c, n: c.ask(
        c.say(), *c.call(["call_1"] * n), *c.answer(["call_1"] * n)
    ),
    "calls of strange ids": lambda c, n: c.ask(
        c.say(), *c.call([f"é {i}" for i in range(n)]), *c.answer([f"é {i}" for i in range(n)])
    ),
    "calls without results": lambda c, n: c.ask(c.say(), *c.call(name_calls(n)), c.say()),
    "calls that are answered late": lambda c, n: c.ask(
        *[each for one in name_calls(n) for each in (c.say(), *c.call([one]))],
        *c.answer(name_calls(n)),
    ),
    "results without calls": lambda c, n: c.ask(c.say(), *c.answer(name_calls(n)), c.say()),
    "unknown fields": lambda c, n: c.ask(c.say(), **{f"k{i}": i for i in range(n)}),
    "unknown fields of a message": lambda c, n: c.ask(
        {**c.say(), **{f"k{i}": i for i in range(n)}}
    ),
}


PROTOCOLS = ("chat_completions", "generate_content", "messages", "ollama_chat", "responses")
