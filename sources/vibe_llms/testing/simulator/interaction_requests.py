"""Interactions: validation and reading of requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.credentials import ABSENT
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
from vibe_llms.testing.simulator.signatures import is_intact

NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
PARAMETERS: Final = frozenset(
    {
        *("agent", "background", "cached_content", "generation_config", "input", "labels", "model"),
        *("previous_interaction_id", "response_format", "response_mime_type", "safety_settings"),
        *("response_modalities", "service_tier", "store", "stream", "system_instruction", "tools"),
        *("continuation_token", "environment", "webhook_config"),
    }
)
CONFIG: Final = frozenset(
    {
        *("max_output_tokens", "seed", "stop_sequences", "temperature", "thinking_level"),
        *("thinking_summaries", "tool_choice", "top_p", "speech_config", "image_config"),
        *("transcription_config", "video_config"),
    }
)
MEDIA: Final = ("image", "audio", "video", "document")


def list_steps(request: SimulatedRequest) -> list[dict[str, Any]]:
    """Return the steps of a request, after those of the stored interaction that it continues."""
    body = request.body
    previous = body.get("previous_interaction_id")
    stored: list[dict[str, Any]] = []
    if previous:
        if previous not in request.stored:
            raise SimulatedRefusal(404, "missing", f"Interaction {previous} not found.")
        stored = request.stored[previous]["items"]
    return [*stored, *_read_input(body.get("input"))]


def _read_input(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [{"type": "user_input", "content": [{"type": "text", "text": value}]}]
    entries = [value] if isinstance(value, Mapping) else list(value or [])
    require(all(isinstance(entry, Mapping) for entry in entries), "Invalid value at 'input'")
    if entries and all(entry.get("type") in ("text", *MEDIA) for entry in entries):
        return [{"type": "user_input", "content": entries}]
    return [dict(entry) for entry in entries]


def check_request(request: SimulatedRequest) -> None:
    """Refuse requests that Google would refuse."""
    body = request.body
    if ABSENT in str(body.get("model")):
        raise SimulatedRefusal(404, "missing", f"models/{body['model']} is not found.")
    require(body.get("model") or body.get("agent"), "One of model and agent is required.")
    for name in body:
        require(name in PARAMETERS, f'Invalid JSON payload received. Unknown name "{name}"')
    for name in body.get("generation_config") or {}:
        require(
            name in CONFIG, f"Unknown name \"{name}\" at 'generation_config': Cannot find field."
        )
    if body.get("background") or body.get("previous_interaction_id"):
        require(body.get("store") is not False, "The interaction must be stored.")
    steps = list_steps(request)
    require(steps, "The input is empty.")
    for index, step in enumerate(steps):
        _check_step(step, index)
    _check_calls(steps)
    for index, tool in enumerate(body.get("tools") or ()):
        require(isinstance(tool.get("type"), str), f"tools[{index}].type is required.")
        if tool["type"] == "function":
            name = str(tool.get("name"))
            require(NAME.fullmatch(name), f"Invalid function name at tools[{index}].")


def _check_step(step: Mapping[str, Any], index: int) -> None:
    place, kind = f"input[{index}]", step.get("type")
    if kind in ("user_input", "model_output"):
        for number, content in enumerate(step.get("content") or ()):
            _check_content(content, f"{place}.content[{number}]")
        require(step.get("content") or kind == "model_output", f"{place}.content is empty.")
    elif kind == "function_call":
        require(step.get("id") and step.get("name"), f"{place}: id and name are required.")
        require(isinstance(step.get("arguments"), Mapping), f"{place}.arguments is not an object.")
    elif kind == "function_result":
        require(step.get("call_id"), f"{place}.call_id is required.")
        require("result" in step, f"{place}.result is required.")
    elif kind == "thought":
        signature = step.get("signature")
        if signature is not None:
            text = write_text(step.get("summary") or [])
            require(
                is_intact(signature, text, kind="interactions"), "Thought signature is not valid"
            )
    else:
        known = isinstance(kind, str) and kind.endswith(("_call", "_result"))
        require(known, f"{place}.type: unknown step {kind!r}.")


def _check_content(content: Any, place: str) -> None:
    require(isinstance(content, Mapping), f"Invalid value at '{place}'")
    kind = content.get("type")
    if kind == "text":
        require(isinstance(content.get("text"), str) and content["text"], f"{place}.text is empty.")
        return
    require(kind in MEDIA, f"{place}.type: unknown content {kind!r}.")
    require(
        bool(content.get("data")) != bool(content.get("uri")), f"{place}: data or uri, not both."
    )
    if content.get("data"):
        require(read_base64(content["data"]) is not None, f"{place}.data is not Base64.")
        require(content.get("mime_type"), f"{place}.mime_type is required.")


def _check_calls(steps: list[dict[str, Any]]) -> None:
    """Check that each call has one result, before the next message of the user."""
    waiting: set[str] = set()
    for step in steps:
        match step["type"]:
            case "function_call":
                waiting.add(step["id"])
            case "function_result":
                require(step["call_id"] in waiting, "A function result has no function call.")
                waiting.discard(step["call_id"])
            case "user_input":
                require(not waiting, "A function call has no function result.")
    require(not waiting, "A function call has no function result.")


def read_request(request: SimulatedRequest) -> SimulatedPrompt:
    """Read a request that was checked."""
    body = request.body
    steps = list_steps(request)
    users = [step for step in steps if step["type"] == "user_input"]
    last = users[-1] if users else {"content": []}
    texts = [part["text"] for part in last["content"] if part["type"] == "text"]
    config = body.get("generation_config") or {}
    tools = body.get("tools") or ()
    modalities = [str(each).lower() for each in body.get("response_modalities") or ()]
    return SimulatedPrompt(
        model=str(body.get("model")),
        text="".join(texts),
        attachments=tuple(_read_media(last)) if steps[-1] is last else (),
        tools=tuple(
            OfferedTool(name=tool["name"], schema=tool.get("parameters") or {})
            for tool in tools
            if tool["type"] == "function"
        ),
        tool_results=tuple(_read_results(steps)),
        tool_choice=_read_choice(config.get("tool_choice")),
        schema=_read_schema(body),
        wants_reasoning=config.get("thinking_summaries") == "auto",
        allows_search=any(tool["type"] == "google_search" for tool in tools),
        allows_code=any(tool["type"] == "code_execution" for tool in tools),
        allows_pictures="image" in modalities,
        allows_audio="audio" in modalities,
        max_tokens=config.get("max_output_tokens"),
        stop_texts=tuple(config.get("stop_sequences") or ()),
        tokens=count_request_tokens(steps, body.get("system_instruction"), tools),
        wants_stream=body.get("stream") is True,
    )


def _read_choice(choice: Any) -> str | None:
    if isinstance(choice, Mapping):
        allowed = choice.get("allowed_tools") or {}
        names = allowed.get("tools") or ["*"]
        return str(names[0]) if allowed.get("mode") == "any" else None
    return {"any": "*", "none": "-"}.get(str(choice))


def _read_schema(body: Mapping[str, Any]) -> Any:
    formats = body.get("response_format") or []
    for each in [formats] if isinstance(formats, Mapping) else formats:
        if each.get("mime_type") == "application/json":
            return each.get("schema") or {}
    return None


def _read_results(steps: list[dict[str, Any]]) -> Iterator[ToolResult]:
    """Return the results at the end, which the model has not seen yet."""
    names = {step["id"]: step["name"] for step in steps if step["type"] == "function_call"}
    pending: list[dict[str, Any]] = []
    for step in reversed(steps):
        if step["type"] != "function_result":
            break
        pending.append(step)
    for step in reversed(pending):
        result = step["result"]
        text = write_text(result) if isinstance(result, str | list) else json.dumps(result)
        yield ToolResult(name=step.get("name") or names[step["call_id"]], text=text)


def _read_media(step: Mapping[str, Any]) -> Iterator[Attachment]:
    for content in step["content"]:
        if content["type"] in MEDIA:
            data = content.get("data")
            kind = content.get("mime_type") or f"{content['type']}/*"
            yield Attachment(media_type=kind, data=read_base64(data) if data else None)
