"""Notes in memory."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping

import attrs

from vibe_llms.conversations.notes.interfaces import (
    DeletedNote,
    describe_absent,
    describe_existing,
    encode_note,
    ensure_key,
    note_deletions,
)
from vibe_llms.foundation.attrs_classes import define


@define(eq=False)
class NoteTable:
    """Notes in a dictionary; see :class:`~.interfaces.NoteStore`."""

    _texts: dict[str, str] = attrs.field(factory=dict)
    _deleted: dict[str, DeletedNote] = attrs.field(factory=dict)
    # Reentrant, as a change may survey the other notes.
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    def survey(self, prefix: str) -> Mapping[str, str]:
        """Return a stamp for each note whose key begins with a prefix."""
        with self._lock:
            return {
                key: hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
                for key, text in sorted(self._texts.items())
                if key.startswith(prefix)
            }

    def survey_deleted(self) -> Mapping[str, DeletedNote]:
        """Return the notes that were deleted or moved away."""
        with self._lock:
            return dict(self._deleted)

    def read(self, keys: Iterable[str], *, tolerant: bool = False) -> Mapping[str, str]:
        """Return the texts of some notes, by their keys."""
        with self._lock:
            return {key: self._texts[key] for key in map(ensure_key, keys) if key in self._texts}

    def change(self, key: str, change: Callable[[str | None], str | None]) -> None:
        """Replace the text of a note."""
        with self._lock:
            old = self._texts.get(ensure_key(key))
            text = change(old)
            if text is not None:
                encode_note(text)
                self._texts[key] = text
                self._deleted = note_deletions(self._deleted, written=[key])
            elif old is not None:
                del self._texts[key]
                self._deleted = note_deletions(self._deleted, deleted={key: old})

    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys."""
        with self._lock:
            for old, new in keys.items():
                if ensure_key(old) not in self._texts:
                    raise describe_absent(old)
                if ensure_key(new) in self._texts:
                    raise describe_existing(new)
            moved = {old: self._texts[old] for old in keys}
            for old, new in keys.items():
                self._texts[new] = self._texts.pop(old)
            self._deleted = note_deletions(self._deleted, deleted=moved, written=keys.values())
