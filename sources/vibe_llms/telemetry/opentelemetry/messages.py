"""Canisters in the conventions' format for messages: ``gen-ai-input-messages.json`` and others.

Used only if texts are captured. Media are described by their kind and type, without their bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
    SupervisorCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    CacheHint,
    NativeContent,
    ReasoningContent,
)
from vibe_llms.messages.views import text_of
from vibe_llms.telemetry.opentelemetry.conventions import FINISHES

Part = dict[str, Any]

_ROLES: Final = {
    "user": "user",
    "document": "user",
    "supervisor": "system",
    "assistant": "assistant",
    "invocation": "assistant",
    "result": "tool",
}


def write(value: object) -> str:
    """Encode messages as JSON: not every version of the SDK supports structured attributes."""
    return json.dumps(value, ensure_ascii=False)


def split_instructions(
    canisters: Sequence[AnyCanister],
) -> tuple[list[Part], Sequence[AnyCanister]]:
    """Separate the instructions at the beginning from the chat history."""
    count = 0
    while count < len(canisters) and isinstance(canisters[count], SupervisorCanister):
        count += 1
    parts = [part for canister in canisters[:count] for part in _describe(canister)]
    return parts, canisters[count:]


def describe_input(canisters: Iterable[AnyCanister]) -> list[dict[str, Any]]:
    """Return the messages of a request; adjacent canisters of one role are one message."""
    messages: list[dict[str, Any]] = []
    for canister in canisters:
        role = _access_role(canister)
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "parts": []})
        messages[-1]["parts"].extend(_describe(canister))
    return messages


def describe_output(
    canisters: Iterable[AnyCanister], stop_reason: StopReason
) -> list[dict[str, Any]]:
    """Return the single message of an answer."""
    parts = [part for canister in canisters for part in _describe(canister)]
    finish = FINISHES.get(stop_reason, str(stop_reason))
    return [{"role": "assistant", "parts": parts, "finish_reason": finish}]


def _access_role(canister: AnyCanister) -> str:
    if isinstance(canister, ResultCanister) and canister.owner is Owner.VENDOR:
        return "assistant"  # the vendor's own tools are part of the answer
    return _ROLES[canister.role]


def _describe(canister: AnyCanister) -> list[Part]:
    if isinstance(canister, InvocationCanister):
        return [_describe_invocation(canister)]
    if isinstance(canister, ResultCanister):
        return [_describe_result(canister)]
    return [_describe_content(content) for content in canister.content]


def _describe_invocation(canister: InvocationCanister) -> Part:
    arguments: Any = canister.arguments
    if canister.form == "json" and canister.fault is None:
        arguments = canister.parse_arguments()
    identity = {"id": canister.invocation_id, "name": canister.name}
    if canister.owner is Owner.VENDOR:
        call = {"type": canister.name, "arguments": arguments}
        return {"type": "server_tool_call", **identity, "server_tool_call": call}
    return {"type": "tool_call", **identity, "arguments": arguments}


def _describe_result(canister: ResultCanister) -> Part:
    text = text_of(canister)
    if canister.owner is Owner.VENDOR:
        response = {"type": canister.name or "unknown", "text": text}
        kind = "server_tool_call_response"
        return {"type": kind, "id": canister.invocation_id, kind: response}
    return {"type": "tool_call_response", "id": canister.invocation_id, "response": text}


def _describe_content(content: AnyContent) -> Part:
    if isinstance(content, ReasoningContent):
        return {"type": "reasoning", "content": content.text or "\n\n".join(content.summary)}
    if isinstance(content, MEDIA_CLASSES):
        # Without the bytes, which are large; the description is what readers need.
        modality = "document" if content.type == "file" else content.type
        fields = {"mime_type": content.mime_type, "modality": modality}
        if content.url and not content.url.startswith("data:"):
            return {"type": "uri", **fields, "uri": content.url}
        if content.file_id:
            return {"type": "file", **fields, "file_id": content.file_id}
        return {"type": "media", **fields, "name": content.name}
    if isinstance(content, NativeContent):
        return {"type": "native", "kind": content.kind, "content": content.text}
    if isinstance(content, CacheHint):
        return {"type": "cache", "lifetime": content.lifetime}
    kind = "text" if content.type == "text" else content.type
    return {"type": kind, "content": content.text}
