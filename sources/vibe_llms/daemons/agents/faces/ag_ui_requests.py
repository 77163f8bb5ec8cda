"""Requests of AG-UI 1.0: ``RunAgentInput`` (https://docs.ag-ui.com)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.daemons.agents.faces.approvals import read_decision
from vibe_llms.daemons.agents.faces.media import read_base64, read_link
from vibe_llms.daemons.agents.route_access import refuse
from vibe_llms.daemons.bodies import decode_body
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approval, Decision
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, TextualContent

_MEDIA: Final = frozenset({"image", "audio", "video", "document"})


@frozen(kw_only=True)
class AgentInput:
    """A request of AG-UI.

    Attributes:
        thread_id: The client's id of the conversation.
        run_id: The client's id of the run.
        parent: Id of the run that spawned this one.
        messages: Messages of the client, with their ids.
        context: Further information, with ids.
        approvals: Answers to interrupts.
        run: Specification of the run.
        losses: Parts of the request that the daemon cannot use.
        ignored: Number of messages that only the daemon itself writes.
    """

    thread_id: str
    run_id: str
    parent: str | None
    messages: Sequence[tuple[str, AnyCanister]]
    context: Sequence[tuple[str, AnyCanister]]
    approvals: Sequence[tuple[str, Approval]]
    run: object
    losses: Sequence[str]
    ignored: int


def read_agent_input(body: bytes) -> AgentInput:
    """Read a request of AG-UI. Raises RequestError."""
    fields = decode_body(body)
    losses: list[str] = []
    properties = fields.get("forwardedProps")
    run = None
    if isinstance(properties, Mapping):
        run = properties.get("run")
        if others := sorted(map(str, {*properties} - {"run"})):
            losses.append(f"The daemon does not use these forwarded properties: {others}.")
    elif properties is not None:
        losses.append("The daemon uses forwarded properties only if they are an object.")
    if fields.get("tools"):
        losses.append("The run cannot call tools of the client. It calls its own ensembles.")
    if fields.get("state"):
        losses.append("Runs have no state that clients share; the state was left out.")
    listed = _read_list(fields, "messages", needed=True)
    read = [_read_message(each, f"messages[{index}]") for index, each in enumerate(listed)]
    messages = [each for each in read if each is not None]
    parent = fields.get("parentRunId")
    return AgentInput(
        thread_id=_read_text(fields, "threadId", "threadId"),
        run_id=_read_text(fields, "runId", "runId"),
        parent=None if parent is None else _read_text(fields, "parentRunId", "parentRunId"),
        messages=messages,
        context=[
            _read_context(each, f"context[{index}]")
            for index, each in enumerate(_read_list(fields, "context"))
        ],
        approvals=[
            _read_resume(each, f"resume[{index}]")
            for index, each in enumerate(_read_list(fields, "resume"))
        ],
        run=run,
        losses=losses,
        ignored=len(read) - len(messages),
    )


def _read_list(
    fields: Mapping[str, Any], name: str, *, needed: bool = False
) -> Sequence[Mapping[str, Any]]:
    value = fields.get(name)
    if value is None and not needed:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise refuse(name, f"{name} must be a list of objects.")
    return value


def _read_text(fields: Mapping[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise refuse(place, f"{place} must be a text.")
    return value


def _read_message(fields: Mapping[str, Any], place: str) -> tuple[str, AnyCanister] | None:
    """Read a message; ``None`` for one that only the daemon itself writes."""
    identity, role = _read_text(fields, "id", f"{place}.id"), fields.get("role")
    match role:
        case "user":
            return identity, UserCanister(_read_content(fields.get("content"), place))
        case "system" | "developer":
            return identity, SupervisorCanister(_read_text(fields, "content", f"{place}.content"))
        case "assistant" if isinstance(fields.get("content"), str) and fields["content"]:
            return identity, AssistantCanister(fields["content"])
        case "assistant" | "tool" | "reasoning" | "activity":
            return None
    raise refuse(f"{place}.role", f"Unknown role {str(role)[:40]!r}.")


def _read_content(content: object, place: str) -> list[AnyContent]:
    if isinstance(content, str):
        return [TextualContent(content)]
    if not isinstance(content, list) or not all(isinstance(each, Mapping) for each in content):
        raise refuse(f"{place}.content", "The content must be a text or a list of parts.")
    return [_read_part(each, f"{place}.content[{index}]") for index, each in enumerate(content)]


def _read_part(part: Mapping[str, Any], place: str) -> AnyContent:
    kind = part.get("type")
    if kind == "text":
        return TextualContent(_read_text(part, "text", f"{place}.text"))
    source = part.get("source")
    if not isinstance(kind, str) or kind not in _MEDIA or not isinstance(source, Mapping):
        raise refuse(place, "A part must be a text, or an image, audio, video or document.")
    name = part["metadata"].get("name") if isinstance(part.get("metadata"), Mapping) else None
    name = name if isinstance(name, str) else None
    value, mime_type = source.get("value"), source.get("mimeType")
    match source.get("type"):
        case "data":
            return read_base64(value, mime_type, name, place)
        case "url":
            return read_link(value, mime_type, name, place)
    raise refuse(place, "Files at a provider cannot be used here; send the data or a URL.")


def _read_context(fields: Mapping[str, Any], place: str) -> tuple[str, AnyCanister]:
    title = _read_text(fields, "description", f"{place}.description")
    value = _read_text(fields, "value", f"{place}.value")
    return f"context\n{title}\n{value}", DocumentCanister(value, title=title)


def _read_resume(fields: Mapping[str, Any], place: str) -> tuple[str, Approval]:
    """Read the answer to an interrupt; one without a decision is refused."""
    identity = _read_text(fields, "interruptId", f"{place}.interruptId")
    payload, status = fields.get("payload"), fields.get("status")
    if status == "cancelled":
        return identity, Approval(digest="", decision=Decision.DENY, reason="It was cancelled.")
    if status != "resolved":
        raise refuse(place, "The status must be resolved or cancelled.")
    table = payload if isinstance(payload, Mapping) else {"decision": payload}
    return identity, read_decision(table, place)
