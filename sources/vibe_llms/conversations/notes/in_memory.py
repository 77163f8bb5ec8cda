"""Notes in memory."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping

import attrs

from vibe_llms.conversations.notes.interfaces import (
    describe_absent,
    describe_existing,
    encode_note,
    ensure_key,
)
from vibe_llms.foundation.attrs_classes import define


@define(eq=False)
class NoteTable:
    """Notes in a dictionary; see :class:`~.interfaces.NoteStore`."""

    _texts: dict[str, str] = attrs.field(factory=dict)
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

    def read(self, keys: Iterable[str]) -> Mapping[str, str]:
        """Return the texts of some notes, by their keys."""
        with self._lock:
            return {key: self._texts[key] for key in map(ensure_key, keys) if key in self._texts}

    def change(self, key: str, change: Callable[[str | None], str | None]) -> None:
        """Replace the text of a note."""
        with self._lock:
            text = change(self._texts.get(ensure_key(key)))
            if text is None:
                self._texts.pop(key, None)
            else:
                encode_note(text)
                self._texts[key] = text

    def move(self, keys: Mapping[str, str]) -> None:
        """Move notes to other keys."""
        with self._lock:
            for old, new in keys.items():
                if ensure_key(old) not in self._texts:
                    raise describe_absent(old)
                if ensure_key(new) in self._texts:
                    raise describe_existing(new)
            for old, new in keys.items():
                self._texts[new] = self._texts.pop(old)
