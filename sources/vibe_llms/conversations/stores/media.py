"""Preparation of canisters for storage: unique ids, and media without bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import attrs

from vibe_llms.conversations.canister_media import is_available_elsewhere, replace_media
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import MediaContent

_Canister = TypeVar("_Canister", bound=AnyCanister)


def ensure_distinct(canisters: Sequence[AnyCanister]) -> None:
    """Raise StoreError if two canisters have one id, as merges compare ids."""
    if len(canisters) < 2:
        return
    seen: set[str] = set()
    for canister in canisters:
        if canister.id in seen:
            raise StoreError(
                detail=f"The canister {canister.id} would be stored twice.",
                remedy="Give each its own id: `attrs.evolve(canister, id=produce_identity())`.",
            )
        seen.add(canister.id)


def detach_media(
    canisters: Iterable[_Canister],
    contents: ContentStore,
    *,
    add: Callable[..., str] | None = None,
) -> list[_Canister]:
    """Return canisters in their stored form, with the bytes of media in a content store.

    Args:
        add: Called instead of the content store's ``add``, for example if the caller has its lock.

    Raises:
        StoreError: Media name content that is neither in the store nor available elsewhere.
    """
    add_content = add or contents.add

    def detach(content: MediaContent) -> MediaContent:
        content_id = content.content_id
        if content.data is not None:
            identity = add_content(content.data, mime_type=content.mime_type, name=content.name)
            return attrs.evolve(content, data=None, content_id=identity)
        if (
            content_id is not None
            and not is_available_elsewhere(content)
            and not contents.contains(content_id)
        ):
            raise StoreError(
                detail=f"A message refers to content {content_id}, which is not in this store.",
                remedy="First load the bytes with `hydrate` from the store that has them.",
            )
        return content

    return [replace_media(canister, detach) for canister in canisters]
