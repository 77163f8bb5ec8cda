"""Plain canisters: those of one text and nothing else, which most are.

Dialects write them in one loop, without paths of losses: plain canisters have none.
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

    ``None`` for all others: the text has citations, a type or native data, or there are several.
    The caller reads the fields of the canister, after it has seen its class: where canisters of
    several classes pass one line, Python reads their attributes five times as slowly.
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
"""The usual owner; Python looks up a member of an enumeration slowly."""


def is_plain_call(canister: InvocationCanister, known: Native | None = None) -> bool:
    """Return whether one of our invocations has only a name and JSON arguments.

    Args:
        known: Native data that the caller has read.
    """
    return (
        canister.native is known
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
