"""Plain canisters, which have one text and nothing else. Most canisters are plain.

Dialects write them in a fast loop without paths, as there are no losses that would need one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
)
from vibe_llms.messages.contents import Native, TextualContent


def list_plain_texts(
    canisters: Iterable[AnyCanister], *, allows_native: bool = False
) -> list[str | None]:
    """Return, for each canister without native data, its text if that is its only content.

    ``None`` for any other canister: its text has citations, a type or native data, or it has
    several contents.

    Args:
        allows_native: Whether answers may have native data, as the caller handles them.
    """
    texts: list[str | None] = []
    append = texts.append
    for canister in canisters:
        contents, text = canister.content, None
        if len(contents) == 1 and (
            canister.native is None or (allows_native and type(canister) is AssistantCanister)
        ):
            content = contents[0]
            if (
                type(content) is TextualContent
                and content.native is None
                and content.mime_type == "text/plain"
                and not content.citations
            ):
                text = content.text
        append(text)
    return texts


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


_decode: Final = msgspec.json.Decoder().decode


def read_arguments(canister: InvocationCanister) -> dict[str, JsonValue] | None:
    """Return the arguments of a plain call as an object; ``None`` if they are something else."""
    if not canister.arguments:
        return {}
    try:
        value = _decode(canister.arguments)
    except UNREADABLE:
        return None
    return value if value.__class__ is dict else None
