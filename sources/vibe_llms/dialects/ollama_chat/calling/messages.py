"""Canisters as the messages of a request.

A message of this dialect is one text, with images and invocations beside it, without positions in
the text. Other conversations are converted, and each change is a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import attrs

from vibe_llms.dialects.cache_hints import omit_hints
from vibe_llms.dialects.extras import NAMELESS, merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import (
    HistoryEntry,
    HistoryRules,
    is_missing_note,
    locate,
    repair_history,
)
from vibe_llms.dialects.instructions import arrange_instructions, needs_arrangement
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.ollama_chat.calling.parts import MessageFields, PartsWriter
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.plain import read_arguments
from vibe_llms.dialects.turn_messages import InputCanister, TurnMessagesWriter
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
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
    writer = MessagesWriter.of(PartsWriter(attributes, ledger))
    writer.write(repair_history(canisters, HistoryRules(), ledger))
    messages = writer.messages
    if needs_arrangement(messages, attributes):
        located = zip(messages, map(locate, writer.positions), strict=True)
        settled = arrange_instructions(list(located), attributes, ledger)
        messages = [message for message, _ in settled]
    return Translation({"messages": messages}, ledger.losses)


@define
class MessagesWriter(TurnMessagesWriter):
    """Writes messages; results have the names of their tools."""

    parts: PartsWriter
    _names: dict[str, str] = attrs.field(factory=dict, init=False)
    """Names of called tools, by the id of the invocation."""
    _without_ids: set[str] = attrs.field(factory=set, init=False)
    """Ids of invocations that are sent without an id."""

    @classmethod
    def of(cls, parts: PartsWriter) -> Self:
        """Make a writer."""
        return cls(parts.ledger, "", parts)

    def _write_plain_call(self, canister: InvocationCanister) -> dict[str, Any] | None:
        arguments = read_arguments(canister)
        if arguments is None:
            return None
        identity, name = canister.invocation_id, canister.name
        self._names[identity] = name
        return {"id": identity, "function": {"name": name, "arguments": arguments}}

    def _write_plain_result(self, canister: ResultCanister, text: str) -> dict[str, Any] | None:
        identity = canister.invocation_id
        if identity in self._without_ids:
            return None
        message = {"role": "tool", "content": text}
        name = canister.name or self._names.get(identity)
        if name:
            message["tool_name"] = name
        message["tool_call_id"] = identity
        return message

    def write_turn(self, turn: Sequence[HistoryEntry]) -> dict[str, Any] | None:
        """Return the message of a turn; ``None`` if no part of it can be sent."""
        fields = MessageFields()
        calls: list[JsonObject] = []
        extras: dict[str, Any] = {}
        sent_count = 0
        for canister, path in ((entry.canister, entry.path) for entry in turn):
            if getattr(canister, "owner", None) is Owner.VENDOR:
                self.ledger.withhold_execution(path)
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
            return None
        message: dict[str, Any] = {"role": "assistant", **fields.compose()}
        if calls:
            message["tool_calls"] = calls
        return merge(message, extras)

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

    def _write_input(self, canister: InputCanister, position: int) -> dict[str, Any]:
        path = locate(position)
        if isinstance(canister, ResultCanister):
            return self._write_result(canister, path)
        role = "system" if isinstance(canister, SupervisorCanister) else "user"
        fields = MessageFields()
        contents = survey_contents(canister, path, self.ledger)
        self.parts.add(fields, contents, path, canister=canister)
        message: dict[str, Any] = {"role": role, **fields.compose()}
        return merge(message, self.ledger.read_sendable(canister.native, path, canister))
