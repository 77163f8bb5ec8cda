"""Contents of an item, one by one, and their first events in a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from vibe_llms.dialects.responses.calling.items import read_item, read_model_message
from vibe_llms.events.stream import Channel, ContentStartedEvent
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import (
    CacheHint,
    ModelContent,
    Native,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)

Piece: TypeAlias = ModelContent | InvocationCanister | ResultCanister


def read_pieces(
    item: Mapping[str, Any], owners: Mapping[str, Owner]
) -> tuple[list[Piece], Native | None]:
    """Return the contents of an item, and the native data of the message that it is part of.

    Args:
        owners: Executors of earlier calls, by their ids.
    """
    if item.get("type") == "message" and item.get("role") == "assistant":
        # Fast path for nearly every item of an answer: makes no canister.
        contents, native = read_model_message(item)
        if contents:
            return [*contents], native
    return _split_canisters(read_item(item, owners))


def _split_canisters(canisters: Sequence[AnyCanister]) -> tuple[list[Piece], Native | None]:
    """Return the contents of an item's canisters, and the native data of their message."""
    pieces: list[Piece] = []
    native = None
    for canister in canisters:
        if isinstance(canister, (InvocationCanister, ResultCanister)):
            pieces.append(canister)
        else:
            pieces += [each for each in canister.content if not isinstance(each, CacheHint)]
            native = canister.native
    return pieces, native


def produce_start(
    piece: Piece, index: int, group: int, message_native: Native | None = None
) -> ContentStartedEvent:
    """Return the event with which a content begins.

    Args:
        message_native: Native data of the message that it is part of.
    """
    if isinstance(piece, (InvocationCanister, ResultCanister)):
        return ContentStartedEvent(
            index=index,
            kind="invocation" if isinstance(piece, InvocationCanister) else "result",
            group=group,
            invocation_id=piece.invocation_id or None,
            name=piece.name,
            form=piece.form if isinstance(piece, InvocationCanister) else "json",
            owner=piece.owner,
            native=piece.native,
        )
    return ContentStartedEvent(
        index=index, kind=piece.type, group=group, native=piece.native, group_native=message_native
    )


def list_channels(piece: Piece) -> list[tuple[Channel, str]]:
    """Return the texts of a content that are streamed, by channel, without empty ones."""
    match piece:
        case TextualContent() | RefusalContent():
            texts: list[tuple[Channel, str]] = [("text", piece.text)]
        case ReasoningContent():
            texts = [("summary", "\n\n".join(piece.summary)), ("text", piece.text)]
        case InvocationCanister():
            texts = [("arguments", piece.arguments)]
        case _:
            texts = []
    return [(channel, text) for channel, text in texts if text]
