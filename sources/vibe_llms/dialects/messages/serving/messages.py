"""A client's messages as canisters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from vibe_llms.dialects.extras import keep_native, leave
from vibe_llms.dialects.messages.calling.content_blocks import leave_invocation, normalize_block
from vibe_llms.dialects.messages.calling.executions import (
    is_invocation,
    is_result,
    normalize_invocation,
    normalize_result,
    write_arguments,
)
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.serving import refuse_nonsense
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, Native
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation


def normalize_messages(native: Mapping[str, Any]) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``system`` and ``messages``.

    Raises:
        RequestError: A message is invalid.
    """
    reader = _MessagesReader()
    canisters: list[AnyCanister] = []
    if system := native.get("system"):
        canisters += reader.read({"role": "system", "content": system}, "system")
    for index, message in enumerate(native.get("messages") or ()):
        previous = canisters[-1] if canisters else None
        canisters += reader.read(message, f"messages[{index}]", previous)
    return Translation(tuple(canisters))


@define
class _MessagesReader:
    _names: dict[str, str] = attrs.field(factory=dict)

    def read(
        self, message: Any, path: str, previous: AnyCanister | None = None
    ) -> list[AnyCanister]:
        """Return the canisters of one message. Raises RequestError."""
        with refuse_nonsense(f"The message at {path}", "Anthropic Messages", path):
            return list(self._read(message, path, previous))

    def _read(
        self, message: Mapping[str, Any], path: str, previous: AnyCanister | None
    ) -> Iterator[AnyCanister]:
        extras = leave(message, ("role", "content"))
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        match message["role"]:
            case "system":
                if path != "system":  # otherwise it might be returned as the request's own
                    extras["role"] = "system"
                contents = tuple(map(normalize_block, blocks))
                yield SupervisorCanister(contents, native=keep_native(PROTOCOL, extras))
            case "user":
                if isinstance(previous, ResultCanister) and previous.owner is Owner.OURS:
                    extras["role"] = "user"  # otherwise both would be returned as one message
                yield from self._read_user(blocks, extras)
            case "assistant":
                yield from self._read_turn(blocks, extras)
            case role:
                raise RequestError(path=path, detail=f"There is no role {role!r}.")

    def _read_user(self, blocks: Any, extras: dict[str, Any]) -> Iterator[AnyCanister]:
        said: list[AnyContent] = []
        native = extras
        for block in blocks:
            if block["type"] != "tool_result":
                said.append(normalize_block(block))
                continue
            if said:
                yield UserCanister(said, native=keep_native(PROTOCOL, native))
                said, native = [], {}
            yield self._read_result(block, native)
            native = {}
        if said or not blocks:
            yield UserCanister(said, native=keep_native(PROTOCOL, native))

    def _read_result(self, block: Mapping[str, Any], wrapper: dict[str, Any]) -> ResultCanister:
        content = block.get("content") or ()
        if isinstance(content, str):
            content = ({"type": "text", "text": content},)
        extras = leave(block, ("type", "tool_use_id", "content", "is_error"))
        extras |= {"message": wrapper} if wrapper else {}
        return ResultCanister(
            tuple(map(normalize_block, content)),
            invocation_id=block["tool_use_id"],
            name=self._names.get(block["tool_use_id"]),
            is_error=block.get("is_error") is True,
            native=keep_native(PROTOCOL, extras),
        )

    def _read_turn(self, blocks: Any, extras: dict[str, Any]) -> Iterator[AnyCanister]:
        turn_id = produce_identity()
        said: list[AnyContent] = []
        native: Native | None = keep_native(PROTOCOL, extras)
        for block in blocks:
            canister = self._read_call(block, turn_id)
            if canister is None:
                said.append(normalize_block(block))
                continue
            if said or native is not None:
                yield AssistantCanister(said, turn_id=turn_id, native=native)
                said, native = [], None
            yield canister
        if said or native is not None or not blocks:
            yield AssistantCanister(said, turn_id=turn_id, native=native)

    def _read_call(
        self, block: Mapping[str, Any], turn_id: str
    ) -> InvocationCanister | ResultCanister | None:
        """Return the call in a block of the model's message, or the result of such a call."""
        if block["type"] == "tool_use":
            self._names[block["id"]] = block["name"]
            return InvocationCanister(
                invocation_id=block["id"],
                name=block["name"],
                arguments=write_arguments(block.get("input")),
                native=keep_native(PROTOCOL, leave_invocation(block)),
                turn_id=turn_id,
            )
        if is_invocation(block):
            self._names[block["id"]] = block["name"]
            return attrs.evolve(normalize_invocation(block), turn_id=turn_id)
        if is_result(block):
            return attrs.evolve(normalize_result(block, self._names), turn_id=turn_id)
        return None
