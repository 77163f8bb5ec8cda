"""A client's input, a text or items, as canisters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import attrs

from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.responses.calling.items import read_item
from vibe_llms.dialects.responses.calling.messages import INSTRUCTIONS
from vibe_llms.dialects.responses.namespaces import Home, name_tools
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.serving import refuse_nonsense
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ModelCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation


def normalize_messages(native: Mapping[str, Any]) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``instructions`` and ``input``.

    Raises:
        RequestError: An item is invalid.
    """
    canisters: list[AnyCanister] = []
    instructions, given = native.get("instructions"), native.get("input")
    if is_told(instructions):
        canisters.append(SupervisorCanister(instructions, native=INSTRUCTIONS))
    if isinstance(given, str):
        canisters.append(UserCanister(given))
    elif given is not None and not isinstance(given, (list, tuple)):
        raise RequestError(
            path="input",
            detail="The input makes no sense: it is neither a text nor a list of items.",
            remedy="Compare it with the reference of OpenAI Responses.",
        )
    elif given:
        canisters += read_items(given, "input", name_tools(native))
    else:
        # If the vendor stores the conversation, the input may be empty.
        canisters.append(UserCanister((), native=make_native(PROTOCOL, {"$nothing": True})))
    return Translation(tuple(canisters))


def is_told(instructions: Any) -> TypeGuard[str]:
    """Return whether instructions are a text; anything else is kept unchanged."""
    return isinstance(instructions, str) and bool(instructions)


def read_items(
    items: Iterable[Any], place: str, names: Mapping[Home, str] | None = None
) -> list[AnyCanister]:
    """Return the canisters of items; consecutive ones of a model are one turn.

    Args:
        names: Names here of tools in namespaces.

    Raises:
        RequestError: An item is invalid.
    """
    canisters: list[AnyCanister] = []
    owners: dict[str, Owner] = {}
    turn_id: str | None = None
    for index, item in enumerate(items):
        path = f"{place}[{index}]"
        with refuse_nonsense(f"The item at {path}", "the Responses protocol", path):
            read = read_item(item, owners, names or {})
        for canister in read:
            if isinstance(canister, InvocationCanister):
                owners[canister.invocation_id] = canister.owner
            if _is_models(canister):
                turn_id = turn_id or produce_identity()
                canisters.append(attrs.evolve(canister, turn_id=turn_id))
            else:
                turn_id = None
                canisters.append(canister)
    return canisters


def _is_models(canister: AnyCanister) -> TypeGuard[ModelCanister]:
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))
