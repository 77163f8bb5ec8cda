"""What canisters must be before they become lines: each has its own id, and none has bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from vibe_llms.conversations.contents import is_held_elsewhere, replace_media
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import MediaContent


def ensure_distinct(canisters: Sequence[AnyCanister]) -> None:
    """Raises StoreError where one canister is there twice: who merges goes by their ids."""
    if len(canisters) < 2:
        return
    seen: set[str] = set()
    for canister in canisters:
        if canister.id in seen:
            raise StoreError(
                detail=f"The canister {canister.id} is to be stored twice.",
                remedy="Give each its own id: `attrs.evolve(canister, id=produce_identity())`.",
            )
        seen.add(canister.id)


def detach_media(canisters: Iterable[AnyCanister], contents: ContentStore) -> list[AnyCanister]:
    """Returns canisters as they are stored: the bytes of their media are in a content store.

    Raises:
        StoreError: Media name content which is neither there nor elsewhere.
    """

    def place(content: MediaContent, data: bytes) -> str:
        return contents.add(data, mime_type=content.mime_type, name=content.name)

    def put(content: MediaContent) -> MediaContent:
        return detach(content, place, contents.contains)

    return [replace_media(canister, put) for canister in canisters]


def detach(
    content: MediaContent,
    place: Callable[[MediaContent, bytes], str],
    contains: Callable[[str], bool],
) -> MediaContent:
    """Returns media without bytes, which a content store then has.

    Args:
        place: Puts the bytes into the content store and returns their id.
        contains: Tells whether the content store has an id.

    Raises:
        StoreError: The media name content which is neither here nor elsewhere.
    """
    named = content.content_id
    if content.data is not None:
        return attrs.evolve(content, data=None, content_id=place(content, content.data))
    if named is not None and not is_held_elsewhere(content) and not contains(named):
        raise StoreError(
            detail=f"A message refers to content {named}, which is not in this store.",
            remedy="Load the bytes with `hydrate` from the store that has them first.",
        )
    return content
