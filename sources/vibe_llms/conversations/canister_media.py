"""Media of canisters: moved to a content store before a line is written, and loaded for a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from vibe_llms.exceptions import CorruptionError, Finding, StoreError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import CONTENT_CLASSES, MEDIA_CLASSES, AnyContent, MediaContent
from vibe_llms.messages.views import list_content_classes, media_of

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ContentStore

_Canister = TypeVar("_Canister", bound=AnyCanister)
_Medium = TypeVar("_Medium", bound=MediaContent)

_CLASSES_WITHOUT_MEDIA: Final = frozenset(CONTENT_CLASSES.values()) - {*MEDIA_CLASSES}

_FEW: Final = 16
"""Number of canisters up to which a loop is faster than a set of their contents' classes."""


def examine_content(contents: ContentStore, content_id: str) -> tuple[Finding, ...]:
    """Verify the data and the metadata of a content; return the errors."""
    findings = []
    for read in (contents.read, contents.access_metadata):
        try:
            read(content_id)
        except CorruptionError as error:
            findings.append(Finding(place=error.path, message=error.detail))
        except StoreError as error:
            findings.append(Finding(place=error.path, message=str(error)))
    return tuple(findings)


def hydrate(
    canisters: Iterable[AnyCanister], content_store: ContentStore
) -> tuple[AnyCanister, ...]:
    """Return the canisters with the bytes of their media loaded.

    Media that the store lacks stay unchanged if they have a URL or a file of the vendor.

    Raises:
        StoreError: Content is missing.
        CorruptionError: Content does not match its id.
    """

    def load(content: MediaContent) -> MediaContent:
        return load_content(content, content_store)

    return tuple(replace_media(canister, load) for canister in canisters)


def load_content(content: _Medium, content_store: ContentStore) -> _Medium:
    """Return a medium with its bytes loaded; see :func:`hydrate`.

    Raises:
        StoreError: Content is missing.
        CorruptionError: Content does not match its id.
    """
    if content.data is not None or content.content_id is None:
        return content
    if is_available_elsewhere(content) and not content_store.contains(content.content_id):
        return content
    data = content_store.read(content.content_id)
    if not content.is_vague:
        return attrs.evolve(content, data=data)
    mime_type = content_store.access_metadata(content.content_id).mime_type
    if mime_type.endswith("/*"):
        mime_type = ""  # detect it from the data
    return attrs.evolve(content, data=data, mime_type=mime_type)


def is_available_elsewhere(content: MediaContent) -> bool:
    """Return whether media are available without a content store."""
    return content.url is not None or content.file_id is not None


def find_required(canisters: Iterable[AnyCanister]) -> frozenset[str]:
    """Return the ids of content that only a content store has."""
    return frozenset(
        content.content_id
        for content in media_of(canisters)
        if content.content_id is not None and not is_available_elsewhere(content)
    )


def needs_content_store(canisters: Collection[AnyCanister]) -> bool:
    """Return whether any media among the canisters refer to content."""
    if len(canisters) > _FEW and list_content_classes(canisters) <= _CLASSES_WITHOUT_MEDIA:
        return False
    for canister in canisters:
        for content in canister.content:
            if type(content) in _CLASSES_WITHOUT_MEDIA:
                continue
            if isinstance(content, MEDIA_CLASSES) and content.content_id is not None:
                return True
    return False


def replace_media(
    canister: _Canister, replace: Callable[[MediaContent], MediaContent]
) -> _Canister:
    """Return the canister with its media replaced, or the given canister if nothing changes."""
    # Fast path: most canisters have no media.
    for content in canister.content:
        if isinstance(content, MEDIA_CLASSES):
            break
    else:
        return canister
    replaced: tuple[AnyContent, ...] = tuple(
        replace(content) if isinstance(content, MEDIA_CLASSES) else content
        for content in canister.content
    )
    if all(new is old for new, old in zip(replaced, canister.content, strict=True)):
        return canister
    return attrs.evolve(canister, content=replaced)
