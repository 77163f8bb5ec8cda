"""Synchronization of the notes of two stores.

A note that only one side has changed since the last synchronization is copied to the other side. If
both have changed it, the later text keeps the name, and the other one becomes a second note on both
sides, whose name follows from its text.

A note that was deleted on one side is deleted on the other side, too, if its text there is the
deleted one, or that of the last synchronization. With another text it comes back, which is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from vibe_llms.conversations.notes.interfaces import (
    KEY_BYTES,
    PART_BYTES,
    DeletedNote,
    NoteStore,
    digest_note,
)
from vibe_llms.exceptions import ConfigurationError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.sync_reports import NoteChange, NoteChangeWord, Side
from vibe_llms.tables.front_matter import split_front_matter

_SIDES: Final[tuple[Side, Side]] = ("here", "there")
_DIGITS: Final = 8
_DIGEST_DIGITS: Final = 32
_BATCH: Final = 200
_DELETED: Final = ""
"""Digest of a note that was deleted on both sides."""


@define(eq=False)
class NoteSynchronizer:
    """Synchronization of notes.

    Attributes:
        sides: The notes of both stores.
        digests: Digests of the notes after the last synchronization, by their keys, empty for
            deleted notes; updated.
        changes: Changes so far.
        refused: Notes that could not be synchronized, by their keys.
        notices: Deleted notes that came back, because they were changed on the other side.
    """

    sides: Mapping[Side, NoteStore]
    digests: dict[str, str]
    changes: list[NoteChange] = attrs.field(factory=list)
    refused: dict[str, Finding] = attrs.field(factory=dict)
    notices: list[Finding] = attrs.field(factory=list)
    _deleted: dict[Side, Mapping[str, DeletedNote]] = attrs.field(factory=dict)

    def sync(self) -> int:
        """Synchronize all notes; return their number. Raises StoreError if one cannot be listed."""
        keys = sorted({key for notes in self.sides.values() for key in notes.survey("")})
        self._survey_deleted()
        for key in self.digests.keys() - keys:  # it may be written again
            if any(key in deleted for deleted in self._deleted.values()):
                self.digests[key] = _DELETED
            else:
                del self.digests[key]
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            texts = [_read(self.sides[side], batch) for side in _SIDES]
            for key in batch:
                try:
                    self._sync_note(key, *(_take(each, key) for each in texts))
                except StoreError as error:
                    self.refused[key] = Finding(place=f"note {key}", message=str(error))
        return len(keys)

    def _sync_note(self, key: str, here: str | None, there: str | None) -> None:
        if here is None or there is None:
            text = here if there is None else there
            if text is None:  # deleted in the meantime
                return
            lacking, having = _SIDES if here is None else reversed(_SIDES)
            if self._is_deleted(key, lacking, text):
                self._delete(having, key, text)
                return
            self._write(lacking, "added", key, None, text)
        elif here != there:
            text = self._choose(key, here, there)
            for side, old in zip(_SIDES, (here, there), strict=True):
                if old != text:
                    self._write(side, "changed", key, old, text)
        else:
            text = here
        self.digests[key] = digest_note(text)

    def _survey_deleted(self) -> None:
        """Read which notes were deleted; without that, deleted notes come back."""
        for side, notes in self.sides.items():
            try:
                self._deleted[side] = notes.survey_deleted()
            except StoreError as error:
                place = f"deleted notes {side}"
                self._deleted[side] = {}
                self.refused[place] = Finding(place=place, message=str(error))

    def _is_deleted(self, key: str, side: Side, text: str) -> bool:
        """Return whether a side has deleted the note that the other side has."""
        deleted, last = self._deleted[side].get(key), self.digests.get(key)
        if deleted is None or last == _DELETED:  # the other side has written it again
            return False
        if digest_note(text) in (deleted.digest, last):
            return True
        message = f"It was deleted {side} and changed on the other side; the changed note was kept."
        self.notices.append(Finding(place=f"note {key}", message=message))
        return False

    def _delete(self, side: Side, key: str, text: str) -> None:
        """Delete a note unless it has changed since it was read. Raises StoreError."""
        self.sides[side].change(key, _replace(text, None))
        self.changes.append(NoteChange(side=side, change="deleted", key=key))
        self.digests[key] = _DELETED

    def _choose(self, key: str, here: str, there: str) -> str:
        """Return the text that keeps the name; the other one gets a second note if both are new."""
        last = self.digests.get(key)
        if last == digest_note(here):
            return there
        if last == digest_note(there):
            return here
        older, newer = sorted((here, there), key=lambda text: (_read_time(text), text))
        second, known = self._choose_second(key, older)
        for side in _SIDES:
            if known[side] is None:
                self._write(side, "conflict", second, None, older, conflicts_with=key)
        self.digests[second] = digest_note(older)
        return newer

    def _choose_second(self, key: str, text: str) -> tuple[str, dict[Side, str | None]]:
        """Return the key of a second note with a text, and its text on each side.

        A note of an earlier conflict that was edited since has another text, and keeps its name.
        """
        for digits in range(_DIGITS, _DIGEST_DIGITS + 1):
            second = _name_second(key, text, digits)
            known = {side: self.sides[side].read([second]).get(second) for side in _SIDES}
            if {*known.values()} <= {None, text}:
                return second, known
        raise StoreError(
            detail=f"All names for the second text of {key} are in use.",
            remedy="Move or delete the second notes of earlier conflicts.",
        )

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


def _replace(old: str | None, text: str | None) -> Callable[[str | None], str | None]:
    def replace(current: str | None) -> str | None:
        if current not in (old, text):
            raise StoreError(
                detail="The note was changed during the synchronization.",
                remedy="Run `vibe sync` again.",
            )
        return text

    return replace


def _read(notes: NoteStore, keys: Sequence[str]) -> dict[str, str | StoreError]:
    """Return the texts of some notes by their keys, or the errors of those that cannot be read."""
    try:
        return {**notes.read(keys)}
    except StoreError as error:
        if len(keys) == 1:
            return {keys[0]: error}
    return {key: each for single in keys for key, each in _read(notes, [single]).items()}


def _take(texts: Mapping[str, str | StoreError], key: str) -> str | None:
    """Return the text of a note; ``None`` if it is missing. Raises StoreError if unreadable."""
    text = texts.get(key)
    if isinstance(text, StoreError):
        raise text
    return text


def _name_second(key: str, text: str, digits: int) -> str:
    """Return the key of the second note: the same on every machine."""
    folder, slash, name = key.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, f"{dot}{suffix}") if stem else (name, "")
    ending = f".conflict-{digest_note(text)[:digits]}{suffix}"
    if len(ending.encode()) > PART_BYTES // 2:  # not a file type, but words behind a dot
        stem, ending = f"{stem}{suffix}", ending.removesuffix(suffix)
    room = min(PART_BYTES, KEY_BYTES - len(f"{folder}{slash}".encode())) - len(ending.encode())
    return f"{folder}{slash}{stem.encode()[: max(room, 1)].decode('utf-8', 'ignore')}{ending}"


def _read_time(text: str) -> str:
    """Return the time of the last change, as written in the note; empty if it has none."""
    try:
        return str(split_front_matter(text, "").fields.get("updated") or "")
    except ConfigurationError:
        return ""
