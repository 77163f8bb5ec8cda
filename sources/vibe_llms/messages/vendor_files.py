"""Notes about contents that a vendor stores: the vendor's id of each, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from vibe_llms.foundation.attrs_classes import frozen

_MARGIN: Final = timedelta(minutes=5)
"""A file that ends within this time is uploaded again: its request may have to wait."""


@frozen(kw_only=True)
class VendorFile:
    """A file that a vendor stores.

    Attributes:
        id: The vendor's id.
        ends: The moment at which the vendor deletes it, in UTC; ``None`` if it stays.
    """

    id: str
    ends: datetime | None = None

    def is_usable(self, now: datetime) -> bool:
        """Return whether a request at this moment can refer to the file."""
        return self.ends is None or self.ends - now > _MARGIN


class NotedFile(NamedTuple):
    """A note: a content that a vendor stores.

    Attributes:
        content_id: SHA-256 of the content.
        account: The vendor's account: its address, and a digest of the key.
        file: The vendor's file.
    """

    content_id: str
    account: str
    file: VendorFile


class VendorFileNotes(Protocol):
    """Notes of a content store: for each content and account, the vendor's file.

    Notes are a cache: without one, the content is uploaded again. Removing a content removes its
    notes. All methods block, and may be called from any thread.
    """

    def find(self, content_id: str, account: str) -> VendorFile | None:
        """Return the vendor's file of a content. Raises StoreError."""

    def note(self, content_id: str, account: str, file: VendorFile) -> bool:
        """Note the vendor's file of a content, instead of an earlier one. Raises StoreError.

        Returns:
            False if the store does not have the content, or keeps no notes.
        """

    def forget(self, content_id: str, account: str, identity: str) -> None:
        """Remove a note if it still has this id. Raises StoreError."""

    def survey(self) -> Iterator[NotedFile]:
        """Yield all notes, in arbitrary order. Raises StoreError."""


@frozen
class ChainedNotes:
    """Notes of several content stores; see :class:`VendorFileNotes`.

    Attributes:
        parts: The notes of each, the most important first.
    """

    parts: tuple[VendorFileNotes, ...]

    def find(self, content_id: str, account: str) -> VendorFile | None:
        """Return the vendor's file of a content."""
        found = (part.find(content_id, account) for part in self.parts)
        return next((file for file in found if file is not None), None)

    def note(self, content_id: str, account: str, file: VendorFile) -> bool:
        """Note the vendor's file in all stores that have the content."""
        noted = [part.note(content_id, account, file) for part in self.parts]
        return any(noted)

    def forget(self, content_id: str, account: str, identity: str) -> None:
        """Remove a note from all stores if it still has this id."""
        for part in self.parts:
            part.forget(content_id, account, identity)

    def survey(self) -> Iterator[NotedFile]:
        """Yield all notes."""
        for part in self.parts:
            yield from part.survey()


class MissingNotes:
    """Notes of a store that keeps none; see :class:`VendorFileNotes`."""

    def find(self, content_id: str, account: str) -> None:
        """Return nothing."""

    def note(self, content_id: str, account: str, file: VendorFile) -> bool:
        """Return that nothing was noted."""
        return False

    def forget(self, content_id: str, account: str, identity: str) -> None:
        """Do nothing."""

    def survey(self) -> Iterator[NotedFile]:
        """Yield nothing."""
        return iter(())


NO_NOTES: Final = MissingNotes()
