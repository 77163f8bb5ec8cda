"""A client's whole request, or a recorded one, in our words: what a gateway reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

import attrs

from vibe_llms.dialects.residues import leave, seal_native
from vibe_llms.dialects.responses.calling.invocations import nativize_invocables
from vibe_llms.dialects.responses.calling.items import read_item
from vibe_llms.dialects.responses.calling.messages import INSTRUCTIONS
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.serving.controls import split_controls
from vibe_llms.dialects.responses.serving.invocations import normalize_invocables, normalize_schema
from vibe_llms.dialects.serving import refuse_nonsense
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
from vibe_llms.messages.requests import Request, is_answerable
from vibe_llms.models.attributes import ModelAttributes

_READ: Final = ("input", "model", "stream", "tools")
"""Fields that others read; the stream is a matter of how the answer is asked for."""


def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns a client's request in our words; what has none stays beside it.

    ``previous_response_id`` and ``conversation`` stay as well: the vendor then puts items of its
    own before those that are here.

    Args:
        attributes: Of the model, whose controls decide which parameters become controls;
            ``None`` takes all for controls that can be.

    Raises:
        RequestError: The request makes no sense.
    """
    with refuse_nonsense("The request", "the Responses protocol"):
        return _normalize_request(native, attributes)


def _normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None
) -> Translation[Request]:
    canisters = normalize_messages(native)
    invocables = normalize_invocables(native)
    schema = normalize_schema(native)
    controls, rest = split_controls(native, attributes)
    described, choice = invocables.value
    name = str(native.get("model") or "")
    model = str(attrs.evolve(attributes.address, name=name)) if attributes and name else name
    request = Request(
        canisters=canisters.value,
        model=model,
        controls=controls,
        invocables=described,
        invocation_choice=choice,
        schema=schema.value,
        continuation=not is_answerable(canisters.value[-1]),
        native=seal_native(PROTOCOL, _collect_residue(native, rest, choice, invocables.value)),
    )
    losses = (*canisters.losses, *invocables.losses, *schema.losses)
    return Translation(request, losses)


def _collect_residue(
    native: Mapping[str, Any], rest: dict[str, Any], choice: str, invocables: Any
) -> dict[str, Any]:
    if nativize_invocables(*invocables).value.get("tool_choice") == rest.get("tool_choice"):
        rest.pop("tool_choice", None)
    text = rest.get("text")
    if isinstance(text, dict) and isinstance(text.get("format"), Mapping):
        text["format"] = _collect_format(text["format"])
    if _is_told(rest.get("instructions")):
        del rest["instructions"]
    # What a client has not said is for the vendor to decide, and not for our defaults.
    residue = {"store": None, "include": None, **leave(rest, *_READ)}
    return residue | ({"$choice": choice} if "tool_choice" in residue else {})


def _collect_format(wanted: Mapping[str, Any]) -> dict[str, Any]:
    if wanted.get("type") != "json_schema" or not isinstance(wanted.get("schema"), Mapping):
        return dict(wanted)
    return {"strict": None, **leave(wanted, "type", "schema")}


def normalize_messages(native: Mapping[str, Any]) -> Translation[tuple[AnyCanister, ...]]:
    """Returns the canisters of a request's ``instructions`` and ``input``.

    Raises:
        RequestError: An item makes no sense.
    """
    canisters: list[AnyCanister] = []
    instructions, given = native.get("instructions"), native.get("input")
    if _is_told(instructions):
        canisters.append(SupervisorCanister(instructions, native=INSTRUCTIONS))
    if isinstance(given, str):
        canisters.append(UserCanister(given))
    elif given:
        canisters += read_items(given, "input")
    else:
        # A vendor that holds the conversation can be asked without a word more.
        canisters.append(UserCanister((), native=seal_native(PROTOCOL, {"$nothing": True})))
    return Translation(tuple(canisters))


def _is_told(instructions: Any) -> TypeGuard[str]:
    """Tells whether instructions are words; anything else stays as it is."""
    return isinstance(instructions, str) and bool(instructions)


def read_items(items: Iterable[Any], place: str) -> list[AnyCanister]:
    """Returns the canisters of items; what a model did without a break is one turn.

    Raises:
        RequestError: An item makes no sense.
    """
    canisters: list[AnyCanister] = []
    owners: dict[str, Owner] = {}
    turn_id: str | None = None
    for index, item in enumerate(items):
        path = f"{place}[{index}]"
        with refuse_nonsense(f"The item at {path}", "the Responses protocol", path):
            read = read_item(item, owners)
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
    return isinstance(canister, AssistantCanister | InvocationCanister)
