"""The notes of one user: read, written, edited, moved and deleted by their paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from vibe_llms.conversations.notes.interfaces import NoteStore
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.memory.notes import Note, NoteOrigin, read_note, write_note
from vibe_llms.memory.paths import NotePaths, name_project
from vibe_llms.memory.settings import MemorySettings, read_settings
from vibe_llms.messages.identities import access_now

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.conversations.stores.interfaces import ConversationStore


@frozen(kw_only=True)
class NoteBook:
    """Notes of one user, in a store. All methods block.

    Paths begin with the scope: ``tea.md`` belongs to the user, ``project/plan.md`` to the project,
    and ``tags/cooking/rice.md`` to a tag. They never leave the notes, and lead through no links.

    Attributes:
        store: The notes of the store.
        paths: The user and the project.
        settings: Limits.
    """

    store: NoteStore
    paths: NotePaths
    settings: MemorySettings = attrs.field(factory=MemorySettings)

    def list(self, path: str = "") -> tuple[Note, ...]:
        """Return all notes in a folder and below, or one note, ordered by path.

        A file that is not UTF-8 is listed with U+FFFD in place of the invalid bytes.

        Raises:
            StoreError: The folder or note is missing, or the path is invalid.
        """
        keys = self.survey(path)
        if not keys and not self.paths.is_scope(path):
            return (self.read(path),)
        texts = self.store.read(keys, tolerant=True)
        return tuple(read_note(self.paths.name(key), texts[key]) for key in keys if key in texts)

    def survey(self, path: str = "") -> tuple[str, ...]:
        """Return the keys of the notes in a folder, and below.

        Files of people that no path names, such as ``tags/rice.md`` without a tag, are left out.

        Raises:
            StoreError: The path is invalid.
        """
        return tuple(
            key for folder in self.paths.locate_folders(path) for key in self.stamp(folder)
        )

    def stamp(self, folder: str) -> dict[str, str]:
        """Return the stamps of the notes whose keys begin with a folder, by their keys."""
        stamps = self.store.survey(folder)
        return {key: stamp for key, stamp in stamps.items() if self.paths.is_named(key)}

    def read(self, path: str) -> Note:
        """Return a note.

        Raises:
            StoreError: It does not exist or is not UTF-8, or the path is invalid.
        """
        note = self.find(path)
        if note is None:
            raise _describe_missing(path)
        return note

    def find(self, path: str) -> Note | None:
        """Return a note; ``None`` if it does not exist. Raises StoreError as :meth:`read`."""
        key = self.paths.locate(path)
        text = self.store.read([key]).get(key)
        return None if text is None else read_note(self.paths.name(key), text)

    def create(self, path: str, text: str, origin: NoteOrigin | None = None) -> Note:
        """Write a new note. A repeated call with the same text changes nothing.

        Raises:
            StoreError: A note with another text exists, or as :meth:`write`.
        """

        def produce(old: str | None) -> str:
            if old not in (None, text):
                raise StoreError(
                    detail=f"The note {path!r} already exists.",
                    remedy="Read it, then append to it or replace it; or choose another path.",
                )
            return text

        return self.change(path, produce, origin)

    def write(self, path: str, text: str, origin: NoteOrigin | None = None) -> bool:
        """Write a note, and replace its text if it exists; return whether it is new.

        Args:
            origin: The conversation that is remembered; ``None`` for a person.

        Raises:
            StoreError: The path is invalid, or a limit is reached.
        """
        is_new = True

        def replace(old: str | None) -> str:
            nonlocal is_new
            is_new = old is None
            return text

        self.change(path, replace, origin)
        return is_new

    def add(self, path: str, text: str, origin: NoteOrigin | None = None) -> None:
        """Add a text to the end of a note, which is created if it is missing.

        A note that ends with the text does not change, so that a repeated call adds nothing.

        Raises:
            StoreError: As :meth:`write`.
        """

        def append(old: str | None) -> str:
            before, added = (old or "").rstrip("\n"), text.strip("\n")
            if f"\n{before}".endswith(f"\n{added}"):
                return old or ""
            return f"{before}\n{added}\n" if before else f"{added}\n"

        self.change(path, append, origin)

    def change(
        self,
        path: str,
        change: Callable[[str | None], str],
        origin: NoteOrigin | None = None,
    ) -> Note:
        """Change the text of a note; no other change of it happens in between.

        Args:
            change: Receives the text, ``None`` if the note is missing; returns the new text.

        Raises:
            StoreError: As :meth:`write`.
        """
        key = self.paths.locate(path)
        changed: list[Note] = []

        def rewrite(document: str | None) -> str:
            note = read_note(self.paths.name(key), document or "")
            text = change(None if document is None else note.text)
            if document is not None and text == note.text:
                changed.append(note)
                return document
            self._ensure_room(key, text, is_new=document is None)
            changed.append(note.change(text, access_now(), origin))
            return write_note(changed[-1])

        self.store.change(key, rewrite)
        return changed[-1]

    def delete(self, path: str) -> int:
        """Delete a note, or all notes in a folder; return their number.

        Raises:
            StoreError: The note is missing, or the path is invalid.
        """
        keys, _ = self._find(path)
        for key in keys:
            self.store.change(key, lambda _: None)
        return len(keys)

    def move(self, old: str, new: str) -> None:
        """Move a note, or all notes in a folder.

        Raises:
            StoreError: The old path has no notes, or the new one has some.
        """
        keys, is_note = self._find(old)
        if is_note:
            self.store.move({keys[0]: self.paths.locate(new)})
            return
        (source,), (target,) = self.paths.locate_folders(old), self.paths.locate_folders(new)
        self.store.move({key: f"{target}{key.removeprefix(source)}" for key in keys})

    def _find(self, path: str) -> tuple[tuple[str, ...], bool]:
        """Return the key of a note, or those of the notes in a folder; and whether it is a note."""
        if not path.strip("/. "):
            raise StoreError(
                detail="The path of a note is missing.", remedy="Name a note or a folder."
            )
        if self.paths.is_note(path):
            key = self.paths.locate(path)
            if key in self.store.survey(key):
                return (key,), True
        keys = self.survey(path)
        if not keys:
            raise _describe_missing(path)
        return keys, False

    def _ensure_room(self, key: str, text: str, *, is_new: bool) -> None:
        limit, size = self.settings.note_bytes, len(text.encode("utf-8", "replace"))
        if size > limit:
            raise StoreError(
                detail=f"The note has {size} bytes; the limit is {limit}.",
                remedy="Split it into several notes.",
            )
        count = self.settings.notes
        if is_new and len(self.store.survey(self.paths.root)) >= count:
            raise StoreError(
                detail=f"There are {count} notes already, which is the limit.",
                remedy="Delete some, or join them.",
            )


def _describe_missing(path: str) -> StoreError:
    return StoreError(detail=f"There is no note {path!r}.", remedy="List the notes first.")


def open_book(
    store: ConversationStore,
    configuration: Configuration,
    *,
    settings: MemorySettings | None = None,
    owner: str = "",
    is_whole: bool = False,
) -> NoteBook:
    """Open the notes of a user, with the current project.

    Args:
        settings: Settings of the ensemble; by default those of the configuration.
        owner: The user, as a daemon knows it; empty for the user of this machine.
        is_whole: Whether the notes of other projects are accessible, too.
    """
    settings = settings or read_settings(configuration)
    project = settings.project or name_project(configuration)
    paths = NotePaths(owner=owner, project=project, is_whole=is_whole)
    return NoteBook(store=store.notes, paths=paths, settings=settings)
