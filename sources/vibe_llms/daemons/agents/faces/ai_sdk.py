"""The AI SDK's chat as a face of the daemon: ``POST /ai-sdk``, and ``GET /ai-sdk/ID/stream``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.daemons.agents.faces.ai_sdk_chunks import ChunkWriter
from vibe_llms.daemons.agents.faces.media import read_link
from vibe_llms.daemons.agents.faces.serving import SPEC_QUERIES, FaceParts, read_spec, serve_run
from vibe_llms.daemons.agents.faces.threads import (
    MAX_ID_CHARACTERS,
    BranchTakenError,
    RunPlace,
    Thread,
    advance,
    find_summary,
    find_thread,
    fork_thread,
    rejoin,
)
from vibe_llms.daemons.agents.route_access import RouteRow, refuse
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import decode_body, perform_sized, read_json_body
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.approvals import Approval, Decision
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.runs.surveying import RESTS

_HEADERS: Final[Mapping[str, str]] = {
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
_ENDING: Final = b"data: [DONE]\n\n"
_SUBMIT, _REGENERATE = "submit-message", "regenerate-message"
_OWN_FIELDS: Final = frozenset({"id", "messages", "trigger", "messageId", "run"})
_CHAT: Final[JsonObject] = {
    "title": "ChatRequest",
    "type": "object",
    "required": ["id", "messages"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["id", "role", "parts"],
                "properties": {
                    "id": {"type": "string"},
                    "role": {"enum": ["user", "system", "assistant"]},
                    "parts": {"type": "array", "items": {"type": "object"}},
                },
            },
        },
        "trigger": {"enum": [_SUBMIT, _REGENERATE]},
        "messageId": {"type": ["string", "null"]},
        "run": {"type": ["object", "null"]},
    },
}


@frozen(kw_only=True)
class ChatRequest:
    """A request of the AI SDK's chat.

    Attributes:
        chat_id: The client's id of the conversation.
        messages: Messages of the client, with their ids.
        approvals: Answers to requests for approval, in the last message.
        is_answer_last: Whether the last message is the assistant's.
        regenerates: Whether the last answer is generated again.
        edited: The client's id of a message that is replaced; empty for none.
        run: Specification of the run.
        losses: Parts of the request that the daemon cannot use.
    """

    chat_id: str
    messages: Sequence[tuple[str, AnyCanister]]
    approvals: Sequence[tuple[str, Approval]]
    is_answer_last: bool
    regenerates: bool
    edited: str
    run: object
    losses: Sequence[str]


class AiSdkFace:
    """Request handlers for the AI SDK's chat.

    Args:
        parts: The parts of the daemon that faces share.
    """

    def __init__(self, parts: FaceParts) -> None:
        self._parts = parts

    def list_rows(self) -> list[RouteRow]:
        """Return the routes."""
        return [
            RouteRow(
                "POST",
                "/ai-sdk",
                self._chat,
                "Run an agent for a chat of the AI SDK.",
                _CHAT,
                queries=SPEC_QUERIES,
                media_types=("text/event-stream",),
                is_admitted=False,  # streams have a separate limit
                needs_host=True,
            ),
            RouteRow(
                "GET",
                "/ai-sdk/{id:path}/stream",
                self._resume,
                "Follow the current answer of a chat again.",
                media_types=("text/event-stream",),
                is_admitted=False,
                needs_host=True,
            ),
        ]

    async def _chat(self, call: HttpCall, subject: str) -> None:
        runs = self._parts.runs
        with self._parts.streams.hold(call):
            body = await read_json_body(call)
            with call.cancelling_on_disconnect():
                request = await perform_sized(body, partial(read_chat_request, body))
                spec = read_spec(call, request.run, "body.run")
            while True:
                thread = await find_thread(runs, call, request.chat_id, subject)
                with suppress(BranchTakenError):
                    place, late = await self._advance(call, thread, request, spec)
                    break
            losses = [*request.losses]
            losses += [f"The request for approval {each} does not wait." for each in late]
            await self._serve(call, place, subject, losses)

    async def _advance(
        self, call: HttpCall, thread: Thread, request: ChatRequest, spec: RunSpec
    ) -> tuple[RunPlace, list[str]]:
        runs = self._parts.runs
        if request.is_answer_last:
            if not thread.exists:
                raise refuse("messages", "The last message must be the user's in a new chat.")
            if not request.approvals:
                return await rejoin(runs, thread), []
            return await advance(runs, call, thread, spec, approvals=request.approvals)
        if request.regenerates and thread.exists:
            last, _ = request.messages[-1]
            place = thread.find_message(last)
            if place is None:
                raise refuse("messages", "The conversation does not have the last message.")
            if not (thread.is_unused_branch and place + 1 == len(thread.canisters)):
                thread = await fork_thread(runs, thread, place + 1)
            return await advance(runs, call, thread, spec, answers_last=True)
        if request.edited and thread.exists:
            place = thread.find_message(request.edited)
            _, edited = request.messages[-1]
            if place is None:
                _ensure_editable(thread, request)
            elif thread.canisters[place].content != edited.content:
                thread = await fork_thread(runs, thread, place)
        new = thread.select_new(request.messages)
        if new or not thread.exists:
            return await advance(runs, call, thread, spec, new)
        if await find_summary(runs, thread) is None:
            return await advance(runs, call, thread, spec, answers_last=True)
        return await rejoin(runs, thread), []  # the request was repeated

    async def _resume(self, call: HttpCall, subject: str) -> None:
        parts = self._parts
        with parts.streams.hold(call):
            await call.read_body()
            thread = await find_thread(parts.runs, call, call.names["id"], subject)
            summary = await find_summary(parts.runs, thread)
            if summary is None or summary.state in RESTS:
                await call.answer(204, b"", {})
                return
            await self._serve(call, await rejoin(parts.runs, thread), subject)

    async def _serve(
        self, call: HttpCall, place: RunPlace, subject: str, losses: Sequence[str] = ()
    ) -> None:
        writer = ChunkWriter(place.run_id, f"{place.run_id}.{place.start}")
        await serve_run(
            call,
            self._parts,
            place,
            writer,
            subject=subject,
            beginning=writer.begin(losses),
            headers=_HEADERS,
            ending=_ENDING,
        )


def _ensure_editable(thread: Thread, request: ChatRequest) -> None:
    """Refuse to edit an unknown message, unless an equal request has begun the branch for it."""
    name = thread.name_message(request.edited)
    is_sent = bool({request.edited, name} & thread.known.keys())
    # Otherwise, the equal request is about to send it, or its process has died.
    lacking = [each.id for each in thread.select_new(request.messages)]
    if not (is_sent or (thread.is_unused_branch and lacking == [name])):
        raise refuse("messageId", "The conversation does not have this message.")


def read_chat_request(body: bytes) -> ChatRequest:
    """Read a request of the AI SDK's chat. Raises RequestError."""
    fields = decode_body(body)
    losses: list[str] = []
    if others := sorted({*fields} - _OWN_FIELDS):
        losses.append(f"The daemon does not use these fields: {others}.")
    chat_id, trigger = fields.get("id"), fields.get("trigger", _SUBMIT)
    if not isinstance(chat_id, str):
        raise refuse("id", "The id of the chat must be a text.")
    if trigger not in (_SUBMIT, _REGENERATE):
        raise refuse("trigger", f"The trigger must be {_SUBMIT} or {_REGENERATE}.")
    message_id = fields.get("messageId")
    if not isinstance(message_id, str | None):
        raise refuse("messageId", "The id of a message must be a text.")
    listed = fields.get("messages")
    if not isinstance(listed, list) or not listed:
        raise refuse("messages", "The messages must be a list with at least one.")
    messages = [
        _read_message(each, f"messages[{index}]", losses) for index, each in enumerate(listed)
    ]
    is_answer_last = listed[-1]["role"] == "assistant"
    approvals = _read_approvals(listed[-1]["parts"]) if is_answer_last else []
    if trigger == _REGENERATE and is_answer_last:
        raise refuse("messages", "To regenerate an answer, send the messages before it.")
    is_edit = trigger == _SUBMIT and not is_answer_last
    return ChatRequest(
        chat_id=chat_id,
        messages=[each for each in messages if each[1].content or each[1].role != "assistant"],
        approvals=approvals,
        is_answer_last=is_answer_last,
        regenerates=trigger == _REGENERATE,
        edited=message_id or "" if is_edit else "",
        run=fields.get("run"),
        losses=losses,
    )


def _read_message(fields: object, place: str, losses: list[str]) -> tuple[str, AnyCanister]:
    if not isinstance(fields, Mapping):
        raise refuse(place, "A message must be an object.")
    identity, role, parts = fields.get("id"), fields.get("role"), fields.get("parts")
    if not isinstance(identity, str):
        raise refuse(f"{place}.id", "The id of a message must be a text.")
    if not isinstance(parts, list) or not all(isinstance(each, Mapping) for each in parts):
        raise refuse(f"{place}.parts", "The parts must be a list of objects.")
    if role == "assistant":  # ours, or one of another agent, of which only the text is kept
        texts = [each.get("text") for each in parts if each.get("type") == "text"]
        return identity, AssistantCanister([each for each in texts if isinstance(each, str)])
    contents = [
        content
        for index, each in enumerate(parts)
        if (content := _read_part(each, f"{place}.parts[{index}]", losses)) is not None
    ]
    match role:
        case "user":
            return identity, UserCanister(contents)
        case "system":
            return identity, SupervisorCanister(contents)
    raise refuse(f"{place}.role", f"Unknown role {str(role)[:40]!r}.")


def _read_part(part: Mapping[str, Any], place: str, losses: list[str]) -> AnyContent | None:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return TextualContent(part["text"])
        case "file":
            return read_link(part.get("url"), part.get("mediaType"), part.get("filename"), place)
        case str() as kind if kind != "text":
            losses.append(f"{place} is a part of the kind {kind[:40]!r}, which models do not see.")
            return None
    raise refuse(place, "A part must be a text or a file.")


def _read_approvals(parts: Sequence[Mapping[str, Any]]) -> list[tuple[str, Approval]]:
    """Read the answers to requests for approval in a message of the assistant."""
    found = []
    for part in parts:
        approval = part.get("approval")
        if part.get("state") != "approval-responded" or not isinstance(approval, Mapping):
            continue
        identity, is_allowed = approval.get("id"), approval.get("approved")
        reason = approval.get("reason") or ""
        if not (
            isinstance(identity, str) and isinstance(is_allowed, bool) and isinstance(reason, str)
        ):
            raise refuse("messages", "An approval must have an id, approved and a reason.")
        decision = Decision.ALLOW if is_allowed else Decision.DENY
        found.append((identity, Approval(digest="", decision=decision, reason=reason)))
    return found
