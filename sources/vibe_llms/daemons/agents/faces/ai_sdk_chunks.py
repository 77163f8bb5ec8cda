"""Chunks of the AI SDK's UI message stream for the steps of a run (https://ai-sdk.dev)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from vibe_llms.daemons.agents.faces.media import (
    describe_media,
    write_citation,
    write_link,
    write_text,
)
from vibe_llms.daemons.agents.faces.serving import describe_failure
from vibe_llms.daemons.agents.faces.steps import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    Noted,
    PartBegun,
    PartEnded,
    PartGrown,
    PartsWithdrawn,
    Settled,
    ShownCall,
    Step,
    StepBegun,
    StepEnded,
    identify_approval,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    Citation,
    NativeContent,
    TextualContent,
)
from vibe_llms.runs.waiting import Waiting

NAMESPACE: Final = "vibe"
"""Key of our fields in metadata, and name of our data parts."""

_NAMES: Final = {"text": "text", "refusal": "text", "reasoning": "reasoning"}
_REASONS: Final = {"refused": "content-filter"}
_DOUBT: Final = "It was started before, and may have taken effect."


@define(eq=False)
class ChunkWriter:
    """Writer of the chunks of one assistant message.

    Args:
        run_id: Id of the run.
        message_id: Id of the message.
    """

    _run_id: str
    _message_id: str

    def begin(self, losses: Sequence[str]) -> Iterator[JsonObject]:
        """Yield the chunks at the beginning."""
        metadata: JsonObject = {NAMESPACE: {"runId": self._run_id}}
        yield {"type": "start", "messageId": self._message_id, "messageMetadata": metadata}
        for loss in losses:
            yield _write_note("loss", {"reason": loss})

    def write(self, step: Step) -> Iterator[JsonObject]:
        """Yield the chunks for a step."""
        match step:
            case StepBegun():
                yield {"type": "start-step"}
            case StepEnded():
                yield {"type": "finish-step"}
            case PartBegun() | PartGrown() | PartEnded():
                yield from _write_part(step)
            case PartsWithdrawn():
                yield {"type": "reset-step"}
            case CallEnded():
                yield _write_result(step)
            case ApprovalAsked():
                yield _write_request(step.approval_id, step.call.id, in_doubt=step.in_doubt)
            case ApprovalGiven():
                yield {
                    "type": "tool-approval-response",
                    "approvalId": step.approval_id,
                    "approved": step.is_allowed,
                    **({"reason": step.reason} if step.reason else {}),
                }
            case Noted():
                yield _write_note(step.word, step.event)
            case Settled():
                yield from self._settle(step)

    def fail(self, error: ConverseError) -> Iterator[JsonObject]:
        """Yield the chunks for an error that ends the stream."""
        yield {"type": "error", "errorText": describe_failure(error)}
        yield {"type": "finish", "finishReason": "error"}

    def _settle(self, step: Settled) -> Iterator[JsonObject]:
        for waiting in step.waiting:
            if waiting.key not in step.calls:  # else the chunk of the call is before it
                yield from self._introduce(waiting)
        summary = step.summary
        metadata: JsonObject = {
            NAMESPACE: {
                "runId": self._run_id,
                "state": summary.label,
                "detail": step.detail,
                "tokens": summary.tokens,
                "cents": summary.cents,
            }
        }
        if step.outcome == "stopped":
            yield {"type": "message-metadata", "messageMetadata": metadata}
            yield {"type": "abort", **({"reason": step.detail} if step.detail else {})}
            return
        if step.outcome == "failed":
            yield {"type": "error", "errorText": step.detail}
        reasons = {"completed": "stop", "waiting": "tool-calls", "failed": "error"}
        reason = _REASONS.get(summary.reason) or reasons[step.outcome]
        yield {"type": "finish", "finishReason": reason, "messageMetadata": metadata}

    def _introduce(self, waiting: Waiting) -> Iterator[JsonObject]:
        """Yield a call that an earlier message has, or a visit of a flow, and its request."""
        request = waiting.request
        call = ShownCall(
            id=f"{self._run_id}.{waiting.key}", name=request.name, arguments=request.arguments
        )
        yield _write_call(call)
        approval_id = identify_approval(waiting.key, request.digest)
        yield _write_request(approval_id, call.id, in_doubt=request.in_doubt)


def _write_note(word: str, event: Mapping[str, JsonValue]) -> JsonObject:
    data: JsonObject = {"type": word, "event": dict(event)}
    return {"type": f"data-{NAMESPACE}", "data": data, "transient": True}


def _write_request(approval_id: str, call_id: str, *, in_doubt: bool) -> JsonObject:
    return {
        "type": "tool-approval-request",
        "approvalId": approval_id,
        "toolCallId": call_id,
        **({"reason": _DOUBT} if in_doubt else {}),
    }


def _write_part(step: PartBegun | PartGrown | PartEnded) -> Iterator[JsonObject]:
    if name := _NAMES.get(step.kind):
        match step:
            case PartBegun():
                is_refusal = step.kind == "refusal"
                metadata: JsonObject = {"providerMetadata": {NAMESPACE: {"kind": "refusal"}}}
                yield {
                    "type": f"{name}-start",
                    "id": step.id,
                    **(metadata if is_refusal else {}),
                }
            case PartGrown():
                yield {"type": f"{name}-delta", "id": step.id, "delta": step.text}
            case PartEnded():
                yield {"type": f"{name}-end", "id": step.id}
                if isinstance(step.content, TextualContent):
                    for index, citation in enumerate(step.content.citations):
                        yield _write_source(f"{step.id}.{index}", citation)
        return
    match step:
        case PartBegun(call=ShownCall() as call):
            yield {
                "type": "tool-input-start",
                "toolCallId": call.id,
                "toolName": call.name,
                "dynamic": True,
                **_write_executor(call),
            }
        case PartGrown():
            yield {"type": "tool-input-delta", "toolCallId": step.id, "inputTextDelta": step.text}
        case PartEnded(call=ShownCall() as call):
            yield _write_call(call)
        case PartEnded(content=content) if content is not None:
            yield _write_content(content)


def _write_call(call: ShownCall) -> JsonObject:
    value: JsonValue = call.arguments
    with suppress(*UNREADABLE):  # free text and invalid arguments stay as the model wrote them
        value = msgspec.json.decode(call.arguments or "{}")
    return {
        "type": "tool-input-available",
        "toolCallId": call.id,
        "toolName": call.name,
        "input": value,
        "dynamic": True,
        **_write_executor(call),
    }


def _write_executor(call: ShownCall) -> JsonObject:
    return {"providerExecuted": True} if call.is_vendors else {}


def _write_result(step: CallEnded) -> JsonObject:
    place: JsonObject = {"toolCallId": step.call.id, **_write_executor(step.call)}
    if step.is_denied:
        return {"type": "tool-output-denied", **place}
    contents = step.result.content
    if step.result.is_error:
        text = write_text(contents)
        return {"type": "tool-output-error", **place, "errorText": text, "dynamic": True}
    output: JsonValue = write_text(contents)
    if any(isinstance(each, MEDIA_CLASSES) for each in contents):
        output = [_describe_content(each) for each in contents]
    return {"type": "tool-output-available", **place, "output": output, "dynamic": True}


def _describe_content(content: AnyContent) -> JsonObject:
    if isinstance(content, MEDIA_CLASSES) and (url := write_link(content)):
        return {
            "type": "file",
            "mediaType": content.mime_type,
            "url": url,
            "filename": content.name,
        }
    return {"type": "text", "text": write_text((content,))}


def _write_content(content: AnyContent) -> JsonObject:
    if isinstance(content, MEDIA_CLASSES) and (url := write_link(content)):
        metadata: JsonObject = {NAMESPACE: {"name": content.name, "text": describe_media(content)}}
        return {
            "type": "file",
            "mediaType": content.mime_type,
            "url": url,
            "providerMetadata": metadata,
        }
    kind = f"{content.native.protocol}.{content.kind}" if isinstance(content, NativeContent) else ""
    return {
        "type": "custom",
        "kind": kind or f"{NAMESPACE}.{content.type}",
        "providerMetadata": {NAMESPACE: {"text": write_text((content,))}},
    }


def _write_source(source_id: str, citation: Citation) -> JsonObject:
    source: dict[str, JsonValue] = {
        "sourceId": source_id,
        "providerMetadata": {NAMESPACE: write_citation(citation)},
    }
    title = citation.title or ""
    if citation.url:
        return {"type": "source-url", "url": citation.url, "title": title, **source}
    title = title or citation.file_id or "Source"
    return {"type": "source-document", "mediaType": "text/plain", "title": title, **source}
