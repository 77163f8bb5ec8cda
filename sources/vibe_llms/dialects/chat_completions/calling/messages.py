"""Canisters as the messages of a request.

This dialect has no order of text and invocations within a turn, and only text in results. Other
conversations are converted, and each change is a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.dialects.cache_hints import lower_hints
from vibe_llms.dialects.chat_completions.calling.caching import choose_marks
from vibe_llms.dialects.chat_completions.calling.parts import PartsWriter
from vibe_llms.dialects.chat_completions.calling.turns import (
    TurnWriter,
    write_plain_turn,
)
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import (
    HistoryEntry,
    RepairedHistory,
    belongs,
    is_missing_note,
    locate,
    repair_history,
)
from vibe_llms.dialects.instructions import (
    Message,
    accepts_late_instructions,
    arrange_instructions,
    list_parts,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.plain import OURS
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
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
    writer = _MessagesWriter(PartsWriter(attributes, quirks, ledger))
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


_InputCanister: TypeAlias = UserCanister | SupervisorCanister | DocumentCanister | ResultCanister
_ModelCanister: TypeAlias = AssistantCanister | InvocationCanister
_PositionedCanister: TypeAlias = tuple[_ModelCanister, int, str | None]
"""A canister, its position, and its text if it is plain."""


@define
class _MessagesWriter:
    """Writes messages, each with the position of its canister."""

    parts: PartsWriter
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    positions: list[int] = attrs.field(factory=list)
    _result_media: list[tuple[dict[str, Any], int]] = attrs.field(factory=list)
    """Messages with media of results: they follow the last result of a turn."""

    def write(self, history: RepairedHistory) -> None:
        """Write a whole conversation; turns are collected until they end."""
        quirks, turn = self.parts.quirks, list[_PositionedCanister]()
        messages, positions = self.messages, self.positions
        canister: Any
        for canister, position, text, following in history.walk():
            kind = type(canister)
            message: dict[str, Any] | None = None
            if kind is UserCanister:
                if text is not None:
                    message = {"role": "user", "content": text}
            elif kind is AssistantCanister or kind is InvocationCanister:
                if not turn:
                    if text and type(following) is UserCanister:  # most answers are one text
                        message = {"role": "assistant", "content": text}
                    elif type(following) is ResultCanister and following.owner is OURS:
                        message = write_plain_turn(((canister, text),), quirks)
                if message is None:
                    self._collect(canister, position, text, turn)
                    continue
            elif kind is ResultCanister:
                if canister.owner is not OURS:
                    self._withhold(position)
                    continue
                if text is not None and not canister.is_error:
                    identity = canister.invocation_id
                    message = {"role": "tool", "tool_call_id": identity, "content": text}
                    if quirks.names_results and canister.name:
                        message["name"] = canister.name
            if turn:
                self._end_turn(turn)
            if message is None:
                self._write_input(canister, position)
                continue
            if self._result_media and kind is not ResultCanister:
                self._write_result_media()
            messages.append(message)
            positions.append(position)
        if turn:
            self._end_turn(turn)
        self._write_result_media()

    def _collect(
        self,
        canister: _ModelCanister,
        position: int,
        text: str | None,
        turn: list[_PositionedCanister],
    ) -> None:
        """Add a canister to the turn that it belongs to."""
        if type(canister) is InvocationCanister and canister.owner is not OURS:
            self._withhold(position)
            return
        if turn and not belongs(turn[-1][0], canister):
            self._end_turn(turn)
        turn.append((canister, position, text))

    def _withhold(self, position: int) -> None:
        reason = "only the vendor that executed it can receive it"
        self.parts.ledger.withhold(locate(position), reason)

    def _end_turn(self, turn: list[_PositionedCanister]) -> None:
        if self._result_media:
            self._write_result_media()
        position = turn[0][1]
        message = write_plain_turn([(each, text) for each, _, text in turn], self.parts.quirks)
        if message is None:
            entries = [HistoryEntry(each, locate(index)) for each, index, _ in turn]
            message = TurnWriter(self.parts).write(entries)
            if self._became_empty(message, entries):
                reason = "the vendor rejects a message without content"
                self.parts.ledger.drop(locate(position), reason)
                turn.clear()
                return
        self.messages.append(message)
        self.positions.append(position)
        turn.clear()

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

    def _write_result_media(self) -> None:
        """Write the media of results, once all results of a turn are written."""
        self.messages += [message for message, _ in self._result_media]
        self.positions += [position for _, position in self._result_media]
        self._result_media = []

    def _write_input(
        self,
        canister: _InputCanister,
        position: int,
    ) -> None:
        ledger, path = self.parts.ledger, locate(position)
        extras = ledger.read_sendable(canister.native, path, canister)
        as_parts = bool(extras.pop("$parts", False))
        if isinstance(canister, ResultCanister):
            message = self._write_result(canister, position, extras, as_parts=as_parts)
        else:
            self._write_result_media()
            message = self._write_text_message(canister, path, extras, as_parts=as_parts)
        self.messages.append(merge(message, extras))
        self.positions.append(position)

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
                self._result_media.append(({"role": "user", "content": user_content}, position))
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
