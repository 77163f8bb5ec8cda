"""Messages: validation and reading of requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.credentials import ABSENT
from vibe_llms.testing.simulator.message_thinking import check_thinking, write_prefix
from vibe_llms.testing.simulator.prefix_caches import check_cache_marks
from vibe_llms.testing.simulator.prompts import (
    Attachment,
    OfferedTool,
    SimulatedPrompt,
    ToolResult,
    count_request_tokens,
    read_base64,
    write_text,
)
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
WITHOUT_SYSTEM_MESSAGES = re.compile(r"claude-(3|haiku-4|sonnet-4|opus-4(?!-[89]))")
"""Models that accept no messages of the role system."""
STREAMING_PATHS = (":streamRawPredict", "/invoke-with-response-stream")
NEW_VERSION = "2026-10-21"
"""API version that refuses sampling parameters, and some blocks that earlier versions accept."""
SAMPLING_PARAMETERS = ("temperature", "top_p", "top_k")
PARAMETERS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking"),
        *("output_config", "output_format", "stop_sequences", "stream", "metadata"),
        *("cache_control", "container", "service_tier", "speed", "inference_geo", "diagnostics"),
        *("temperature", "top_p", "top_k", "anthropic_version", "anthropic_beta", "betas"),
        *("mcp_servers", "context_management", "compaction", "fallbacks", "billing_policy"),
        *("fallback_credit_token", "thread"),
    }
)
ASSISTANT_BLOCKS = frozenset({"thinking", "redacted_thinking", "tool_use", "server_tool_use"})


def check_request(request: SimulatedRequest) -> None:
    """Refuse requests that Anthropic would refuse."""
    body = request.body
    for name in sorted(set(body) - PARAMETERS):
        raise SimulatedRefusal(400, "invalid", f"{name}: Extra inputs are not permitted")
    model = body.get("model") or request.names.get("model")
    require(model, "model: Field required")
    if ABSENT in str(model):
        raise SimulatedRefusal(404, "missing", f"model: {model}")
    require("messages" in body, "messages: Field required")
    messages = body["messages"]
    require(isinstance(messages, list), "messages: Input should be a valid list")
    require(messages, "messages: at least one message is required")
    if not request.path.endswith("count_tokens"):
        require("max_tokens" in body, "max_tokens: Field required")
        require(
            isinstance(body["max_tokens"], int) and body["max_tokens"] >= 0,
            "max_tokens: Input should be greater than or equal to 0",
        )
    is_new = request.headers.get("anthropic-version", "") >= NEW_VERSION
    for name in SAMPLING_PARAMETERS if is_new else ():
        require(name not in body, f"{name}: Extra inputs are not permitted")
    merged = merge_messages(messages)
    for index, message in enumerate(messages):
        _check_message(message, f"messages.{index}", is_new)
    require(
        any(message["role"] == "user" for message in merged) and merged[0]["role"] != "assistant",
        'messages: first message must use the "user" role',
    )
    _check_system_messages(merged, str(model))
    _check_pairs(merged)
    check_thinking(merged, request)
    _check_tools(body)
    check_cache_marks(body)


def _check_system_messages(merged: list[dict[str, Any]], model: str) -> None:
    """Refuse misplaced system messages; older models refuse all of them."""
    # The first and the last role are artificial: the conversation may start and end there.
    roles = ["assistant", *(message["role"] for message in merged), "assistant"]
    for index, message in enumerate(merged):
        if message["role"] != "system" or not message["content"]:
            continue
        require(
            not WITHOUT_SYSTEM_MESSAGES.search(model),
            "role 'system' is not supported on this model",
        )
        require(
            roles[index] == "user",
            f"messages.{index}: role 'system' must follow a 'user' message",
        )
        require(
            roles[index + 2] == "assistant",
            f"messages.{index}: role 'system' must precede an 'assistant' message or end the array",
        )


def merge_messages(messages: list[Any]) -> list[dict[str, Any]]:
    """Join consecutive messages of one role, and turn texts into lists."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        require(isinstance(message, Mapping), "messages: Input should be a valid dictionary")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        require(isinstance(blocks, list), "messages: content: Input should be a valid list")
        if merged and merged[-1]["role"] == message.get("role"):
            merged[-1]["content"] = [*merged[-1]["content"], *(blocks or [])]
        else:
            merged.append({"role": message.get("role"), "content": list(blocks or [])})
    return merged


def _check_message(message: Mapping[str, Any], place: str, is_new: bool) -> None:
    role = message.get("role")
    require(
        role in ("user", "assistant", "system"),
        f"{place}.role: Input should be 'user', 'assistant' or 'system'",
    )
    content = message["content"]
    if isinstance(content, str):
        require(
            content or role == "assistant", f"{place}: user messages must have non-empty content"
        )
        return
    for index, block in enumerate(content):
        _check_block(block, role, f"{place}.content.{index}", is_new)


def _check_block(block: Mapping[str, Any], role: str | None, place: str, is_new: bool) -> None:
    kind = block.get("type")
    require(kind, f"{place}.type: Field required")
    if kind == "text":
        text = block.get("text")
        require(isinstance(text, str), f"{place}.text.text: Field required")
        blank = "messages: text content blocks must contain non-whitespace text"
        require(str(text).strip(), blank)
        has_citations = is_new and role == "user" and block.get("citations")
        require(not has_citations, f"{place}.citations: not permitted in user turns")
    if kind in ("tool_use", "server_tool_use"):
        _check_tool_use(block, place)
    if role == "user":
        require(
            kind not in ASSISTANT_BLOCKS,
            f"{place}: `{kind}` blocks can only be in `assistant` messages",
        )
        return
    require(kind != "tool_result", f"{place}: `tool_result` blocks can only be in `user` messages")
    require(
        not is_new or kind != "document",
        f"{place}: `document` blocks are not permitted in `assistant` messages",
    )


def _check_tool_use(block: Mapping[str, Any], place: str) -> None:
    identity = str(block.get("id", ""))
    require(
        ID.fullmatch(identity),
        f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    )
    require(NAME.fullmatch(str(block.get("name"))), f"{place}.tool_use.name: Field required")
    require(
        isinstance(block.get("input"), Mapping),
        f"{place}.tool_use.input: Input should be a valid dictionary",
    )


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    pending: list[str] = []
    seen: set[str] = set()
    # The artificial last message detects calls that no result follows.
    for index, message in enumerate([*messages, {"role": "end", "content": []}]):
        if message["role"] == "system":
            continue
        results = [b.get("tool_use_id") for b in message["content"] if b["type"] == "tool_result"]
        missing = [identity for identity in pending if identity not in results]
        require(
            not missing,
            f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
            "corresponding `tool_result` block in the next message.",
        )
        for identity in results:
            require(
                identity in pending,
                f"messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {identity}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message.",
            )
        require(
            len(results) == len(set(results)),
            f"messages.{index}: each tool_use must have a single result. Found multiple "
            "`tool_result` blocks with the same id",
        )
        pending = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        for identity in pending:
            require(identity not in seen, "messages: `tool_use` ids must be unique")
            seen.add(identity)


def _check_tools(body: Mapping[str, Any]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "mcp_toolset":
            continue
        name = str(tool.get("name"))
        require(
            NAME.fullmatch(name),
            f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'",
        )
        require(name not in names, "tools: Tool names must be unique.", code="tool_name_conflict")
        names.add(name)
        if tool.get("type") in (None, "custom"):
            schema = tool.get("input_schema")
            require(
                isinstance(schema, Mapping), f"tools.{index}.custom.input_schema: Field required"
            )
            require(
                schema.get("type") == "object",
                f"tools.{index}.custom.input_schema.type: Input should be 'object'",
            )
    kind = (body.get("tool_choice") or {}).get("type")
    require(kind in (None, "auto", "any", "tool", "none"), "tool_choice: unknown type")
    if kind in ("any", "tool"):
        require(names, "tool_choice: tools must be given")
        require(
            (body.get("thinking") or {}).get("type") != "enabled",
            "Thinking may not be enabled when tool_choice forces tool use.",
        )


def read_request(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked."""
    body = request.body
    messages = merge_messages(body["messages"])
    last: dict[str, Any] = next(
        (m for m in reversed(messages) if m["role"] == "user"), {"content": []}
    )
    tools = body.get("tools") or ()
    choice = body.get("tool_choice") or {}
    output_format = (
        (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    )
    # Without a text in the last message, the text of an earlier message counts.
    user_contents = [message["content"] for message in messages if message["role"] == "user"]
    earlier_texts = [content[-1].get("text", "") for content in user_contents if content]
    texts = [block["text"] for block in last["content"] if block["type"] == "text"]
    return SimulatedPrompt(
        model=str(body.get("model") or request.names.get("model")),
        text="".join(texts) or next(filter(None, reversed(earlier_texts)), ""),
        attachments=tuple(_read_media(last["content"])) if messages[-1] is last else (),
        tools=tuple(
            OfferedTool(name=tool["name"], schema=tool.get("input_schema") or {})
            for tool in tools
            if tool.get("type") in (None, "custom")
        ),
        tool_results=tuple(_read_outcomes(messages)),
        tool_choice={"any": "*", "none": "-", "tool": choice.get("name")}.get(
            str(choice.get("type"))
        ),
        allows_parallel_calls=not choice.get("disable_parallel_tool_use"),
        schema=output_format.get("schema") if output_format.get("type") == "json_schema" else None,
        wants_reasoning=(body.get("thinking") or {}).get("type") in ("enabled", "adaptive"),
        allows_search=any(str(tool.get("type")).startswith("web_search") for tool in tools),
        allows_code=any(str(tool.get("type")).startswith("code_execution") for tool in tools),
        max_tokens=body.get("max_tokens"),
        stop_texts=tuple(body.get("stop_sequences") or ()),
        tokens=count_request_tokens(body.get("system"), messages, tools),
        prefix=write_prefix(body, messages),
        wants_stream=bool(body.get("stream")) or request.path.endswith(STREAMING_PATHS),
    )


def _read_outcomes(messages: list[dict[str, Any]]) -> Iterator[ToolResult]:
    blocks = [block for message in messages for block in message["content"]]
    names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
    for block in messages[-1]["content"]:
        if block["type"] == "tool_result":
            text = write_text(block.get("content") or "")
            yield ToolResult(name=names[block["tool_use_id"]], text=text)


def _read_media(blocks: list[Any]) -> Iterator[Attachment]:
    for block in blocks:
        if block["type"] not in ("image", "document"):
            continue
        source = block.get("source") or {}
        kind = source.get("media_type") or f"{block['type']}/*"
        match source.get("type"):
            case "base64":
                data = read_base64(source.get("data"))
                require(data, "messages: image.source.base64.data: invalid base64 data")
                yield Attachment(media_type=kind, data=data)
            case "text":
                yield Attachment(media_type="text/plain", data=str(source.get("data")).encode())
            case _:
                yield Attachment(media_type=kind)
