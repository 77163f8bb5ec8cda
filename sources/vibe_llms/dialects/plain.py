"""Plain canisters, which have one text and nothing else. Most canisters are plain.

Dialects write them in a fast loop without paths, as there are no losses that would need one.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Owner
from vibe_llms.messages.contents import AnyContent, Native, TextualContent


def read_plain(contents: Sequence[AnyContent], native: Native | None) -> str | None:
    """Return the text of a canister without native data whose only content is a plain text.

    ``None`` for any other canister: its text has citations, a type or native data, or it has
    several contents. The caller must read the fields of the canister after checking its class: a
    line that reads attributes of several classes is five times as slow in Python.
    """
    if native is not None or len(contents) != 1:
        return None
    content = contents[0]
    if (
        type(content) is TextualContent
        and content.native is None
        and content.mime_type == "text/plain"
        and not content.citations
    ):
        return content.text
    return None


_access_content: Final = operator.attrgetter("content")


def list_content_classes(canisters: Iterable[AnyCanister]) -> set[type]:
    """Return the classes of all contents of a conversation."""
    return {*map(type, itertools.chain.from_iterable(map(_access_content, canisters)))}


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


def read_arguments(canister: InvocationCanister) -> dict[str, JsonValue] | None:
    """Return the arguments of a plain call as an object; ``None`` if they are something else."""
    if not canister.arguments:
        return {}
    try:
        value = msgspec.json.decode(canister.arguments)
    except UNREADABLE:
        return None
    return value if value.__class__ is dict else None
