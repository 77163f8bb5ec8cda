"""Synchronization of the notes of two stores.

A note that only one side has changed since the last synchronization is copied to the other side. If
both have changed it, the later text keeps the name, and the other one becomes a second note on both
sides, whose name follows from its text. Nothing is deleted; a deleted note comes back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from vibe_llms.conversations.notes.interfaces import NoteStore
from vibe_llms.exceptions import ConfigurationError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.sync_reports import NoteChange, NoteChangeWord, Side
from vibe_llms.tables.front_matter import split_front_matter

_SIDES: Final[tuple[Side, Side]] = ("here", "there")
_DIGITS: Final = 8
_BATCH: Final = 200


@define(eq=False)
class NoteSynchronizer:
    """Synchronization of notes.

    Attributes:
        sides: The notes of both stores.
        digests: Digests of the notes after the last synchronization, by their keys; updated.
        changes: Changes so far.
        refused: Notes that could not be synchronized, by their keys.
    """

    sides: Mapping[Side, NoteStore]
    digests: dict[str, str]
    changes: list[NoteChange] = attrs.field(factory=list)
    refused: dict[str, Finding] = attrs.field(factory=dict)

    def sync(self) -> int:
        """Synchronize all notes; return their number. Raises StoreError if one cannot be listed."""
        keys = sorted({key for notes in self.sides.values() for key in notes.survey("")})
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            texts = [self.sides[side].read(batch) for side in _SIDES]
            for key in batch:
                try:
                    self._sync_note(key, *(each.get(key) for each in texts))
                except StoreError as error:
                    self.refused[key] = Finding(place=f"note {key}", message=str(error))
        return len(keys)

    def _sync_note(self, key: str, here: str | None, there: str | None) -> None:
        if here is None or there is None:
            text = here if there is None else there
            if text is None:  # deleted in the meantime
                return
            self._write("there" if there is None else "here", "added", key, None, text)
        elif here != there:
            text = self._choose(key, here, there)
            for side, old in zip(_SIDES, (here, there), strict=True):
                if old != text:
                    self._write(side, "changed", key, old, text)
        else:
            text = here
        self.digests[key] = _digest(text)

    def _choose(self, key: str, here: str, there: str) -> str:
        """Return the text that keeps the name; the other one gets a second note if both are new."""
        last = self.digests.get(key)
        if last == _digest(here):
            return there
        if last == _digest(there):
            return here
        older, newer = sorted((here, there), key=lambda text: (_read_time(text), text))
        second = _name_second(key, older)
        for side in _SIDES:
            known = self.sides[side].read([second]).get(second)
            if known is None:
                self._write(side, "conflict", second, None, older, conflicts_with=key)
        self.digests[second] = _digest(older)
        return newer

    def _write(
        self,
        side: Side,
        change: NoteChangeWord,
        key: str,
        old: str | None,
        text: str,
        *,
        conflicts_with: str = "",
    ) -> None:
        """Write a note unless it has changed since it was read. Raises StoreError."""
        self.sides[side].change(key, _replace(old, text))
        self.changes.append(
            NoteChange(side=side, change=change, key=key, conflicts_with=conflicts_with)
        )


def _replace(old: str | None, text: str) -> Callable[[str | None], str]:
    def replace(current: str | None) -> str:
        if current not in (old, text):
            raise StoreError(
                detail="The note was changed during the synchronization.",
                remedy="Run `vibe sync` again.",
            )
        return text

    return replace


def _name_second(key: str, text: str) -> str:
    """Return the key of the second note: the same on every machine."""
    folder, slash, name = key.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, f"{dot}{suffix}") if stem else (name, "")
    return f"{folder}{slash}{stem[:150]}.conflict-{_digest(text)[:_DIGITS]}{suffix}"


def _read_time(text: str) -> str:
    """Return the time of the last change, as written in the note; empty if it has none."""
    try:
        return str(split_front_matter(text, "").fields.get("updated") or "")
    except ConfigurationError:
        return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
