"""Canisters as the messages of a request.

This dialect has no order of text and invocations within a turn, and only text in results. Other
conversations are converted, and each change is a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from vibe_llms.dialects.cache_hints import lower_hints
from vibe_llms.dialects.chat_completions.calling.caching import choose_marks
from vibe_llms.dialects.chat_completions.calling.parts import PartsWriter
from vibe_llms.dialects.chat_completions.calling.turns import TurnWriter
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import HistoryEntry, is_missing_note, locate, repair_history
from vibe_llms.dialects.instructions import (
    Message,
    accepts_late_instructions,
    arrange_instructions,
    list_parts,
)
from vibe_llms.dialects.invocations import holds_object, write_arguments
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.plain import OURS, is_plain_call
from vibe_llms.dialects.turn_messages import InputCanister, TurnMessagesWriter
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import MEDIA_CLASSES, TextualContent
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes


def nativize_canisters(
    canisters: Sequence[AnyCanister],
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Return ``{"messages": […]}``.

    Args:
        provider: The request's provider; empty for any provider of the dialect.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider, siblings=quirks.siblings)
    canisters = lower_hints(canisters, ledger, *choose_marks(attributes, quirks, ledger))
    writer = _MessagesWriter.of(PartsWriter(attributes, quirks, ledger))
    writer.write(repair_history(canisters, quirks.history, ledger))
    return Translation(
        {"messages": _arrange_messages(writer, attributes, quirks, ledger)}, ledger.losses
    )


def _arrange_messages(
    writer: _MessagesWriter, attributes: ModelAttributes, quirks: Quirks, ledger: Ledger
) -> list[dict[str, Any]]:
    """Return the messages in the order that the vendor requires."""
    if (
        accepts_late_instructions(attributes)
        and not quirks.bridges_results
        and not quirks.alternates
    ):
        return writer.messages
    located = zip(writer.messages, map(locate, writer.positions), strict=True)
    messages = arrange_instructions(list(located), attributes, ledger)
    if quirks.bridges_results:
        messages = bridge(messages, ledger)
    if quirks.alternates:
        messages = alternate(messages, ledger)
    return [message for message, _ in messages]


@define
class _MessagesWriter(TurnMessagesWriter):
    """Writes messages; media of results follow the last result of a turn."""

    parts: PartsWriter

    @classmethod
    def of(cls, parts: PartsWriter) -> Self:
        """Make a writer with a vendor's quirks."""
        return cls(parts.ledger, None if parts.quirks.takes_null else "", parts)

    def _write_plain_call(self, canister: InvocationCanister) -> dict[str, Any] | None:
        quirks = self.parts.quirks
        if quirks.needs_reasoning or not is_plain_call(canister):
            return None
        arguments = write_arguments(canister, PROTOCOL)
        if not quirks.takes_broken and not holds_object(arguments):
            return None
        function = {"name": canister.name, "arguments": arguments}
        return {"id": canister.invocation_id, "type": "function", "function": function}

    def _write_plain_result(self, canister: ResultCanister, text: str) -> dict[str, Any] | None:
        message = {"role": "tool", "tool_call_id": canister.invocation_id, "content": text}
        if self.parts.quirks.names_results and canister.name:
            message["name"] = canister.name
        return message

    def write_turn(self, turn: Sequence[HistoryEntry]) -> dict[str, Any] | None:
        """Return the message; ``None`` if nothing of the turn can be sent."""
        ours: list[HistoryEntry] = []
        for entry in turn:
            if getattr(entry.canister, "owner", OURS) is OURS:
                ours.append(entry)
            else:
                self.ledger.withhold_execution(entry.path)
        if not ours:
            return None
        message = TurnWriter(self.parts).write(ours)
        if not self._became_empty(message, ours):
            return message
        self.ledger.drop(ours[0].path, "the vendor rejects a message without content")
        return None

    def _became_empty(self, message: Mapping[str, Any], turn: Sequence[HistoryEntry]) -> bool:
        """Return whether nothing of a turn could be written, so that it should not be sent.

        Moonshot and Mistral reject it: https://github.com/router-for-me/CLIProxyAPI/issues/1730. A
        message that was already empty is sent to the other vendors.
        """
        if message.get("content") or message.keys() - {"role", "content"}:
            return False
        contents = [each for entry in turn for each in entry.canister.content]
        had_more = any(not isinstance(each, TextualContent) or each.text for each in contents)
        return had_more or not self.parts.quirks.takes_null

    def _write_input(self, canister: InputCanister, position: int) -> dict[str, Any]:
        path = locate(position)
        extras = self.ledger.read_sendable(canister.native, path, canister)
        as_parts = bool(extras.pop("$parts", False))
        if isinstance(canister, ResultCanister):
            message = self._write_result(canister, position, extras, as_parts=as_parts)
        else:
            message = self._write_text_message(canister, path, extras, as_parts=as_parts)
        return merge(message, extras)

    def _write_text_message(
        self,
        canister: UserCanister | SupervisorCanister | DocumentCanister,
        path: str,
        extras: dict[str, Any],
        *,
        as_parts: bool,
    ) -> dict[str, Any]:
        if isinstance(canister, SupervisorCanister):
            roles = self.parts.quirks.supervisor_roles
            role = extras.pop("role", roles[0])
            if role == "developer" and role not in roles:
                self.parts.ledger.coerce(path, f"the role {role} is sent as {roles[0]}")
                role = roles[0]
            contents = survey_contents(canister, path, self.parts.ledger)
            content = self.parts.write_texts(contents, path, canister, as_parts=as_parts)
            return {"role": role, "content": content}
        contents = survey_contents(canister, path, self.parts.ledger)
        return {"role": "user", "content": self.parts.write_content(contents, path, canister)}

    def _write_result(
        self, canister: ResultCanister, position: int, extras: Mapping[str, Any], *, as_parts: bool
    ) -> dict[str, Any]:
        parts, path = self.parts, locate(position)
        contents = survey_contents(canister, path, parts.ledger)
        content: Any
        if as_parts and parts.quirks.takes_parts:  # the client put several, or media, there
            content = parts.write_content(contents, path, canister)
        else:
            media = [each for each in contents if isinstance(each[0], MEDIA_CLASSES)]
            other_contents = [each for each in contents if not isinstance(each[0], MEDIA_CLASSES)]
            content = parts.write_texts(other_contents, path, canister)
            if media:
                for _, place in media:
                    parts.ledger.coerce(
                        place, "media of a result are sent after it, in a user message"
                    )
                user_content = parts.write_content(media, path, canister)
                self.later_messages.append(({"role": "user", "content": user_content}, position))
        if canister.is_error and not is_missing_note(canister) and "is_error" not in extras:
            reason = "this protocol cannot mark a result as an error; only its text says so"
            parts.ledger.drop(f"{path}.is_error", reason)
        if extras.get("role") == "function":
            return {"role": "function", "name": canister.name, "content": content}
        message = {"role": "tool", "tool_call_id": canister.invocation_id, "content": content}
        if parts.quirks.names_results and canister.name:
            message["name"] = canister.name
        return message


BRIDGE: Final = "(no answer)"
"""Content of a message of the model that is inserted between a result and the user's message."""

OPENING: Final = "(no question)"
"""Content of a message of the user that is inserted before the model's first message."""


def bridge(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """Put a message of the model between a result and the user's next message."""
    bridged: list[Message] = []
    for message, path in messages:
        if bridged and bridged[-1][0]["role"] == "tool" and message["role"] == "user":
            ledger.synthesize(
                path, "a model message was inserted before it: the vendor requires one"
            )
            bridged.append(({"role": "assistant", "content": BRIDGE}, path))
        bridged.append((message, path))
    return bridged


def alternate(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """Join adjacent messages of one role, and insert a message of the user if the model begins."""
    joined: list[Message] = []
    for message, path in messages:
        last = joined[-1][0] if joined else None
        if last is None or last["role"] == "system":
            if message["role"] == "assistant":
                ledger.synthesize(
                    path, "a user message was inserted before it: the vendor requires one first"
                )
                joined.append(({"role": "user", "content": OPENING}, path))
        elif last["role"] == message["role"] != "tool":  # each result answers one call
            ledger.coerce(path, f"it is joined to the preceding {message['role']} message")
            joined[-1] = (_join(last, message), joined[-1][1])
            continue
        joined.append((message, path))
    return joined


def _join(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    content: Any
    before, after = first.get("content") or "", second.get("content") or ""
    if isinstance(before, str) and isinstance(after, str):
        content = "\n\n".join(text for text in (before, after) if text)
    else:
        content = [*list_parts(before), *list_parts(after)]
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    joined = {**first, **second, "content": content}
    return {**joined, "tool_calls": calls} if calls else joined
