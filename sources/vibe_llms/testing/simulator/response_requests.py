"""Responses: validation and reading of requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.credentials import check_model
from vibe_llms.testing.simulator.prefix_caches import check_breakpoints
from vibe_llms.testing.simulator.prompts import (
    Attachment,
    OfferedTool,
    SimulatedPrompt,
    ToolResult,
    count_request_tokens,
    read_base64,
    read_data_url,
    write_text,
)
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require
from vibe_llms.testing.simulator.signatures import canonicalize, is_intact
from vibe_llms.testing.simulator.strict_schemas import check_strict_schema


def read_request(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked."""
    body = request.body
    items = list_items(request)
    users = [i for i in items if i["type"] == "message" and i["role"] == "user"]
    content = users[-1]["content"] if users else ""
    tools = body.get("tools") or ()
    kinds = {str(tool.get("type")) for tool in tools}
    text_format = (body.get("text") or {}).get("format") or {}
    reasoning = body.get("reasoning") or {}
    schema: Any = {"json_schema": text_format.get("schema"), "json_object": {}}.get(
        str(text_format.get("type"))
    )
    return SimulatedPrompt(
        model=str(body["model"]),
        text=content
        if isinstance(content, str)
        else write_text([part for part in content if part.get("type") == "input_text"]),
        attachments=tuple(_read_media(content)) if items[-1:] == users[-1:] else (),
        tools=tuple(
            OfferedTool(
                name=tool["name"],
                schema=tool.get("parameters") or {},
                custom=tool["type"] == "custom",
            )
            for tool in tools
            if tool.get("type") in ("function", "custom")
        ),
        tool_results=tuple(_read_outcomes(items)),
        tool_choice=_read_choice(body.get("tool_choice")),
        allows_parallel_calls=body.get("parallel_tool_calls") is not False,
        schema=schema,
        wants_reasoning=reasoning.get("effort") not in (None, "none", "minimal")
        or reasoning.get("summary") is not None,
        allows_search=any(kind.startswith("web_search") for kind in kinds),
        allows_code="code_interpreter" in kinds,
        allows_pictures="image_generation" in kinds,
        max_tokens=body.get("max_output_tokens"),
        tokens=count_request_tokens(body.get("instructions"), items, tools),
        prefix=write_prefix(body, items),
        wants_stream=bool(body.get("stream")),
    )


def _read_choice(choice: Any) -> str | None:
    if isinstance(choice, Mapping):
        if choice.get("type") == "allowed_tools":
            return "*" if choice.get("mode") == "required" else None
        return str(choice["name"]) if "name" in choice else None
    return {"required": "*", "none": "-"}.get(str(choice))


def _read_outcomes(items: list[dict[str, Any]]) -> Iterator[ToolResult]:
    names = {item["call_id"]: item["name"] for item in items if item["type"] in CALLS}
    start = len(items)
    while start and items[start - 1]["type"] in CALLS.values():
        start -= 1
    for item in items[start:]:
        name = names.get(item["call_id"], "the tool")
        yield ToolResult(name=name, text=write_text(item.get("output") or ""))


def _read_media(content: Any) -> Iterator[Attachment]:
    for part in content if isinstance(content, list) else ():
        match part["type"]:
            case "input_image":
                url = part.get("image_url")
                yield read_data_url(url) if url else Attachment(media_type="image/*")
            case "input_file":
                data = part.get("file_data")
                yield read_data_url(data) if data else Attachment(media_type="file/*")
            case "input_audio":
                audio = part.get("input_audio") or {}
                kind = f"audio/{audio.get('format')}"
                yield Attachment(media_type=kind, data=read_base64(audio.get("data")) or b"")


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
UNKNOWN_PARAMETERS = (
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "n",
    "seed",
    "response_format",
)
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""Maps the type of a call to the type of its result."""
REASONING_FOLLOWERS = frozenset(
    {
        "message",
        "function_call",
        "custom_tool_call",
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "tool_search_call",
        "program",
        "compaction",
    }
)
"""Types of items of the model, one of which must follow an item of reasoning."""


def list_items(request: SimulatedRequest) -> list[dict[str, Any]]:
    """Return the items of the whole conversation, those of the previous response first.

    An input of text becomes a message of the user; an item without a type is a message.
    """
    inputs, earlier = request.body.get("input"), str(request.body.get("previous_response_id"))
    items = list(request.stored[earlier]["items"]) if earlier in request.stored else []
    if isinstance(inputs, str):
        return [*items, {"type": "message", "role": "user", "content": inputs}]
    return [*items, *({"type": "message", **item} for item in inputs or ())]


def check_request(request: SimulatedRequest) -> None:
    """Refuse requests that OpenAI would refuse."""
    body = request.body
    check_breakpoints(body)
    require(
        body.get("model"),
        "Missing required parameter: 'model'.",
        param="model",
        code="missing_required_parameter",
    )
    for name in UNKNOWN_PARAMETERS:
        require(
            name not in body, f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter"
        )
    inputs = body.get("input")
    require(
        inputs is not None or body.get("previous_response_id") or body.get("conversation"),
        "Missing required parameter: 'input'.",
        param="input",
        code="missing_required_parameter",
    )
    require(inputs != [], "Invalid 'input': empty array.", param="input", code="empty_array")
    earlier = body.get("previous_response_id")
    require(
        earlier is None or earlier in request.stored,
        f"Previous response with id '{earlier}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )
    items = list_items(request)
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]")
    _check_pairs(items, chained=bool(body.get("conversation")))
    _check_reasoning(items, request)
    _check_tools(body)
    check_model(str(body["model"]))


def _check_item(item: Mapping[str, Any], place: str) -> None:
    kind = item["type"]
    if kind in CALLS:
        for field in ("call_id", "name", "arguments" if kind == "function_call" else "input"):
            require(
                isinstance(item.get(field), str),
                f"Missing required parameter: '{place}.{field}'.",
                param=f"{place}.{field}",
                code="missing_required_parameter",
            )
        require(
            len(item["call_id"]) <= 64,
            f"Invalid '{place}.call_id': string too long. Expected a string with maximum length "
            f"64, but got a string with length {len(item['call_id'])} instead.",
            code="string_above_max_length",
        )
    if kind == "message":
        _check_message(item, place)


def _check_message(item: Mapping[str, Any], place: str) -> None:
    role, content = item.get("role"), item.get("content")
    require(
        role in ("user", "assistant", "system", "developer"),
        f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and "
        "'user'.",
        param=f"{place}.role",
        code="invalid_value",
    )
    require(isinstance(content, (str, list)), f"Missing required parameter: '{place}.content'.")
    allowed = (
        ("output_text", "refusal")
        if role == "assistant"
        else ("input_text", "input_image", "input_file", "input_audio")
    )
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type")
        names = " and ".join(f"'{name}'" for name in allowed)
        require(
            kind in allowed,
            f"Invalid value: '{kind}'. Supported values are: {names}.",
            param=f"{place}.content[{index}]",
            code="invalid_value",
        )


def _check_pairs(items: list[dict[str, Any]], *, chained: bool) -> None:
    call_types = {item["call_id"]: item["type"] for item in items if item["type"] in CALLS}
    answered = set()
    for item in items:
        if item["type"] not in CALLS.values():
            continue
        identity = item.get("call_id")
        require(
            chained or CALLS.get(call_types.get(identity, "")) == item["type"],
            f"No tool call found for function call output with call_id {identity}.",
            param="input",
        )
        answered.add(identity)
    for identity in call_types:
        require(
            identity in answered,
            f"No tool output found for function call {identity}.",
            param="input",
        )


def _check_reasoning(items: list[dict[str, Any]], request: SimulatedRequest) -> None:
    covers_prefix = "prefix_bound_thinking" in request.conditions
    for index, item in enumerate(items):
        if item["type"] != "reasoning":
            continue
        following = items[index + 1] if index + 1 < len(items) else {"type": "", "role": ""}
        # Only messages have a role; all other items that follow are the model's.
        follows = (
            following["type"] in REASONING_FOLLOWERS
            and following.get("role", "assistant") == "assistant"
        )
        if not follows:
            raise SimulatedRefusal(
                400,
                "invalid",
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item.",
                param="input",
            )
        encrypted = item.get("encrypted_content")
        if encrypted is None:
            continue
        prefix = write_prefix(request.body, items[:index]) if covers_prefix else None
        intact = is_intact(encrypted, None, kind="responses", prefix=prefix)
        require(
            intact,
            f"The encrypted content {str(encrypted)[:6]}... could not be verified. Reason: "
            "Encrypted content could not be decrypted or parsed.",
            code="invalid_encrypted_content",
        )


def write_prefix(body: Mapping[str, Any], items: list[dict[str, Any]]) -> str:
    """Return the conversation before an item, which its signatures cover."""
    # The server sets ids and states, so a client may leave them out.
    plain = [
        {key: value for key, value in item.items() if key not in ("id", "status")} for item in items
    ]
    return canonicalize(body.get("instructions"), body.get("tools"), plain)


def _check_tools(body: Mapping[str, Any]) -> None:
    for index, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") not in ("function", "custom"):
            require(tool.get("type"), f"Missing required parameter: 'tools[{index}].type'.")
            continue
        require(
            NAME.fullmatch(str(tool.get("name"))),
            f"Missing required parameter: 'tools[{index}].name'.",
            param=f"tools[{index}].name",
            code="missing_required_parameter",
        )
        if tool.get("strict"):
            place = f"tools[{index}].parameters"
            check_strict_schema(tool.get("parameters"), f"function '{tool['name']}'", place)
    text_format = (body.get("text") or {}).get("format") or {}
    if text_format.get("type") == "json_schema":
        require(
            text_format.get("name"),
            "Missing required parameter: 'text.format.name'.",
            param="text.format.name",
            code="missing_required_parameter",
        )
        if text_format.get("strict"):
            subject = f"response_format '{text_format['name']}'"
            check_strict_schema(text_format.get("schema"), subject, "text.format.schema")
