"""Plain canisters, which have one text and nothing else. Most canisters are plain.

Dialects write them in a fast loop without paths, as there are no losses that would need one. Their
texts are listed by :func:`vibe_llms.messages.views.list_plain_texts`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import InvocationCanister, Owner
from vibe_llms.messages.contents import Native

OURS: Final = Owner.OURS
"""The usual owner, as a constant: looking up a member of an enumeration is slow in Python."""


def is_plain_call(canister: InvocationCanister, expected_native: Native | None = None) -> bool:
    """Return whether one of our invocations has only a name and JSON arguments.

    Args:
        expected_native: Native data that are allowed, as the caller handles them.
    """
    return (
        canister.native is expected_native
        and canister.form == "json"
        and canister.owner is OURS
        and not canister.content
    )


_decode_object: Final = msgspec.json.Decoder(dict[str, JsonValue]).decode


def read_arguments(
    canister: InvocationCanister, expected_native: Native | None = None
) -> dict[str, JsonValue] | None:
    """Return the arguments of a plain call as an object; ``None`` if one of them is not.

    Args:
        expected_native: See :func:`is_plain_call`, whose conditions are repeated here: for a long
            conversation, a function less for each call is felt.
    """
    if not (
        canister.native is expected_native
        and canister.form == "json"
        and canister.owner is OURS
        and not canister.content
    ):
        return None
    arguments = canister.arguments
    if not arguments:
        return {}
    try:
        return _decode_object(arguments)
    except UNREADABLE:
        return None
