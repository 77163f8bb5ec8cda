"""Requests of coding agents to a configured address, rewritten for tests.

Each is written after its public sources, and all but Cline after what releases that were current in
November 2026 have sent to a gateway: headers, the shape of the body, tools, how
histories are written, and what is read of an answer. Prompts and descriptions are ours.
"""

from __future__ import annotations

import abc
import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

PLACE: Final = {
    "type": "object",
    "properties": {"place": {"type": "string", "description": "The name of a harbour."}},
    "required": ["place"],
    "additionalProperties": False,
}
COMMAND: Final = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "What the shell runs."},
        "timeout_ms": {"type": "number", "description": "When it is ended."},
    },
    "required": ["command"],
    "additionalProperties": False,
}
PATCH_GRAMMAR: Final = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\n'
PATCH: Final = "*** Begin Patch\n*** Add File: tides.md\n+High water at Wick: noon.\n*** End Patch"


@attrs.frozen
class Call:
    """A call as an agent reads it.

    Attributes:
        tool: The name of the tool; of one in a namespace, both with a slash between them.
        input: Its arguments as plain data, or its free text.
        id: Id for the result.
    """

    tool: str
    input: Any
    id: str = attrs.field(default="", eq=False)


class Agent(abc.ABC):
    """One session of an agent, which stores its own history.

    Attributes:
        name: Of the program.
        look: The tool that it looks at files with.
        edit: The tool that it writes files with.
        other: A tool of an MCP server.
    """

    name: ClassVar[str]
    look: ClassVar[str]
    edit: ClassVar[str]
    other: ClassVar[str]
    headers: ClassVar[Mapping[str, str]]
    history: list[Any]

    def __init__(self, model: str, *, streaming: bool) -> None:
        self.model = model
        self.streaming = streaming
        self.history = []

    @property
    @abc.abstractmethod
    def path(self) -> str:
        """The path of its requests."""

    @abc.abstractmethod
    def compose(self) -> dict[str, Any]:
        """Return the body of its next request."""

    @abc.abstractmethod
    def list_tools(self) -> list[str]:
        """Return the names of its tools."""

    @abc.abstractmethod
    def say(self, text: str) -> None:
        """Add a message of the user."""

    @abc.abstractmethod
    def hear(self, data: bytes) -> tuple[str, list[Call]]:
        """Read an answer, and add it to the history as the agent does."""

    @abc.abstractmethod
    def answer(self, call: Call, text: str, *, failed: bool = False) -> None:
        """Add the result of a call."""


def read_events(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the data of server-sent events."""
    for block in data.decode("utf-8").replace("\r\n", "\n").split("\n\n"):
        lines = [
            line.removeprefix("data:") for line in block.split("\n") if line.startswith("data")
        ]
        text = "\n".join(lines).strip()
        if text and text != "[DONE]":
            yield json.loads(text)


class Codex(Agent):
    """Codex CLI: Responses, always streamed, nothing stored, all of the history each time."""

    name = "codex"
    look, edit, other = "exec_command", "apply_patch", "mcp__tides/look_up"
    headers: ClassVar[Mapping[str, str]] = {
        "accept": "text/event-stream",
        "originator": "codex_cli_rs",
        "session_id": "0197a1de-0000-7000-8000-000000000001",
        "user-agent": "codex_cli_rs/0.171.0 (Debian 12; x86_64) xterm-256color",
        "x-codex-turn-metadata": '{"turn_id":"1"}',
    }
    tools: ClassVar[list[dict[str, Any]]] = [
        {"type": "function", "name": "exec_command", "description": "Runs a shell command.",
         "strict": False, "parameters": COMMAND},
        {"type": "function", "name": "update_plan", "description": "Notes the plan.",
         "strict": False, "parameters": {"type": "object", "properties": {
             "plan": {"type": "array", "items": {"type": "object", "properties": {
                 "step": {"type": "string"}, "status": {"type": "string"}}}}},
             "required": ["plan"], "additionalProperties": False}},
        {"type": "custom", "name": "apply_patch",
         "description": "Edits files. This is a FREEFORM tool: do not wrap the patch in JSON.",
         "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR}},
        {"type": "web_search", "external_web_access": False},
        {"type": "namespace", "name": "mcp__tides", "description": "Tells the tides of harbours.",
         "tools": [
             {"type": "function", "name": "look_up", "description": "Looks up high water.",
              "strict": False, "parameters": PLACE},
             {"type": "function", "name": "list_harbours", "description": "Lists harbours.",
              "strict": False, "parameters": {"type": "object", "properties": {}}},
         ]},
    ]  # fmt: skip

    def __init__(self, model: str, *, streaming: bool) -> None:
        super().__init__(model, streaming=streaming)
        self.history = [
            _message("developer", "You are a coding agent in a terminal."),
            _message("developer", "The sandbox lets you write to the workspace alone."),
            _message("user", "<environment_context><cwd>/harbour</cwd></environment_context>"),
        ]

    @property
    def path(self) -> str:
        return "/v1/responses"

    def compose(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "input": copy.deepcopy(self.history),
            "tools": self.tools,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "store": False,
            "stream": self.streaming,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "0197a1de-0000-7000-8000-000000000001",
            "text": {"verbosity": "low"},
            "client_metadata": {"x-codex-turn-metadata": '{"request_kind": "turn"}'},
        }

    def list_tools(self) -> list[str]:
        return [
            "exec_command", "update_plan", "apply_patch", "mcp__tides/look_up",
            "mcp__tides/list_harbours",
        ]  # fmt: skip

    def say(self, text: str) -> None:
        self.history.append(_message("user", text))

    def hear(self, data: bytes) -> tuple[str, list[Call]]:
        if self.streaming:
            # It reads each finished item, and the usage at the end; the rest is only displayed.
            events = list(read_events(data))
            items = [each["item"] for each in events if each["type"].endswith("output_item.done")]
            pieces = "".join(
                each["delta"]
                for each in events
                if each["type"] == "response.custom_tool_call_input.delta"
            )
            written = "".join(each["input"] for each in items if each["type"] == "custom_tool_call")
            assert pieces == written
            assert events[-1]["type"] == "response.completed", events[-1]
            assert events[-1]["response"]["usage"]["input_tokens"] >= 0
        else:
            items = json.loads(data)["output"]
        self.history += items  # unchanged, with their ids
        calls = []
        for item in items:
            if item["type"] in ("function_call", "custom_tool_call"):
                space = f"{item['namespace']}/" if item.get("namespace") else ""
                is_custom = item["type"] == "custom_tool_call"
                arguments = item["input"] if is_custom else json.loads(item["arguments"])
                calls.append(Call(space + item["name"], arguments, item["call_id"]))
        texts = [
            part["text"] for item in items if item["type"] == "message" for part in item["content"]
        ]
        return "".join(texts), calls

    def answer(self, call: Call, text: str, *, failed: bool = False) -> None:
        kind = "custom_tool_call_output" if call.tool == self.edit else "function_call_output"
        output = {"type": kind, "id": f"fco_{len(self.history)}", "call_id": call.id}
        self.history.append({**output, "output": f"Exit code: {int(failed)}\nOutput:\n{text}"})


class CodexOfNewModels(Codex):
    """Codex CLI with a model whose tools stand among the items, usual ones in a namespace."""

    name = "codex-listed"
    look, edit, other = "functions/exec_command", "functions/apply_patch", "mcp__tides/look_up"

    def __init__(self, model: str, *, streaming: bool) -> None:
        super().__init__(model, streaming=streaming)
        usual = [each for each in self.tools if each["type"] in ("function", "custom")]
        others = [each for each in self.tools if each not in usual]
        functions = {"type": "namespace", "name": "functions", "description": "", "tools": usual}
        listed = {"type": "additional_tools", "id": "at_1", "role": "developer"}
        self.history.insert(0, {**listed, "tools": [functions, *others]})

    def compose(self) -> dict[str, Any]:
        body = super().compose()
        del body["tools"]
        reasoning = {"effort": "low", "context": "all_turns"}
        return {**body, "parallel_tool_calls": False, "reasoning": reasoning}

    def list_tools(self) -> list[str]:
        return [name if "/" in name else f"functions/{name}" for name in super().list_tools()]


def _message(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "id": f"msg_{len(text)}", "role": role, "content": content}


class ClaudeCode(Agent):
    """Claude Code: Messages, in beta, with thinking and marks for the cache."""

    name = "claude-code"
    look, edit, other = "Bash", "Edit", "mcp__tides__look_up"
    headers: ClassVar[Mapping[str, str]] = {
        "accept": "application/json",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,"
        "thinking-token-count-2026-05-13,mid-conversation-system-2026-04-07,"
        "context-management-2025-06-27,prompt-caching-scope-2026-01-05,effort-2025-11-24",
        "anthropic-dangerous-direct-browser-access": "true",
        "anthropic-version": "2023-06-01",
        "user-agent": "claude-cli/2.1.328 (external, sdk-cli)",
        "x-app": "cli",
        "x-claude-code-session-id": "5d0e0000-0000-4000-8000-000000000001",
        "x-stainless-lang": "js",
        "x-stainless-retry-count": "0",
        "x-stainless-timeout": "600",
    }
    tools: ClassVar[list[dict[str, Any]]] = [
        {"name": "Bash", "description": "Runs a bash command.", "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", **COMMAND}},
        {"name": "Edit", "description": "Replaces text in a file.", "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "An absolute path."},
                "old_string": {"type": "string"}, "new_string": {"type": "string"},
                "replace_all": {"type": "boolean", "default": False}},
            "required": ["file_path", "old_string", "new_string"],
            "additionalProperties": False}},
        {"name": "TodoWrite", "description": "Keeps a list of what is to be done.",
         "input_schema": {"type": "object", "properties": {"todos": {"type": "array", "items": {
             "type": "object", "properties": {"content": {"type": "string", "minLength": 1},
                                              "status": {"enum": ["pending", "completed"]}}}}}}},
        {"name": "mcp__tides__look_up", "description": "Looks up high water.",
         "input_schema": PLACE},
    ]  # fmt: skip

    @property
    def path(self) -> str:
        return "/v1/messages?beta=true"

    def compose(self) -> dict[str, Any]:
        messages = copy.deepcopy(self.history)
        last = next(each for each in reversed(messages) if each["role"] != "system")
        last["content"][-1]["cache_control"] = {"type": "ephemeral"}
        user = {"device_id": "d", "account_uuid": "", "session_id": "s"}
        return {
            "model": self.model,
            "messages": messages,
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.257;"},
                {"type": "text", "text": "You are an agent.",
                 "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                {"type": "text", "text": "You help in a terminal.",
                 "cache_control": {"type": "ephemeral"}},
            ],
            "tools": self.tools,
            "metadata": {"user_id": json.dumps(user)},
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            **({"stream": True} if self.streaming else {}),
        }  # fmt: skip

    def list_tools(self) -> list[str]:
        return [tool["name"] for tool in self.tools]

    def say(self, text: str) -> None:
        reminder = "<system-reminder>The list of what is to be done is empty.</system-reminder>"
        parts = [{"type": "text", "text": reminder}, {"type": "text", "text": text}]
        is_first = not self.history
        self.history.append({"role": "user", "content": parts})
        if is_first:  # later facts follow the prompt
            kinds = "Kinds of agents for the tool Agent: one that explores."
            self.history.append({"role": "system", "content": kinds})

    def hear(self, data: bytes) -> tuple[str, list[Call]]:
        message = self._gather(data) if self.streaming else json.loads(data)
        content = message["content"]
        self.history.append({"role": "assistant", "content": content})
        calls = [
            Call(each["name"], each["input"], each["id"])
            for each in content
            if each["type"] == "tool_use"
        ]
        assert message["stop_reason"] == ("tool_use" if calls else "end_turn")
        return "".join(each["text"] for each in content if each["type"] == "text"), calls

    def _gather(self, data: bytes) -> dict[str, Any]:
        message: dict[str, Any] = {}
        for event in read_events(data):
            match event["type"]:
                case "message_start":
                    message = event["message"]
                case "content_block_start":
                    block = event["content_block"]
                    assert event["index"] == len(message["content"])
                    message["content"].append(block)
                    written = ""
                case "content_block_delta":
                    delta = event["delta"]
                    if delta["type"] == "input_json_delta":
                        written += delta["partial_json"]
                    elif delta["type"] == "signature_delta":
                        block["signature"] = delta["signature"]
                    else:
                        field = delta["type"].removesuffix("_delta")
                        block[field] += delta[field]
                case "content_block_stop" if block["type"] == "tool_use":
                    block["input"] = json.loads(written or "{}")
                case "message_delta":
                    message["stop_reason"] = event["delta"]["stop_reason"]
                case "error":
                    raise AssertionError(event)
        return message

    def answer(self, call: Call, text: str, *, failed: bool = False) -> None:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        result |= {"is_error": failed}
        if self.history[-1]["role"] == "user":
            self.history[-1]["content"].append(result)
        else:
            self.history.append({"role": "user", "content": [result]})


class OpenCode(Agent):
    """opencode by Vercel's package for servers of Chat Completions."""

    name = "opencode"
    look, edit, other = "bash", "edit", "tides_look_up"
    headers: ClassVar[Mapping[str, str]] = {
        "accept": "*/*",
        "user-agent": "opencode/1.14.0 ai-sdk/provider-utils/4.0.9 runtime/bun/1.3.5",
    }
    parameters: ClassVar[list[tuple[str, str, dict[str, Any]]]] = [
        ("bash", "Runs a bash command.", {**COMMAND}),
        ("edit", "Replaces text in a file.", {"type": "object", "properties": {
            "filePath": {"type": "string"}, "oldString": {"type": "string"},
            "newString": {"type": "string"}}, "required": ["filePath", "oldString", "newString"]}),
        ("todowrite", "Keeps a list of what is to be done.", {"type": "object", "properties": {
            "todos": {"type": "array", "items": {"type": "object"}}}}),
        ("tides_look_up", "Looks up high water.", PLACE),
    ]  # fmt: skip

    def __init__(self, model: str, *, streaming: bool) -> None:
        super().__init__(model, streaming=streaming)
        self.history = [
            {"role": "system", "content": "You are a coding agent in a terminal."},
            {"role": "system", "content": "The working directory is /harbour."},
        ]

    @property
    def path(self) -> str:
        return "/v1/chat/completions"

    def compose(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "max_tokens": 32_000,
            "reasoning_effort": "medium",
            "messages": copy.deepcopy(self.history),
            "tools": [
                {"type": "function", "function": {
                    "name": name, "description": text, "parameters": {
                        "$schema": "http://json-schema.org/draft-07/schema#", **schema}}}
                for name, text, schema in self.parameters
            ],
            "tool_choice": "auto",
            **({"stream": True, "stream_options": {"include_usage": True}}
               if self.streaming else {}),
        }  # fmt: skip

    def list_tools(self) -> list[str]:
        return [name for name, _, _ in self.parameters]

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def hear(self, data: bytes) -> tuple[str, list[Call]]:
        message = gather_chat(data) if self.streaming else json.loads(data)["choices"][0]["message"]
        made = message.get("tool_calls") or ()
        kept = {"role": "assistant", "content": message.get("content") or ""}
        if message.get("reasoning_content"):
            kept["reasoning_content"] = message["reasoning_content"]
        if made:
            kept["tool_calls"] = [
                {"id": each["id"], "type": "function", "function": each["function"]}
                for each in made
            ]
        self.history.append(kept)
        calls = [
            Call(each["function"]["name"], json.loads(each["function"]["arguments"]), each["id"])
            for each in made
        ]
        return message.get("content") or "", calls

    def answer(self, call: Call, text: str, *, failed: bool = False) -> None:
        self.history.append({"role": "tool", "tool_call_id": call.id, "content": text})


def gather_chat(data: bytes) -> dict[str, Any]:
    """Return the message from the chunks of a stream."""
    message: dict[str, Any] = {"content": "", "tool_calls": [], "reasoning_content": ""}
    reason, usage = None, None
    for chunk in read_events(data):
        assert "error" not in chunk, chunk
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            reason = choice.get("finish_reason") or reason
            delta = choice["delta"]
            for field in ("content", "reasoning_content"):
                message[field] += delta.get(field) or ""
            for piece in delta.get("tool_calls") or ():
                if piece["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"id": piece["id"], "function": {
                        "name": piece["function"]["name"], "arguments": ""}})  # fmt: skip
                function = message["tool_calls"][piece["index"]]["function"]
                function["arguments"] += piece["function"].get("arguments") or ""
    assert reason == ("tool_calls" if message["tool_calls"] else "stop")
    assert usage is not None
    return message


class OpenCodeWithCache(OpenCode):
    """opencode with a model that is called Claude's: it marks messages for the cache."""

    name = "opencode-claude"

    def compose(self) -> dict[str, Any]:
        body = super().compose()
        del body["reasoning_effort"]
        mark = {"cache_control": {"type": "ephemeral"}}
        for message in (*body["messages"][:2], *body["messages"][2:][-2:]):
            if message["role"] in ("system", "user") and isinstance(message["content"], str):
                part = {"type": "text", "text": message["content"], **mark}
                message["content"] = [part]
            else:
                message.update(mark)
        return body


class Cline(OpenCode):
    """Cline by its provider for servers like OpenAI, with native tools, before GPT-5."""

    name = "cline"
    look, edit, other = "execute_command", "replace_in_file", "c1tides0mcp0look_up"
    headers: ClassVar[Mapping[str, str]] = {
        "accept": "application/json",
        "http-referer": "https://cline.bot",
        "user-agent": "OpenAI/JS 5.23.2",
        "x-stainless-lang": "js",
        "x-stainless-retry-count": "0",
        "x-title": "Cline",
    }
    parameters: ClassVar[list[tuple[str, str, dict[str, Any]]]] = [
        ("execute_command", "Runs a command.", {**COMMAND}),
        ("replace_in_file", "Edits a file.", {"type": "object", "properties": {
            "path": {"type": "string"}, "diff": {"type": "string"}},
            "required": ["path", "diff"], "additionalProperties": False}),
        ("attempt_completion", "Ends the task.", {"type": "object", "properties": {
            "result": {"type": "string"}}, "required": ["result"]}),
        ("c1tides0mcp0look_up", "Looks up high water.", PLACE),
    ]  # fmt: skip

    def __init__(self, model: str, *, streaming: bool) -> None:
        super().__init__(model, streaming=streaming)
        self.history = [{"role": "developer", "content": "You are Cline-like: work on the task."}]

    def compose(self) -> dict[str, Any]:
        body = super().compose()
        body.pop("max_tokens", None)
        del body["tool_choice"]
        for tool in body["tools"]:
            tool["function"]["strict"] = False
            del tool["function"]["parameters"]["$schema"]
        return body

    def say(self, text: str) -> None:
        environment = "<environment_details>Nothing is open.</environment_details>"
        parts = [{"type": "text", "text": f"<task>{text}</task>"}]
        parts.append({"type": "text", "text": environment})
        self.history.append({"role": "user", "content": parts})


class Aider(Agent):
    """aider: no tools at all; it edits by blocks in the text, and alternates strictly."""

    name = "aider"
    look = edit = other = ""
    headers: ClassVar[Mapping[str, str]] = {
        "accept": "application/json",
        "http-referer": "https://aider.chat",
        "user-agent": "litellm/1.81.10",
        "x-title": "Aider",
    }

    def __init__(self, model: str, *, streaming: bool) -> None:
        super().__init__(model, streaming=streaming)
        self.history = [
            {"role": "system", "content": "Act as an expert and answer in edit blocks."},
            {"role": "user", "content": "Show me the tides."},
            {"role": "assistant", "content": "t.md\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE"},
            {"role": "user", "content": "I changed to a new code base."},
            {"role": "assistant", "content": "Ok."},
        ]  # fmt: skip

    @property
    def path(self) -> str:
        return "/v1/chat/completions"

    def compose(self) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": copy.deepcopy(self.history)}
        mark = {"cache_control": {"type": "ephemeral"}}
        for message in (body["messages"][0], body["messages"][4]):
            text = message["content"]
            message["content"] = [{"type": "text", "text": text, **mark}]
        return body | {"stream": self.streaming, "temperature": 0}

    def list_tools(self) -> list[str]:
        return []

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def hear(self, data: bytes) -> tuple[str, list[Call]]:
        text = ""
        if self.streaming:
            for chunk in read_events(data):
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
        else:
            text = json.loads(data)["choices"][0]["message"]["content"]
        self.history.append({"role": "assistant", "content": text})
        return text, []

    def answer(self, call: Call, text: str, *, failed: bool = False) -> None:
        raise NotImplementedError


class GeminiCli(Agent):
    """Gemini CLI: generateContent by Google's library, with thoughts and signatures."""

    name = "gemini-cli"
    look, edit, other = "run_shell_command", "replace", "mcp_tides_look_up"
    headers: ClassVar[Mapping[str, str]] = {
        "user-agent": "GeminiCLI/0.61.0/gemini-3-pro-preview (linux; x64)",
        "x-goog-api-client": "google-genai-sdk/1.41.0 gl-node/v22.20.0",
        "x-goog-api-key": "k",
    }
    declarations: ClassVar[list[dict[str, Any]]] = [
        {"name": "run_shell_command", "description": "Runs a command.",
         "parametersJsonSchema": COMMAND},
        {"name": "replace", "description": "Replaces text in a file.",
         "parametersJsonSchema": {"type": "object", "properties": {
             "file_path": {"type": "string"}, "old_string": {"type": "string"},
             "new_string": {"type": "string"}}, "required": ["file_path"]}},
        {"name": "write_todos", "description": "Keeps a list of what is to be done.",
         "parametersJsonSchema": {"type": "object", "properties": {"todos": {
             "type": "array", "items": {"type": "object", "properties": {
                 "description": {"type": "string"}}}}}}},
        {"name": "mcp_tides_look_up", "description": "Looks up high water.",
         "parametersJsonSchema": PLACE},
    ]  # fmt: skip

    @property
    def path(self) -> str:
        way = "streamGenerateContent?alt=sse" if self.streaming else "generateContent"
        return f"/v1beta/models/{self.model}:{way}"

    def compose(self) -> dict[str, Any]:
        instruction = {"role": "user", "parts": [{"text": "You are a coding agent in a terminal."}]}
        return {
            "contents": copy.deepcopy(self.history),
            "systemInstruction": instruction,
            "tools": [{"functionDeclarations": self.declarations}],
            "generationConfig": {
                "temperature": 1,
                "topP": 0.95,
                "topK": 64,
                "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
            },
        }

    def list_tools(self) -> list[str]:
        return [each["name"] for each in self.declarations]

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "parts": [{"text": text}]})

    def hear(self, data: bytes) -> tuple[str, list[Call]]:
        answers = list(read_events(data)) if self.streaming else [json.loads(data)]
        parts = [
            part
            for each in answers
            for part in each["candidates"][0].get("content", {}).get("parts", ())
        ]
        assert answers[-1]["candidates"][0]["finishReason"] == "STOP"
        # What it sends back has no thoughts; neighbouring texts are one.
        kept: list[dict[str, Any]] = []
        for part in parts:
            if part.get("thought"):
                continue
            if kept and part.keys() == kept[-1].keys() == {"text"}:
                kept[-1]["text"] += part["text"]
            else:
                kept.append(dict(part))
        self.history.append({"role": "model", "parts": kept})
        calls = [
            Call(each["functionCall"]["name"], each["functionCall"].get("args", {}),
                 each["functionCall"].get("id", ""))
            for each in kept
            if "functionCall" in each
        ]  # fmt: skip
        return "".join(each.get("text", "") for each in kept), calls

    def answer(self, call: Call, text: str, *, failed: bool = False) -> None:
        response = {"error": text} if failed else {"output": text}
        identity = {"id": call.id} if call.id else {}
        part = {"functionResponse": {**identity, "name": call.tool, "response": response}}
        if self.history[-1]["role"] == "user":
            self.history[-1]["parts"].append(part)
        else:
            self.history.append({"role": "user", "parts": [part]})


AGENTS: Final[Sequence[type[Agent]]] = (
    Codex,
    CodexOfNewModels,
    ClaudeCode,
    OpenCode,
    OpenCodeWithCache,
    Cline,
    Aider,
    GeminiCli,
)
