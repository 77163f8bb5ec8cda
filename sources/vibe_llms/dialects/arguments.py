"""The arguments of an invocation where a protocol has a text for them."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.canisters import InvocationCanister

_NOTHING: Final = ("", "null", '""')


def write_arguments(canister: InvocationCanister, protocol: str) -> str:
    """Returns the text of the arguments: the one that the model wrote.

    Nothing, as another protocol has said it, goes as an object without fields: not every vendor
    reads its own way of saying nothing in what another one said.
    """
    origin = canister.origin
    is_foreign = origin is not None and origin.protocol != protocol
    if canister.form == "json" and is_foreign and canister.arguments in _NOTHING:
        return "{}"
    return canister.arguments
