"""Canisters as the messages of a request.

A message of this dialect is one text, with images and invocations beside it, without positions in
the text. Other conversations are converted, and each change is a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from vibe_llms.dialects.extras import NAMELESS, merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import (
    HistoryEntry,
    HistoryRules,
    belongs,
    repair_history,
    states_failure,
)
from vibe_llms.dialects.instructions import Message, settle_instructions
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.ollama_chat.calling.parts import MessageFields, PartsWriter
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
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
    writer = MessagesWriter(PartsWriter(attributes, ledger), ledger)
    written = writer.write(repair_history(canisters, HistoryRules(), ledger))
    messages = [message for message, _ in settle_instructions(written, attributes, ledger)]
    return Translation({"messages": messages}, ledger.losses)


@define
class MessagesWriter:
    """Writes a repaired conversation, message by message."""

    parts: PartsWriter
    ledger: Ledger
    _names: dict[str, str] = attrs.field(factory=dict, init=False)
    _nameless: set[str] = attrs.field(factory=set, init=False)

    def write(self, conversation: Sequence[HistoryEntry]) -> list[Message]:
        """Return the messages of a conversation, each with the path of its canister."""
        messages: list[Message] = []
        turn: list[HistoryEntry] = []
        for entry in conversation:
            if turn and not belongs(turn[-1].canister, entry.canister):
                messages += self._end_turn(turn)
                turn = []
            match entry.canister:
                case AssistantCanister() | InvocationCanister():
                    turn.append(entry)
                case ResultCanister() if entry.canister.owner is Owner.VENDOR:
                    turn.append(entry)
                case ResultCanister():
                    result = self._write_result(entry.canister, entry.path)
                    messages.append((result, entry.path))
                case _:
                    told = self._write_input(entry.canister, entry.path)
                    messages.append((told, entry.path))
        return messages + self._end_turn(turn)

    def _end_turn(self, turn: Sequence[HistoryEntry]) -> list[Message]:
        return [(message, turn[0].path) for message in self.write_turn(turn)]

    def write_turn(self, turn: Sequence[HistoryEntry]) -> list[dict[str, Any]]:
        """Return the single message of a turn; none if nothing of it can be sent."""
        gathered = MessageFields()
        calls: list[JsonObject] = []
        extras: dict[str, Any] = {}
        shown = 0
        for canister, path in ((entry.canister, entry.path) for entry in turn):
            if getattr(canister, "owner", None) is Owner.VENDOR:
                self.ledger.withhold(path, "only the vendor that executed it can receive it")
                continue
            shown += 1
            if isinstance(canister, InvocationCanister):
                calls.append(self._write_call(canister, path, extras))
                continue
            if calls and canister.content:
                self.ledger.coerce(
                    path, "content after an invocation of the same turn is moved before it"
                )
            contents = survey_contents(canister, path, self.ledger)
            self.parts.add(gathered, contents, path, is_spoken=True)
            extras |= self.ledger.open(canister.native, path, canister)
        if not shown:
            return []
        message: dict[str, Any] = {"role": "assistant", **gathered.compose()}
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
        kept = self.ledger.open(canister.native, path, canister)
        if kept.keys() & NAMELESS.keys():
            del call["id"]
            self._nameless.add(canister.invocation_id)
        with reading_natives(canister, path):
            extras |= kept.pop("message", {})
            call = merge(call, kept)
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
        gathered = MessageFields()
        contents = survey_contents(canister, path, self.ledger)
        self.parts.add(gathered, contents, path, canister=canister)
        message |= gathered.compose()
        name = canister.name or self._names.get(canister.invocation_id)
        if name:
            message["tool_name"] = name
        if canister.invocation_id not in self._nameless:  # otherwise like its call: without one
            message["tool_call_id"] = canister.invocation_id
        if canister.is_error and not states_failure(canister):
            self.ledger.drop(
                f"{path}.is_error",
                "this protocol cannot mark a result as an error; only its text says so",
            )
        return merge(message, self.ledger.open(canister.native, path, canister))

    def _write_input(
        self, canister: UserCanister | SupervisorCanister | DocumentCanister, path: str
    ) -> dict[str, Any]:
        role = "system" if isinstance(canister, SupervisorCanister) else "user"
        gathered = MessageFields()
        contents = survey_contents(canister, path, self.ledger)
        self.parts.add(gathered, contents, path, canister=canister)
        message: dict[str, Any] = {"role": role, **gathered.compose()}
        return merge(message, self.ledger.open(canister.native, path, canister))
