"""Chat Completions: validation and reading of requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.chat_vendors import check_vendor
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
from vibe_llms.testing.simulator.refusals import require
from vibe_llms.testing.simulator.strict_schemas import check_strict_schema

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
REASONING_MODELS = re.compile(r"(o\d|gpt-[5-9])")
ID_LENGTH = 40


def check_request(request: SimulatedRequest) -> None:
    """Refuse requests that OpenAI, or the vendor whose quirks are set, would refuse."""
    body = request.body
    check_breakpoints(body)
    require(
        body.get("model") or "deployment" in request.names, "you must provide a model parameter"
    )
    messages = body.get("messages")
    require(
        isinstance(messages, list) and messages,
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        param="messages",
        code="empty_array",
    )
    for index, message in enumerate(messages or []):
        _check_message(message, f"messages[{index}]")
    _check_pairs(list(messages or []))
    _check_tools(body)
    _check_parameters(request)
    check_vendor(request)
    check_model(str(body.get("model", "")))


def _check_message(message: Any, place: str) -> None:
    require(isinstance(message, Mapping), f"Invalid '{place}': expected an object.", param=place)
    role = message.get("role")
    require(role in ROLES, f"Invalid value: '{role}'.", param=f"{place}.role", code="invalid_value")
    content, calls = message.get("content"), message.get("tool_calls")
    if role != "assistant":
        require(
            isinstance(content, (str, list)),
            f"Invalid value for 'content': expected a string, got {content!r}.",
            param=f"{place}.content",
        )
    else:
        other_content = message.get("refusal") or message.get("audio")
        require(
            content is not None or other_content or calls or message.get("function_call"),
            "Invalid value for 'content': expected a string, got null.",
            param=f"{place}.content",
        )
    require(calls != [], f"Invalid '{place}.tool_calls': empty array.", code="empty_array")
    for index, call in enumerate(calls or []):
        _check_call(call, f"{place}.tool_calls[{index}]")


def _check_call(call: Any, place: str) -> None:
    identity = call.get("id")
    require(identity, f"Missing required parameter: '{place}.id'.", param=f"{place}.id")
    require(
        len(identity) <= ID_LENGTH,
        f"Invalid '{place}.id': string too long. Expected a string with maximum length "
        f"{ID_LENGTH}, but got a string with length {len(identity)} instead.",
        param=f"{place}.id",
        code="string_above_max_length",
    )
    kind = call.get("type")
    require(kind in ("function", "custom"), f"Missing required parameter: '{place}.type'.")
    inner = call.get(kind) or {}
    text = inner.get("arguments" if kind == "function" else "input")
    require(
        isinstance(text, str),
        f"Invalid type for '{place}.{kind}.arguments': expected a string.",
        param=f"{place}.{kind}.arguments",
        code="invalid_type",
    )
    require(NAME.fullmatch(str(inner.get("name"))), f"Invalid '{place}.{kind}.name'.")


def _check_pairs(messages: list[Any]) -> None:
    open_ids: list[str] = []
    # The artificial last message detects calls that no tool message follows.
    for index, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            require(
                message.get("tool_call_id") in open_ids,
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                "message with 'tool_calls'.",
                param=f"messages.[{index}].role",
            )
            open_ids.remove(message["tool_call_id"])
            continue
        require(
            not open_ids,
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(open_ids),
            param=f"messages.[{index}].role",
        )
        open_ids = [call["id"] for call in message.get("tool_calls") or []]


def _check_tools(body: Mapping[str, Any]) -> None:
    tools = body.get("tools")
    require(tools != [], "Invalid 'tools': empty array.", param="tools", code="empty_array")
    for index, tool in enumerate(tools or []):
        inner = tool.get(tool.get("type")) or {}
        name = inner.get("name")
        require(
            NAME.fullmatch(str(name)),
            f"Invalid 'tools[{index}].function.name': string does not match pattern. Expected a "
            "string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            param=f"tools[{index}].function.name",
            code="invalid_value",
        )
        if inner.get("strict"):
            place = f"tools[{index}].function.parameters"
            check_strict_schema(inner.get("parameters"), f"function '{name}'", place)
    if not tools:
        require(
            body.get("tool_choice") in (None, "none"),
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
            "specified.",
            param="tool_choice",
        )
        require(
            body.get("parallel_tool_calls") is None,
            "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when "
            "'tools' are specified.",
            param="parallel_tool_calls",
        )


def _check_parameters(request: SimulatedRequest) -> None:
    body = request.body
    require(
        body.get("stream") or not body.get("stream_options"),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        param="stream_options",
    )
    response_format = body.get("response_format") or {}
    if response_format.get("type") == "json_schema":
        inner = response_format.get("json_schema") or {}
        if "perplexity" not in request.conditions:
            require(
                inner.get("name"),
                "Missing required parameter: 'response_format.json_schema.name'.",
                param="response_format.json_schema.name",
                code="missing_required_parameter",
            )
        if inner.get("strict"):
            subject = f"response_format '{inner['name']}'"
            check_strict_schema(inner.get("schema"), subject, "response_format")
    if REASONING_MODELS.match(str(body.get("model"))):
        require(
            "max_tokens" not in body,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )


def read_request(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked."""
    body = request.body
    messages = body["messages"]
    last = next((m for m in reversed(messages) if m["role"] == "user"), {"content": ""})
    choice = body.get("tool_choice")
    response_format = body.get("response_format") or {}
    stops = body.get("stop") or ()
    return SimulatedPrompt(
        model=str(body.get("model") or request.names.get("deployment", "")),
        text=_read_text(last["content"]),
        attachments=tuple(_read_media(last["content"])) if messages[-1] is last else (),
        tools=tuple(_read_offer(tool) for tool in body.get("tools") or ()),
        tool_results=tuple(_read_outcomes(messages)),
        tool_choice=_read_choice(choice),
        allows_parallel_calls=body.get("parallel_tool_calls") is not False,
        schema=_read_schema(response_format),
        wants_reasoning=_wants_reasoning(body),
        allows_search="web_search_options" in body or "perplexity" in request.conditions,
        allows_pictures="image" in (body.get("modalities") or ()),
        allows_audio="audio" in (body.get("modalities") or ()),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        stop_texts=(stops,) if isinstance(stops, str) else tuple(stops),
        tokens=count_request_tokens(messages, body.get("tools")),
        wants_stream=bool(body.get("stream")),
    )


def _wants_reasoning(body: Mapping[str, Any]) -> bool:
    effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
    thinking = (body.get("thinking") or {}).get("type")
    template = body.get("chat_template_kwargs") or {}
    return (
        effort not in (None, "none", "minimal")
        or thinking in ("enabled", "adaptive")
        or bool(template.get("enable_thinking") or template.get("thinking"))
    )


def _read_schema(response_format: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if response_format.get("type") == "json_schema":
        return (response_format.get("json_schema") or {}).get("schema") or {}
    return {} if response_format.get("type") == "json_object" else None


def _read_choice(choice: Any) -> str | None:
    if isinstance(choice, Mapping):
        kind = choice.get("type")
        if kind == "allowed_tools":
            return "*" if choice["allowed_tools"].get("mode") == "required" else None
        return str((choice.get(str(kind)) or {}).get("name"))
    return {"required": "*", "any": "*", "none": "-"}.get(str(choice))


def _read_offer(tool: Mapping[str, Any]) -> OfferedTool:
    kind = str(tool.get("type"))
    inner = tool.get(kind) or {}
    schema = inner.get("parameters") or {}
    return OfferedTool(name=str(inner["name"]), schema=schema, custom=kind == "custom")


def _read_outcomes(messages: list[Any]) -> Iterator[ToolResult]:
    names = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") or call.get("custom") or {}
            names[call["id"]] = function.get("name", "")
    start = len(messages)
    while start and messages[start - 1]["role"] == "tool":
        start -= 1
    for message in messages[start:]:
        yield ToolResult(name=names[message["tool_call_id"]], text=write_text(message["content"]))


def _read_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


def _read_media(content: Any) -> Iterator[Attachment]:
    for part in content if isinstance(content, list) else ():
        match part.get("type"):
            case "image_url":
                image = part["image_url"]
                yield read_data_url(image if isinstance(image, str) else image["url"])
            case "input_audio":
                audio = part["input_audio"]
                data = read_base64(audio.get("data")) or b""
                yield Attachment(media_type=f"audio/{audio.get('format')}", data=data)
            case "file":
                url = part["file"].get("file_data") or "file:"
                yield read_data_url(url)
            case "video_url" | "file_url" | "pdf_url" as kind:
                yield Attachment(media_type=f"{kind.removesuffix('_url')}/*")
