"""Events of AG-UI 1.0 for the steps of a run (https://docs.ag-ui.com)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.daemons.agents.faces.approvals import (
    RESPONSE_SCHEMA,
    ask_approval,
    describe_approval,
)
from vibe_llms.daemons.agents.faces.media import (
    describe_media,
    write_citation,
    write_link,
    write_text,
)
from vibe_llms.daemons.agents.faces.serving import describe_failure
from vibe_llms.daemons.agents.faces.steps import (
    ApprovalGiven,
    CallEnded,
    ModelUsage,
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
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    MediaContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.runs.waiting import Waiting

VERSION: Final = "1.0"
NAMESPACE: Final = "vibe"
"""Key of our fields in metadata, and beginning of the names of our custom events."""

_MESSAGES: Final = {
    "text": ("TEXT_MESSAGE", "assistant"),
    "refusal": ("TEXT_MESSAGE", "assistant"),
    "reasoning": ("REASONING_MESSAGE", "reasoning"),
}
_PARTS: Final = {"image": "image", "audio": "audio", "video": "video", "file": "document"}


@define(eq=False)
class EventWriter:
    """Writer of the events of one run.

    Args:
        thread_id: The client's id of the thread.
        run_id: The client's id of the run.
    """

    _thread_id: str
    _run_id: str
    _open: dict[str, str] = attrs.field(factory=dict)  # kinds of open parts, by their ids
    _is_withdrawn: bool = False

    def begin(self, parent: str | None, losses: Sequence[str]) -> Iterator[JsonObject]:
        """Yield the events at the beginning."""
        started: dict[str, JsonValue] = {
            "type": "RUN_STARTED",
            "threadId": self._thread_id,
            "runId": self._run_id,
            "protocolVersion": VERSION,
        }
        if parent is not None:
            started["parentRunId"] = parent
        yield started
        for loss in losses:
            yield _write_custom("loss", {"reason": loss})

    def write(self, step: Step) -> Iterator[JsonObject]:
        """Yield the events for a step."""
        match step:
            case StepBegun():
                self._is_withdrawn = False
                yield {"type": "STEP_STARTED", "stepName": step.name}
            case StepEnded():
                self._is_withdrawn = False
                yield {"type": "STEP_FINISHED", "stepName": step.name}
            case PartBegun() | PartGrown() | PartEnded() if not self._is_withdrawn:
                yield from self._write_part(step)
            case PartsWithdrawn():
                yield from self._withdraw(step)
            case CallEnded():
                yield _write_result(step)
            case ApprovalGiven():
                value: JsonObject = {
                    "interruptId": step.approval_id,
                    "toolCallId": step.call.id,
                    "isAllowed": step.is_allowed,
                    "reason": step.reason,
                }
                yield _write_custom("approval.answered", value)
            case Noted():
                yield _write_custom(step.word, step.event)
            case Settled():
                yield from self._settle(step)

    def fail(self, error: ConverseError) -> Iterator[JsonObject]:
        """Yield the events for an error that ends the stream."""
        yield from self._close()
        yield {"type": "RUN_ERROR", "message": describe_failure(error), "code": error.WORD}

    def write_snapshot(self, canisters: Sequence[AnyCanister]) -> JsonObject:
        """Return the event with all messages of a conversation."""
        return {"type": "MESSAGES_SNAPSHOT", "messages": [*write_messages(canisters)]}

    def finish(self, **fields: JsonValue) -> JsonObject:
        """Return the event at the end of a run that did not fail."""
        return {
            "type": "RUN_FINISHED",
            "threadId": self._thread_id,
            "runId": self._run_id,
            **fields,
        }

    def _write_part(self, step: PartBegun | PartGrown | PartEnded) -> Iterator[JsonObject]:
        if step.kind == "invocation":
            yield self._write_call(step)
        elif names := _MESSAGES.get(step.kind):
            yield from self._write_message(step, *names)
        elif isinstance(step, PartEnded) and isinstance(step.content, MEDIA_CLASSES):
            yield {
                "type": "ACTIVITY_SNAPSHOT",
                "messageId": step.id,
                "activityType": f"{NAMESPACE}.media",
                "content": _describe_media(step.content),
            }
        elif isinstance(step, PartEnded) and isinstance(step.content, NativeContent):
            content: JsonObject = {"kind": step.content.kind, "text": step.content.text}
            yield _write_custom("native", content)

    def _write_call(self, step: PartBegun | PartGrown | PartEnded) -> JsonObject:
        call: dict[str, JsonValue] = {"toolCallId": step.id}
        match step:
            case PartBegun():
                self._open[step.id] = step.kind
                name = step.call.name if step.call else ""
                return {"type": "TOOL_CALL_START", **call, "toolCallName": name}
            case PartGrown():
                return {"type": "TOOL_CALL_ARGS", **call, "delta": step.text}
        self._open.pop(step.id, None)
        return {"type": "TOOL_CALL_END", **call}

    def _write_message(
        self, step: PartBegun | PartGrown | PartEnded, name: str, role: str
    ) -> Iterator[JsonObject]:
        message: dict[str, JsonValue] = {"messageId": step.id}
        is_reasoning = role == "reasoning"
        match step:
            case PartBegun():
                self._open[step.id] = step.kind
                if step.kind == "refusal":
                    message["metadata"] = {NAMESPACE: {"kind": "refusal"}}
                if is_reasoning:
                    yield {"type": "REASONING_START", "messageId": step.id}
                yield {"type": f"{name}_START", **message, "role": role}
            case PartGrown():
                yield {"type": f"{name}_CONTENT", **message, "delta": step.text}
            case PartEnded():
                self._open.pop(step.id, None)
                if citations := _list_citations(step.content):
                    message["metadata"] = {NAMESPACE: {"citations": citations}}
                yield {"type": f"{name}_END", **message}
                if is_reasoning:
                    yield {"type": "REASONING_END", "messageId": step.id}

    def _withdraw(self, step: PartsWithdrawn) -> Iterator[JsonObject]:
        """Replace the messages of the client, since single ones cannot be taken back."""
        yield from self._close()
        self._is_withdrawn = True
        yield self.write_snapshot(step.conversation)

    def _close(self) -> Iterator[JsonObject]:
        for part_id, kind in tuple(self._open.items()):
            yield from self._write_part(PartEnded(id=part_id, kind=kind))  # type: ignore[arg-type]

    def _settle(self, step: Settled) -> Iterator[JsonObject]:
        yield from self._close()
        usage = [_write_usage(each) for each in step.usages]
        summary = step.summary
        result: JsonObject = {
            "state": summary.label,
            "detail": step.detail,
            "tokens": summary.tokens,
            "cents": summary.cents,
        }
        if step.outcome == "failed":
            code = summary.limit or summary.reason
            yield {"type": "RUN_ERROR", "message": step.detail, "code": code, "usage": usage}
            return
        outcome: JsonObject = {"type": "success"}
        if step.outcome == "waiting":
            interrupts = [_write_interrupt(each, step.calls.get(each.key)) for each in step.waiting]
            outcome = {"type": "interrupt", "interrupts": interrupts}
        elif step.outcome == "stopped":
            outcome = {"type": "cancelled"}
        yield self.finish(result=result, outcome=outcome, usage=usage)


def _write_custom(name: str, value: Mapping[str, JsonValue]) -> JsonObject:
    return {"type": "CUSTOM", "name": f"{NAMESPACE}.{name}", "value": dict(value)}


def _write_result(step: CallEnded) -> JsonObject:
    event: dict[str, JsonValue] = {
        "type": "TOOL_CALL_RESULT",
        "messageId": f"{step.call.id}.result",
        "toolCallId": step.call.id,
        "role": "tool",
        "content": _write_contents(step.result.content),
    }
    if step.result.is_error or step.is_denied:
        event["metadata"] = {
            NAMESPACE: {"isError": step.result.is_error, "isDenied": step.is_denied}
        }
    return event


def _write_interrupt(waiting: Waiting, call: ShownCall | None) -> JsonObject:
    place: JsonObject = {"toolCallId": call.id} if call else {}
    return {
        "id": identify_approval(waiting.key, waiting.request.digest),
        "reason": "tool_approval",
        **place,
        "message": ask_approval(waiting),
        "responseSchema": RESPONSE_SCHEMA,
        "metadata": {NAMESPACE: describe_approval(waiting)},
    }


def _write_usage(each: ModelUsage) -> JsonObject:
    usage = each.usage
    counts = {
        "inputTokens": usage.total_input_tokens,
        "outputTokens": usage.total_output_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
    }
    known: dict[str, JsonValue] = {
        name: count for name, count in counts.items() if count is not None
    }
    return {"provider": each.provider, "model": each.model, **known}


def write_messages(canisters: Sequence[AnyCanister]) -> Iterator[JsonObject]:
    """Yield the messages of a conversation."""
    calls: dict[str, str] = {}
    for canister in canisters:
        match canister:
            case UserCanister():
                content = _write_contents(canister.content)
                yield {"id": canister.id, "role": "user", "content": content}
            case SupervisorCanister() | DocumentCanister():
                text = write_text(canister.content)
                yield {"id": canister.id, "role": "system", "content": text}
            case InvocationCanister():
                calls[canister.invocation_id] = canister.id
                function: JsonObject = {"name": canister.name, "arguments": canister.arguments}
                call: JsonObject = {"id": canister.id, "type": "function", "function": function}
                yield {"id": canister.id, "role": "assistant", "toolCalls": [call]}
            case ResultCanister():
                yield {
                    "id": canister.id,
                    "role": "tool",
                    "toolCallId": calls.get(canister.invocation_id, canister.invocation_id),
                    "content": _write_contents(canister.content),
                }
            case _:
                yield from _write_answer(canister)


def _write_answer(canister: AnyCanister) -> Iterator[JsonObject]:
    for index, content in enumerate(canister.content):
        identity = f"{canister.id}.{index}"
        if isinstance(content, ReasoningContent):
            yield {"id": identity, "role": "reasoning", "content": write_text((content,))}
        elif isinstance(content, MEDIA_CLASSES):
            yield {
                "id": identity,
                "role": "activity",
                "activityType": f"{NAMESPACE}.media",
                "content": _describe_media(content),
            }
        elif text := write_text((content,)):
            yield {"id": identity, "role": "assistant", "content": text}


def _write_contents(contents: Sequence[AnyContent]) -> JsonValue:
    """Return the contents of a user's or a tool's message: a text, or parts."""
    if not any(isinstance(each, MEDIA_CLASSES) for each in contents):
        return write_text(contents)
    parts: list[JsonValue] = []
    for content in contents:
        if isinstance(content, MEDIA_CLASSES) and (url := write_link(content)):
            source: JsonObject = {"type": "url", "value": url, "mimeType": content.mime_type}
            if url.startswith("data:"):
                value = url.partition(",")[2]
                source = {"type": "data", "value": value, "mimeType": content.mime_type}
            parts.append({"type": _PARTS[content.type], "source": source})
        elif text := write_text((content,)):
            parts.append({"type": "text", "text": text})
    return parts


def _describe_media(content: MediaContent) -> JsonObject:
    return {
        "type": content.type,
        "mimeType": content.mime_type,
        "name": content.name,
        "url": write_link(content),
        "text": describe_media(content),
    }


def _list_citations(content: Any) -> list[JsonValue]:
    if not isinstance(content, TextualContent):
        return []
    return [write_citation(each) for each in content.citations]
