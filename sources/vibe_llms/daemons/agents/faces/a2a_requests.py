"""Requests of A2A 1.0 over JSON-RPC (https://a2a-protocol.org)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.daemons.agents.faces.approvals import read_decision
from vibe_llms.daemons.agents.faces.media import read_base64, read_link
from vibe_llms.daemons.agents.route_access import refuse
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approval
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import AnyContent, TextualContent

_MAX_HISTORY: Final = 1_000_000


@frozen(kw_only=True)
class SentMessage:
    """A message of a client.

    Attributes:
        message_id: The client's id of the message.
        task_id: Id of the task that it is for; empty for a new one.
        context_id: Id of the conversation; empty for a new one.
        canister: The message.
        approvals: Answers to requests for approval.
        run: Specification of the run.
        is_immediate: Whether not to wait for the end of the task.
        history_length: Number of messages in the answer; ``None`` for all.
        losses: Parts of the request that the daemon cannot use.
    """

    message_id: str
    task_id: str
    context_id: str
    canister: UserCanister
    approvals: Sequence[tuple[str, Approval]]
    run: object
    is_immediate: bool
    history_length: int | None
    losses: Sequence[str]

    @property
    def word(self) -> str:
        """The text of the message in lower case, if it is one word."""
        return self.canister.text.strip().lower()


def read_sent_message(params: Mapping[str, Any]) -> SentMessage:
    """Read the parameters of ``SendMessage``. Raises RequestError."""
    message, configuration = read_object(params, "message"), read_object(params, "configuration")
    metadata, own = read_object(params, "metadata"), read_object(message, "metadata")
    if message.get("role", "ROLE_USER") not in ("ROLE_USER", "ROLE_UNSPECIFIED"):
        raise refuse("message.role", "The role of a message must be ROLE_USER.")
    parts = message.get("parts")
    if not isinstance(parts, list) or not all(isinstance(each, Mapping) for each in parts):
        raise refuse("message.parts", "The parts must be a list of objects.")
    contents: list[AnyContent] = []
    approvals: list[tuple[str, Approval]] = []
    for index, part in enumerate(parts):
        place, data = f"message.parts[{index}]", part.get("data")
        if isinstance(data, Mapping) and isinstance(data.get("approvals"), list):
            approvals += [_read_approval(each, place) for each in data["approvals"]]
        else:
            contents.append(_read_part(part, place))
    names = ("extensions", "referenceTaskIds")
    losses = [
        f"The daemon does not use {name} of a message." for name in names if message.get(name)
    ]
    return SentMessage(
        message_id=read_text(message, "messageId", "message.messageId"),
        task_id=read_text(message, "taskId", "message.taskId", default=""),
        context_id=read_text(message, "contextId", "message.contextId", default=""),
        canister=UserCanister(contents),
        approvals=approvals,
        run=metadata.get("run", own.get("run")),
        is_immediate=configuration.get("returnImmediately") is True,
        history_length=read_history_length(configuration),
        losses=losses,
    )


def read_object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Read an object that may be missing. Raises RequestError."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise refuse(name, f"{name} must be an object.")
    return value


def read_text(
    fields: Mapping[str, Any], name: str, place: str, *, default: str | None = None
) -> str:
    """Read a text; without a default, it must not be empty. Raises RequestError."""
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value):
        raise refuse(place, f"{place} must be a text.")
    return value


def read_history_length(fields: Mapping[str, Any]) -> int | None:
    """Read the number of messages in the answer; ``None`` for all. Raises RequestError."""
    value = fields.get("historyLength")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_HISTORY:
        raise refuse("historyLength", "historyLength must be a number of at least 0.")
    return value


def _read_part(part: Mapping[str, Any], place: str) -> AnyContent:
    mime_type, name = part.get("mediaType") or None, part.get("filename") or None
    if isinstance(part.get("text"), str):
        return TextualContent(part["text"])
    if "raw" in part:
        return read_base64(part["raw"], mime_type, name, place)
    if "url" in part:
        return read_link(part["url"], mime_type, name, place)
    if "data" in part:  # models read JSON as text
        return TextualContent(msgspec.json.encode(part["data"]).decode())
    raise refuse(place, "A part must have text, raw, url or data.")


def _read_approval(fields: object, place: str) -> tuple[str, Approval]:
    if not isinstance(fields, Mapping):
        raise refuse(place, "An approval must be an object.")
    return read_text(fields, "id", f"{place}.id"), read_decision(fields, place)
