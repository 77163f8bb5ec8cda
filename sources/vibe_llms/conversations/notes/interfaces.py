"""Interface of a store's notes, and the rules for their keys and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.identities import access_now

NOTE_BYTES: Final = 1_000_000
"""Maximum size of a note."""

KEY_BYTES: Final = 1_000
PART_BYTES: Final = 200
"""Maximum length of a part of a key; shorter than a file's name, as drafts have longer names."""
DEPTH: Final = 12
"""Maximum number of parts of a key."""
DELETIONS: Final = 10_000
"""Maximum number of deleted notes that a store remembers: the latest ones."""

_DIGEST_DIGITS: Final = 32


@frozen
class DeletedNote:
    """What a store remembers of a deleted note, so that other stores can delete it, too.

    Attributes:
        digest: Digest of the deleted text; see :func:`digest_note`.
        moment: The moment of the deletion.
    """

    digest: str
    moment: datetime


class NoteStore(Protocol):
    """Notes of a store, each a text under a key such as ``own/user/tea.md``.

    Every change of a note is atomic, and survives a crash once its method has returned. Several
    threads and processes may use the notes at once. All methods block. An invalid key, and a store
    that keeps no notes, is a StoreError.
    """

    def survey(self, prefix: str) -> Mapping[str, str]:
        """Return a stamp for each note whose key begins with a prefix; it changes with the text."""

    def survey_deleted(self) -> Mapping[str, DeletedNote]:
        """Return the notes that were deleted or moved away, by their keys.

        A note that is written again is left out, and so are files that a person has removed.
        """

    def read(self, keys: Iterable[str], *, tolerant: bool = False) -> Mapping[str, str]:
        """Return the texts of some notes, by their keys; missing ones are left out.

        Args:
            tolerant: Return U+FFFD in place of bytes that are not UTF-8, for lists and searches;
                by default such a file is a CorruptionError.
        """

    def change(self, key: str, change: Callable[[str | None], str | None]) -> None:
        """Replace the text of a note; no other change of the note happens in between.

        Args:
            change: Receives the text, ``None`` for a missing note; returns the new text, or
                ``None`` to delete the note. Its errors leave the note as it was. It may survey
                and read notes, but change none.
        """

    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys.

        Each note moves atomically. In a directory, several notes move one after the other: after a
        crash or a failure of the disk, some have moved and the others have not; none is lost.

        Raises:
            StoreError: A note is missing, or the other key has a note; nothing has moved then.
        """


class NoNotes:
    """Notes of a store that keeps none; see :class:`NoteStore`.

    Args:
        store: Name of the store's class.
    """

    def __init__(self, store: str) -> None:
        self._store = store

    def survey(self, prefix: str) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def survey_deleted(self) -> Mapping[str, DeletedNote]:
        """Return nothing."""
        return {}

    def read(self, keys: Iterable[str], *, tolerant: bool = False) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def change(self, key: str, change: Callable[[str | None], str | None]) -> None:
        """Refuse."""
        raise self._refuse()

    def move(self, keys: Mapping[str, str]) -> None:
        """Refuse."""
        raise self._refuse()

    def _refuse(self) -> StoreError:
        return StoreError(
            detail=f"{self._store} keeps no notes.",
            remedy="Set the store to `directory` or to a PostgreSQL database.",
        )


def ensure_key(key: str, path: str = "") -> str:
    """Check the key of a note: names joined by slashes, none of them hidden or special.

    Args:
        path: What the user wrote, for the error; by default the key.

    Raises:
        StoreError: The key is invalid.
    """
    parts = key.split("/")
    problem = next(filter(None, map(_find_problem, parts)), "")
    if not problem and len(key.encode()) > KEY_BYTES:
        problem = f"it has more than {KEY_BYTES} bytes"
    if not problem and len(parts) > DEPTH:
        problem = f"it has more than {DEPTH} parts"
    if problem:
        raise StoreError(
            detail=f"Invalid name of a note {(path or key)[:KEY_BYTES]!r}: {problem}.",
            remedy="Use names such as tea.md, project/plan.md or tags/cooking/rice.md.",
        )
    return key


def _find_problem(part: str) -> str:
    if not part.strip():
        return "a part of it is empty"
    if part.startswith("."):
        return "a part of it begins with a dot"
    if part != part.strip():
        return "a part of it begins or ends with a space"
    if "\\" in part or not part.isprintable():  # surrogates are not printable
        return "it contains a backslash or a character that cannot be printed"
    if len(part.encode()) > PART_BYTES:
        return f"a part of it has more than {PART_BYTES} bytes"
    return ""


def encode_note(text: str) -> bytes:
    """Return the text of a note in UTF-8.

    Raises:
        StoreError: The text is too long, or contains an invalid character.
    """
    if "\0" in text:
        raise StoreError(detail="A note must not contain the character NUL.")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        detail = "The text contains an invalid character: half of a surrogate pair."
        raise StoreError(detail=detail) from error
    if len(data) > NOTE_BYTES:
        raise StoreError(
            detail=f"The note has {len(data)} bytes; the limit is {NOTE_BYTES}.",
            remedy="Split it into several notes.",
        )
    return data


def digest_note(text: str | bytes) -> str:
    """Return the digest of a note's text."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]


def note_deletions(
    known: Mapping[str, DeletedNote],
    *,
    deleted: Mapping[str, str | bytes] | None = None,
    written: Iterable[str] = (),
) -> dict[str, DeletedNote]:
    """Return the deleted notes after a change, the latest one last.

    Args:
        known: The deleted notes before the change.
        deleted: Texts of notes that are being deleted, by their keys.
        written: Keys of notes that exist now.
    """
    deleted, now = deleted or {}, access_now()
    changed = {*deleted, *written}
    kept = {key: each for key, each in known.items() if key not in changed}
    kept |= {key: DeletedNote(digest_note(text), now) for key, text in deleted.items()}
    return dict(islice(kept.items(), max(0, len(kept) - DELETIONS), None))


def describe_existing(key: str) -> StoreError:
    """Return the error for a note that would be overwritten by a move."""
    return StoreError(detail=f"The note {key!r} already exists.", remedy="Choose another name.")


def describe_absent(key: str) -> StoreError:
    """Return the error for a note that does not exist."""
    return StoreError(detail=f"The note {key!r} does not exist.")
