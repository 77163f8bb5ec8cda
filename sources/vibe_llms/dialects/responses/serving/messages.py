"""A client's input, a text or items, as canisters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import attrs

from vibe_llms.dialects.executions import leave_to_its_vendor
from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import ConversationReader, read_each
from vibe_llms.dialects.responses.calling.items import (
    ROLES,
    read_call,
    read_input_message,
    read_item,
    read_model_message,
    read_output,
)
from vibe_llms.dialects.responses.calling.messages import EMPTY_INPUT_NOTE, INSTRUCTIONS
from vibe_llms.dialects.responses.namespaces import QualifiedName, name_tools
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ModelCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.trusting import make_text


def normalize_messages(
    native: Mapping[str, Any], cache: ClientPrefixes | None = None
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``instructions`` and ``input``.

    Args:
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: An item is invalid.
    """
    reader = _ItemsReader()
    instructions, client_input = native.get("instructions"), native.get("input")
    if is_instruction_text(instructions):
        reader.add_supervisor((make_text(instructions),), INSTRUCTIONS)
    if isinstance(client_input, str):
        reader.add_user((make_text(client_input),), None)
    elif client_input is not None and not isinstance(client_input, (list, tuple)):
        raise RequestError(
            path="input",
            detail="Invalid input: it must be a text or a list of items.",
            remedy="Compare it with the reference of OpenAI Responses.",
        )
    elif client_input:
        reader.names = name_tools(native)
        qualified_names = [
            [qualified_name.namespace, qualified_name.name, name]
            for qualified_name, name in reader.names.items()
        ]
        reader = read_each(
            reader,
            client_input,
            kind="item",
            field="input",
            protocol="the Responses protocol",
            context=[instructions if is_instruction_text(instructions) else None, qualified_names],
            cache=cache,
        )
    else:
        # If the vendor stores the conversation, the input may be empty.
        reader.add_user((), make_native(PROTOCOL, {EMPTY_INPUT_NOTE: True}))
    return reader.finish()


def is_instruction_text(instructions: Any) -> TypeGuard[str]:
    """Return whether instructions are a text; anything else is kept unchanged."""
    return isinstance(instructions, str) and bool(instructions)


@define
class _ItemsReader(ConversationReader):
    """Reads items in order; consecutive items of a model are one turn.

    Attributes:
        names: Names in the conversation of tools in namespaces, by qualified name.
    """

    names: Mapping[QualifiedName, str] = attrs.field(factory=dict)
    _owners: dict[str, Owner] = attrs.field(factory=dict)
    _turn_id: str = ""

    def read(self, item: Mapping[str, Any], index: int) -> None:
        """Add the canisters of one item."""
        match item.get("type") or "message":
            case "message" if item.get("role") in ROLES:
                self._turn_id = ""
                contents, native = read_input_message(item)
                add = self.add_user if item["role"] == "user" else self.add_supervisor
                add(contents, native)
            case "message" if item.get("role") == "assistant" and item.get("content"):
                contents, native = read_model_message(item)
                self.add_answer(contents, self._join_turn(), native)
            case "function_call" | "custom_tool_call":
                call = read_call(item, self.names)
                self._owners[call["invocation_id"]] = Owner.OURS
                self.add_call(**call, turn_id=self._join_turn())
            case "function_call_output" | "custom_tool_call_output":
                self._turn_id = ""
                self.add_result(**read_output(item))
            case _:
                for canister in read_item(item, self._owners, self.names):
                    self._add(leave_to_its_vendor(canister, item.get("id")))

    def _add(self, canister: AnyCanister) -> None:
        if isinstance(canister, InvocationCanister):
            self._owners[canister.invocation_id] = canister.owner
        if _belongs_to_model(canister):
            canister = attrs.evolve(canister, turn_id=self._join_turn())
        else:
            self._turn_id = ""
        self.add_canister(canister)

    def _join_turn(self) -> str:
        """Return the id of the current turn of the model; begin one if necessary."""
        if not self._turn_id:
            self._turn_id = produce_identity()
        return self._turn_id


def _belongs_to_model(canister: AnyCanister) -> TypeGuard[ModelCanister]:
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))
