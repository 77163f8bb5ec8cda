"""/api/chat of Ollama."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from vibe_llms.testing.simulator.asks import (
    Ask,
    Attachment,
    OfferedTool,
    ToolResult,
    count_request_tokens,
    read_base64,
    recognize_media,
)
from vibe_llms.testing.simulator.complaints import SimulatedRefusal, require
from vibe_llms.testing.simulator.credentials import ABSENT, WRONG
from vibe_llms.testing.simulator.faces import SimulatedFace, SimulatedFrame, SimulatedRequest
from vibe_llms.testing.simulator.rendering import (
    assign_ids,
    count_usage,
    is_broken,
    leave_nothing,
    read_arguments,
    says_nothing,
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


def check_credentials(setting: SimulatedRequest) -> None:
    """Refuse a wrong key; none is required."""
    if any(word in setting.headers.get("authorization", "") for word in WRONG):
        raise SimulatedRefusal(401, "authentication", "unauthorized")


def overflow(ask: Ask, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    return SimulatedRefusal(400, "context", "input length exceeds the context length")


def check(setting: SimulatedRequest) -> None:
    """Refuse requests that the server would refuse."""
    body = setting.body
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
    form = body.get("format")
    require(
        form in (None, "", "json") or isinstance(form, Mapping),
        f'invalid format: "{form}"; expected "json" or a valid JSON Schema object',
    )


def check_model(model: str) -> None:
    """Refuse a model that was not pulled."""
    if ABSENT in model:
        raise SimulatedRefusal(404, "missing", f"model '{model}' not found")


def read(setting: SimulatedRequest) -> Ask:
    """Read a request that was checked; messages beyond the context are dropped silently."""
    body = setting.body
    options = body.get("options") or {}
    tools = body.get("tools") or ()
    messages, received = _truncate(list(body.get("messages") or []), tools, setting)
    last: dict[str, Any] = next((m for m in reversed(messages) if m["role"] == "user"), {})
    form = body.get("format") or None
    stops = options.get("stop") or ()
    limit = options.get("num_predict")
    return Ask(
        model=body["model"],
        text=last.get("content") or "",
        attachments=tuple(_read_media(last)) if messages and messages[-1] is last else (),
        offers=tuple(
            OfferedTool(
                name=tool["function"]["name"], schema=tool["function"].get("parameters") or {}
            )
            for tool in tools
        ),
        outcomes=tuple(_read_outcomes(messages)),
        schema={} if form == "json" else form,
        reasons=bool(body.get("think")),
        limit=limit if isinstance(limit, int) and limit > 0 else None,
        stops=(stops,) if isinstance(stops, str) else tuple(stops),
        received=received,
        streams=body.get("stream") is not False,  # Ollama streams by default
    )


def _truncate(messages: list[Any], tools: Any, setting: SimulatedRequest) -> tuple[list[Any], int]:
    """Drop messages beyond the context; refuse them if the request forbids truncation.

    An old server (the fault ``context_overflow``) ignores these options, also the context size.
    """
    is_old = "context_overflow" in setting.conditions
    options = setting.body.get("options") or {}
    room = CONTEXT_TOKENS if is_old else options.get("num_ctx") or CONTEXT_TOKENS
    received = count_request_tokens(messages, tools)
    if received > room and setting.body.get("truncate") is False and not is_old:
        raise SimulatedRefusal(400, "context", "the input length exceeds the context length")
    while received > room and len(messages) > 1:
        # Instructions and the last message are dropped last.
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
    calls = [call for message in messages[:start][-1:] for call in message.get("tool_calls") or ()]
    names = {call.get("id"): call["function"]["name"] for call in calls}
    for place, message in enumerate(messages[start:]):
        known = calls[place]["function"]["name"] if place < len(calls) else "the tool"
        name = message.get("tool_name") or names.get(message.get("tool_call_id")) or known
        yield ToolResult(name=name, text=message.get("content") or "")


def _head(ask: Ask, setting: SimulatedRequest) -> dict[str, Any]:
    moment = datetime.datetime.fromtimestamp(setting.now, datetime.UTC)
    return {"model": ask.model, "created_at": moment.strftime("%Y-%m-%dT%H:%M:%S.123456Z")}


def _metrics(turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "done": True,
        "done_reason": STOPS.get(turn.ending, "stop"),
        "total_duration": 7_000_000,
        "load_duration": 1_000_000,
    }
    if "no_usage" not in setting.conditions:
        tokens = count_usage(turn, ask)
        metrics |= {
            "prompt_eval_count": tokens.received,
            "prompt_eval_duration": 2_000_000,
            "eval_count": tokens.produced,
            "eval_duration": 4_000_000,
        }
    return metrics


def _call(invoke: Invoke, identity: str, index: int, setting: SimulatedRequest) -> dict[str, Any]:
    arguments = "" if says_nothing(setting.conditions) else read_arguments(invoke)
    function: dict[str, Any] = {"name": invoke.name, "arguments": arguments}
    function = leave_nothing(function, "arguments", setting.conditions)
    if "missing_index" not in setting.conditions:
        function["index"] = index
    is_empty = "empty_ids" in setting.conditions
    return (
        {"id": identity, "function": function} if identity or is_empty else {"function": function}
    )


def render(turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest) -> dict[str, Any]:
    """Write a whole answer."""
    if is_broken(turn, setting.conditions):
        told = "error parsing tool call: raw='{\"text', err=unexpected end of JSON input"
        raise SimulatedRefusal(500, "server", told)
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for delta in _produce_deltas(attrs.evolve(turn), setting, whole=True):
        for key, value in delta.items():
            message[key] = (message.get(key) or type(value)()) + value
    return {**_head(ask, setting), "message": message, **_metrics(turn, ask, setting)}


def _produce_deltas(
    turn: ScriptedAnswer, setting: SimulatedRequest, *, whole: bool
) -> Iterator[dict[str, Any]]:
    index = 0
    for part, identity in assign_ids(turn, setting, lambda: setting.mint("call_", 8).lower()):
        match part:
            case Think(text):
                for piece in [text] if whole else split_text(text, setting.conditions):
                    yield {"thinking": piece}
            case Say(text) | Refuse(text):
                for piece in [text] if whole else split_text(text, setting.conditions):
                    yield {"content": piece}
            case Invoke():
                yield {"tool_calls": [_call(part, identity, index, setting)]}
                index += 1
            case Draw(data):
                yield {"images": [base64.b64encode(data).decode()]}
            case Raw(block):
                yield dict(block)
            case _:
                pass  # Ollama has neither audio nor a search of its own


def stream(turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest) -> Iterator[SimulatedFrame]:
    """Write the lines of an answer."""
    head = _head(ask, setting)
    if is_broken(turn, setting.conditions):
        yield SimulatedFrame({"error": "error parsing tool call: unexpected end of JSON input"})
        return
    for delta in _produce_deltas(turn, setting, whole=False):
        message = {"role": "assistant", "content": "", **delta}
        yield SimulatedFrame({**head, "message": message, "done": False})
    message = {"role": "assistant", "content": ""}
    yield SimulatedFrame({**head, "message": message, **_metrics(turn, ask, setting)}, ends=True)


def complain(complaint: SimulatedRefusal, setting: SimulatedRequest) -> dict[str, Any]:
    """Write an error."""
    return {"error": complaint.message}


OLLAMA: Final = SimulatedFace(
    check=check,
    read=read,
    render=render,
    stream=stream,
    complain=complain,
    overflow=overflow,
    check_credentials=check_credentials,
    framing="ndjson",
)
