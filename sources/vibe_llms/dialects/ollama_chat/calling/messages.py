"""Canisters as the messages of a request.

A message of this dialect is one text, with images and invocations beside it, without positions in
the text. Other conversations are converted, and each change is a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from vibe_llms.dialects.cache_hints import omit_hints
from vibe_llms.dialects.extras import NAMELESS, merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import (
    HistoryEntry,
    HistoryRules,
    RepairedHistory,
    belongs,
    is_missing_note,
    locate,
    repair_history,
)
from vibe_llms.dialects.instructions import arrange_instructions, needs_arrangement
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.ollama_chat.calling.parts import MessageFields, PartsWriter
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.plain import OURS, read_arguments
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
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
        provider: The request's provider; extras of others are withheld.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    canisters = omit_hints(canisters, ledger)
    writer = MessagesWriter(PartsWriter(attributes, ledger), ledger)
    writer.write(repair_history(canisters, HistoryRules(), ledger))
    messages = writer.messages
    if needs_arrangement(messages, attributes):
        located = zip(messages, map(locate, writer.positions), strict=True)
        settled = arrange_instructions(list(located), attributes, ledger)
        messages = [message for message, _ in settled]
    return Translation({"messages": messages}, ledger.losses)


@define
class MessagesWriter:
    """Writes a repaired conversation, message by message."""

    parts: PartsWriter
    ledger: Ledger
    messages: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    positions: list[int] = attrs.field(factory=list, init=False)
    _names: dict[str, str] = attrs.field(factory=dict, init=False)
    """Names of called tools, by the id of the invocation."""
    _without_ids: set[str] = attrs.field(factory=set, init=False)
    """Ids of invocations that are sent without an id."""

    def write(self, history: RepairedHistory) -> None:
        """Write the messages of a conversation, each with the position of its canister."""
        messages, positions = self.messages, self.positions
        turn: list[tuple[AnyCanister, int, str | None]] = []
        canister: Any
        for canister, position, text, following in history.walk():
            kind = type(canister)
            if turn and (kind is UserCanister or not belongs(turn[-1][0], canister)):
                self._end_turn(turn)
            message: dict[str, Any] | None = None
            if kind is UserCanister:
                if text is not None:
                    message = {"role": "user", "content": text}
            elif kind is AssistantCanister or kind is InvocationCanister:
                if not turn:
                    if text and type(following) is UserCanister:  # most answers are one text
                        message = {"role": "assistant", "content": text}
                    elif type(following) is ResultCanister and following.owner is OURS:
                        message = self._write_plain_turn(((canister, position, text),))
                if message is None:
                    turn.append((canister, position, text))
                    continue
            elif kind is ResultCanister:
                if canister.owner is not OURS:
                    turn.append((canister, position, text))
                    continue
                message = self._write_plain_result(canister, text)
                message = message or self._write_result(canister, locate(position))
            messages.append(message or self._write_input(canister, locate(position)))
            positions.append(position)
        if turn:
            self._end_turn(turn)

    def _end_turn(self, turn: list[tuple[AnyCanister, int, str | None]]) -> None:
        message = self._write_plain_turn(turn)
        messages = (
            self.write_turn(
                [HistoryEntry(canister, locate(position)) for canister, position, _ in turn]
            )
            if message is None
            else (message,)
        )
        self.messages += messages
        self.positions += [turn[0][1]] * len(messages)
        turn.clear()

    def _write_plain_turn(
        self, turn: Sequence[tuple[AnyCanister, int, str | None]]
    ) -> dict[str, Any] | None:
        """Return the message of a plain turn: a text, calls, or both; ``None`` for any other."""
        text: str | None = None
        calls: list[JsonObject] = []
        for canister, _, plain in turn:
            if type(canister) is InvocationCanister:
                arguments = read_arguments(canister)
                if arguments is None:
                    return None
                function: JsonObject = {"name": canister.name, "arguments": arguments}
                calls.append({"id": canister.invocation_id, "function": function})
                self._names[canister.invocation_id] = canister.name
            elif calls or text is not None or type(canister) is not AssistantCanister or not plain:
                return None
            else:
                text = plain
        message = {"role": "assistant", "content": text or ""}
        return {**message, "tool_calls": calls} if calls else message

    def _write_plain_result(
        self, canister: ResultCanister, text: str | None
    ) -> dict[str, Any] | None:
        """Return the message of a result of one plain text; ``None`` for any other."""
        if text is None or canister.is_error or canister.invocation_id in self._without_ids:
            return None
        message = {"role": "tool", "content": text}
        name = canister.name or self._names.get(canister.invocation_id)
        if name:
            message["tool_name"] = name
        message["tool_call_id"] = canister.invocation_id
        return message

    def write_turn(self, turn: Sequence[HistoryEntry]) -> list[dict[str, Any]]:
        """Return the single message of a turn, or ``None`` if no part of the turn can be sent."""
        fields = MessageFields()
        calls: list[JsonObject] = []
        extras: dict[str, Any] = {}
        sent_count = 0
        for canister, path in ((entry.canister, entry.path) for entry in turn):
            if getattr(canister, "owner", None) is Owner.VENDOR:
                self.ledger.withhold(path, "only the vendor that executed it can receive it")
                continue
            sent_count += 1
            if isinstance(canister, InvocationCanister):
                calls.append(self._write_call(canister, path, extras))
                continue
            if calls and canister.content:
                self.ledger.coerce(
                    path, "content after an invocation of the same turn is moved before it"
                )
            contents = survey_contents(canister, path, self.ledger)
            self.parts.add(fields, contents, path, is_models=True)
            extras |= self.ledger.read_sendable(canister.native, path, canister)
        if not sent_count:
            return []
        message: dict[str, Any] = {"role": "assistant", **fields.compose()}
        if calls:
            message["tool_calls"] = calls
        return [merge(message, extras)]

    def _write_call(
        self, canister: InvocationCanister, path: str, extras: dict[str, Any]
    ) -> JsonObject:
        """Write one invocation; native data about the whole message are added to the extras."""
        self.ledger.omit(
            canister, path, "content", reason="an invocation can contain only its arguments"
        )
        function = {"name": canister.name, "arguments": self._write_arguments(canister, path)}
        call: dict[str, Any] = {"id": canister.invocation_id, "function": function}
        call_extras = self.ledger.read_sendable(canister.native, path, canister)
        if call_extras.keys() & NAMELESS.keys():
            del call["id"]
            self._without_ids.add(canister.invocation_id)
        with reading_natives(canister, path):
            extras |= call_extras.pop("message", {})
            call = merge(call, call_extras)
        self._names[canister.invocation_id] = canister.name
        return call

    def _write_arguments(self, canister: InvocationCanister, path: str) -> Any:
        """Return the arguments as an object, which this dialect requires."""
        if canister.form == "text":
            self.ledger.coerce(f"{path}.arguments", "free text is sent as the field 'input'")
            return {"input": canister.arguments}
        if canister.fault is None:
            return canister.parse_arguments()
        reason = f"they are sent as the field 'arguments' of an object: {canister.fault}"
        self.ledger.coerce(f"{path}.arguments", reason)
        return {"arguments": canister.arguments}

    def _write_result(self, canister: ResultCanister, path: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "tool"}
        fields = MessageFields()
        contents = survey_contents(canister, path, self.ledger)
        self.parts.add(fields, contents, path, canister=canister)
        message |= fields.compose()
        name = canister.name or self._names.get(canister.invocation_id)
        if name:
            message["tool_name"] = name
        # The result of a call that is sent without an id has none, either.
        if canister.invocation_id not in self._without_ids:
            message["tool_call_id"] = canister.invocation_id
        if canister.is_error and not is_missing_note(canister):
            self.ledger.drop(
                f"{path}.is_error",
                "this protocol cannot mark a result as an error; only its text says so",
            )
        return merge(message, self.ledger.read_sendable(canister.native, path, canister))

    def _write_input(
        self, canister: UserCanister | SupervisorCanister | DocumentCanister, path: str
    ) -> dict[str, Any]:
        role = "system" if isinstance(canister, SupervisorCanister) else "user"
        fields = MessageFields()
        contents = survey_contents(canister, path, self.ledger)
        self.parts.add(fields, contents, path, canister=canister)
        message: dict[str, Any] = {"role": role, **fields.compose()}
        return merge(message, self.ledger.read_sendable(canister.native, path, canister))
