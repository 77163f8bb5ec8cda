"""/api/chat of Ollama."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.credentials import ABSENT, WRONG
from vibe_llms.testing.simulator.prompts import (
    Attachment,
    OfferedTool,
    SimulatedPrompt,
    ToolResult,
    count_request_tokens,
    read_base64,
    recognize_media,
)
from vibe_llms.testing.simulator.protocols import (
    SimulatedFrame,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require
from vibe_llms.testing.simulator.rendering import (
    assign_ids,
    count_usage,
    drop_arguments,
    is_broken,
    read_arguments,
    sends_no_arguments,
    split_text,
)
from vibe_llms.testing.simulator.scripts import (
    Draw,
    Invoke,
    Raw,
    Refuse,
    Say,
    ScriptedAnswer,
    Think,
)

STOPS = {"length": "length", "context": "length"}
CONTEXT_TOKENS = 4096
"""Context size of a request that does not set num_ctx."""


def check_credentials(request: SimulatedRequest) -> None:
    """Refuse a wrong key; none is required."""
    if any(word in request.headers.get("authorization", "") for word in WRONG):
        raise SimulatedRefusal(401, "authentication", "unauthorized")


def overflow(prompt: SimulatedPrompt, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    return SimulatedRefusal(400, "context", "input length exceeds the context length")


def check(request: SimulatedRequest) -> None:
    """Refuse requests that the server would refuse."""
    body = request.body
    require(body.get("model"), "model is required")
    check_model(str(body["model"]))
    messages = body.get("messages") or []
    require(isinstance(messages, list), "json: cannot unmarshal object into Go struct field")
    for message in messages:
        role = message.get("role")
        require(role in ("system", "user", "assistant", "tool"), f"invalid role: {role}")
        require(
            isinstance(message.get("content", ""), str),
            "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of "
            "type string",
        )
        for image in message.get("images") or ():
            require(read_base64(image), "illegal base64 data at input byte 0")
        for call in message.get("tool_calls") or ():
            require(
                isinstance((call.get("function") or {}).get("arguments"), Mapping),
                "json: cannot unmarshal string into Go struct field "
                "ChatRequest.messages.tool_calls.function.arguments of type "
                "api.ToolCallFunctionArguments",
            )
    output_format = body.get("format")
    require(
        output_format in (None, "", "json") or isinstance(output_format, Mapping),
        f'invalid format: "{output_format}"; expected "json" or a valid JSON Schema object',
    )


def check_model(model: str) -> None:
    """Refuse a model that was not pulled."""
    if ABSENT in model:
        raise SimulatedRefusal(404, "missing", f"model '{model}' not found")


def read(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked; messages beyond the context are dropped silently."""
    body = request.body
    options = body.get("options") or {}
    tools = body.get("tools") or ()
    messages, received = _truncate(list(body.get("messages") or []), tools, request)
    last: dict[str, Any] = next((m for m in reversed(messages) if m["role"] == "user"), {})
    output_format = body.get("format") or None
    stops = options.get("stop") or ()
    limit = options.get("num_predict")
    return SimulatedPrompt(
        model=body["model"],
        text=last.get("content") or "",
        attachments=tuple(_read_media(last)) if messages and messages[-1] is last else (),
        tools=tuple(
            OfferedTool(
                name=tool["function"]["name"], schema=tool["function"].get("parameters") or {}
            )
            for tool in tools
        ),
        tool_results=tuple(_read_outcomes(messages)),
        schema={} if output_format == "json" else output_format,
        wants_reasoning=bool(body.get("think")),
        max_tokens=limit if isinstance(limit, int) and limit > 0 else None,
        stop_texts=(stops,) if isinstance(stops, str) else tuple(stops),
        tokens=received,
        wants_stream=body.get("stream") is not False,  # Ollama streams by default
    )


def _truncate(messages: list[Any], tools: Any, request: SimulatedRequest) -> tuple[list[Any], int]:
    """Drop messages beyond the context; refuse them if the request forbids truncation.

    An old server (the fault ``context_overflow``) ignores the fields ``truncate`` and ``num_ctx``.
    """
    is_old = "context_overflow" in request.conditions
    options = request.body.get("options") or {}
    room = CONTEXT_TOKENS if is_old else options.get("num_ctx") or CONTEXT_TOKENS
    received = count_request_tokens(messages, tools)
    if received > room and request.body.get("truncate") is False and not is_old:
        raise SimulatedRefusal(400, "context", "the input length exceeds the context length")
    while received > room and len(messages) > 1:
        # System messages and the last message are dropped last.
        dropped = next((i for i, m in enumerate(messages) if m["role"] != "system"), 0)
        if dropped == len(messages) - 1:
            dropped = 0
        del messages[dropped]
        received = count_request_tokens(messages, tools)
    return messages, min(received, room)


def _read_media(message: Mapping[str, Any]) -> Iterator[Attachment]:
    for image in message.get("images") or ():
        data = read_base64(image) or b""
        yield Attachment(media_type=recognize_media(data), data=data)


def _read_outcomes(messages: list[Any]) -> Iterator[ToolResult]:
    start = len(messages)
    while start and messages[start - 1]["role"] == "tool":
        start -= 1
    calling_message: Mapping[str, Any] = messages[start - 1] if start else {}
    calls = calling_message.get("tool_calls") or []
    names = {call.get("id"): call["function"]["name"] for call in calls}
    for position, message in enumerate(messages[start:]):
        by_position = calls[position]["function"]["name"] if position < len(calls) else "the tool"
        name = message.get("tool_name") or names.get(message.get("tool_call_id")) or by_position
        yield ToolResult(name=name, text=message.get("content") or "")


def _write_head(prompt: SimulatedPrompt, request: SimulatedRequest) -> dict[str, Any]:
    moment = datetime.datetime.fromtimestamp(request.now, datetime.UTC)
    return {"model": prompt.model, "created_at": moment.strftime("%Y-%m-%dT%H:%M:%S.123456Z")}


def _write_metrics(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "done": True,
        "done_reason": STOPS.get(turn.ending, "stop"),
        "total_duration": 7_000_000,
        "load_duration": 1_000_000,
    }
    if "no_usage" not in request.conditions:
        tokens = count_usage(turn, prompt)
        metrics |= {
            "prompt_eval_count": tokens.received,
            "prompt_eval_duration": 2_000_000,
            "eval_count": tokens.produced,
            "eval_duration": 4_000_000,
        }
    return metrics


def _write_call(
    invoke: Invoke, identity: str, index: int, request: SimulatedRequest
) -> dict[str, Any]:
    arguments = "" if sends_no_arguments(request.conditions) else read_arguments(invoke)
    function: dict[str, Any] = {"name": invoke.name, "arguments": arguments}
    function = drop_arguments(function, "arguments", request.conditions)
    if "missing_index" not in request.conditions:
        function["index"] = index
    sends_empty_id = "empty_ids" in request.conditions
    if identity or sends_empty_id:
        return {"id": identity, "function": function}
    return {"function": function}


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer."""
    if is_broken(turn, request.conditions):
        error = "error parsing tool call: raw='{\"text', err=unexpected end of JSON input"
        raise SimulatedRefusal(500, "server", error)
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for delta in _produce_deltas(turn, request, whole=True):
        for key, value in delta.items():
            message[key] = message[key] + value if message.get(key) else value
    return {
        **_write_head(prompt, request),
        "message": message,
        **_write_metrics(turn, prompt, request),
    }


def _produce_deltas(
    turn: ScriptedAnswer, request: SimulatedRequest, *, whole: bool
) -> Iterator[dict[str, Any]]:
    index = 0
    for part, identity in assign_ids(turn, request, lambda: request.mint("call_", 8).lower()):
        match part:
            case Think(text):
                for piece in [text] if whole else split_text(text, request.conditions):
                    yield {"thinking": piece}
            case Say(text) | Refuse(text):
                for piece in [text] if whole else split_text(text, request.conditions):
                    yield {"content": piece}
            case Invoke():
                yield {"tool_calls": [_write_call(part, identity, index, request)]}
                index += 1
            case Draw(data):
                yield {"images": [base64.b64encode(data).decode()]}
            case Raw(block):
                yield dict(block)
            case _:
                pass  # Ollama has neither audio nor a search of its own


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the lines of an answer."""
    head = _write_head(prompt, request)
    if is_broken(turn, request.conditions):
        yield SimulatedFrame({"error": "error parsing tool call: unexpected end of JSON input"})
        return
    for delta in _produce_deltas(turn, request, whole=False):
        message = {"role": "assistant", "content": "", **delta}
        yield SimulatedFrame({**head, "message": message, "done": False})
    message = {"role": "assistant", "content": ""}
    yield SimulatedFrame(
        {**head, "message": message, **_write_metrics(turn, prompt, request)}, ends=True
    )


def write_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    """Write an error."""
    return {"error": refusal.message}


OLLAMA: Final = SimulatedProtocol(
    check=check,
    read=read,
    render=render,
    stream=stream,
    write_error=write_error,
    overflow=overflow,
    check_credentials=check_credentials,
    framing="ndjson",
)
