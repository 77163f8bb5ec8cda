"""Messages of clients and recorded requests as canisters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.ollama_chat.calling.calls import (
    COMMON_FIELDS,
    read_call,
    report_text_arguments,
)
from vibe_llms.dialects.ollama_chat.calling.media import read_media
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import TEXT_ROLES, ConversationReader, read_each
from vibe_llms.dialects.unanswered import PendingInvocation, WaitingInvocations
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import AnyContent, ReasoningContent
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.trusting import make_text


def normalize_messages(
    native: Mapping[str, Any], cache: ClientPrefixes | None = None
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``messages``.

    Invocations without ids get ids derived from their positions.

    Args:
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: A message is invalid.
    """
    reader = read_each(
        _MessagesReader(),
        native.get("messages") or (),
        kind="message",
        field="messages",
        protocol="Ollama's /api/chat",
        cache=cache,
    )
    return reader.finish()


@define
class _MessagesReader(ConversationReader):
    """Reads messages in order; results need not name their invocations."""

    text_roles: tuple[str, ...] = attrs.field(default=TEXT_ROLES, init=False)
    _unanswered: WaitingInvocations = attrs.field(factory=WaitingInvocations, init=False)

    def read(self, message: Mapping[str, Any], index: int) -> None:
        """Add the canisters of one message. Raises RequestError."""
        role = message["role"]
        extras = collect_extras(message, COMMON_FIELDS)
        contents = _read_contents(message, extras)
        if role not in ("assistant", "tool") and (thinking := message.get("thinking")):
            extras["thinking"] = thinking
        if role != "assistant" and (calls := message.get("tool_calls")):
            extras["tool_calls"] = calls
        if role == "assistant":
            self._read_turn(message, contents, extras, index)
        elif role == "tool":
            self._read_result(contents, extras, index)
        elif role == "user":
            self.add_user(contents, keep_native(PROTOCOL, extras))
        elif isinstance(role, str):
            if role != "system":  # a model's template may have other roles
                extras["role"] = role
            self.add_supervisor(contents, keep_native(PROTOCOL, extras))
        else:
            path = f"messages[{index}]"
            raise RequestError(path=path, detail=f"A role must be a text, not {role!r}.")
        # An answer ends the wait for results, which :meth:`_read_turn` does.
        self.text_roles = ("user", "system") if self._unanswered else TEXT_ROLES

    def _read_turn(
        self,
        message: Mapping[str, Any],
        contents: list[AnyContent],
        extras: dict[str, Any],
        index: int,
    ) -> None:
        turn_id = produce_identity()
        self._unanswered.clear()  # results answer the last turn only
        thinking = message.get("thinking")
        if thinking:
            contents.insert(0, ReasoningContent(text=thinking))
        calls = message.get("tool_calls") or ()
        if contents or not calls:
            self.add_answer(contents, turn_id, keep_native(PROTOCOL, extras))
            extras = {}
        for number, call in enumerate(calls):
            name, arguments, call_extras = read_call(call)
            place = f"messages[{index}].tool_calls[{number}]"
            self.losses += report_text_arguments(call, place)
            identity = call.get("id") or self._generate_id(place)
            if extras:
                call_extras["message"], extras = extras, {}
            self._unanswered.add(PendingInvocation(identity, name, identity != call.get("id")))
            self.add_call(identity, name, arguments, turn_id, keep_native(PROTOCOL, call_extras))

    def _read_result(self, contents: list[AnyContent], extras: dict[str, Any], index: int) -> None:
        client_id = extras.pop("tool_call_id", None)
        name = extras.pop("tool_name", None)
        answered = self._find_answered(client_id, name or extras.get("name"))
        if answered:
            identity, name = answered.invocation_id, name or answered.name
        else:
            identity = client_id or self._generate_id(f"messages[{index}]")
        self.add_result(contents, identity, name, keep_native(PROTOCOL, extras))

    def _find_answered(self, client_id: str | None, name: str | None) -> PendingInvocation | None:
        """Find the invocation of a result: by id, then by name, then by order."""
        # A client does not have the ids that were generated here, and may send others.
        unanswered, is_made_up = self._unanswered, bool(client_id)
        return (
            unanswered.pop_by_id(client_id)
            or unanswered.pop_by_name(name, is_generated=is_made_up)
            or unanswered.pop_first(is_generated=is_made_up)
        )

    def _generate_id(self, path: str) -> str:
        name = "".join(letter if letter.isalnum() else "_" for letter in path).strip("_")
        self.losses.append(
            Loss(
                kind=LossKind.SYNTHESIZED,
                path=f"{path}.id",
                reason="the message has no id; one was generated",
            )
        )
        return f"call_{name}"


def _read_contents(message: Mapping[str, Any], extras: dict[str, Any]) -> list[AnyContent]:
    """Return the images, which a template puts first, and the text."""
    contents: list[AnyContent] = []
    if images := message.get("images"):
        media = read_media(images)
        if media is None:
            extras["images"] = images
        else:
            contents += media
    text = message.get("content")
    if text:
        if not isinstance(text, str):
            raise TypeError("the content is not a text")
        contents.append(make_text(text))
    return contents
