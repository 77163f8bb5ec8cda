"""Notes of a store on this machine, with access control by owner; each caller has its own.

Paths name the scope: ``tea.md`` belongs to the user, ``projects/NAME/plan.md`` to a project, and
``tags/NAME/rice.md`` to a tag. A caller without a name has the notes of the user of this machine.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from vibe_llms.agents.local import LocalRuns
from vibe_llms.exceptions import (
    CorruptionError,
    RequestError,
    Stage,
    StoreError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.portal import in_thread
from vibe_llms.memory.books import NoteBook, open_book
from vibe_llms.memory.notes import Note, NoteOrigin, read_note
from vibe_llms.memory.searching import NoteHit, produce_index, search_index, search_words

NoteScope: TypeAlias = Literal["user", "project", "tag"]

ANY_VERSION: Final = "*"
"""Any version of a note that exists."""
ABSENT_VERSION: Final = ""
"""Version of a note that does not exist."""
VERSION: Final = "version"
"""Path of the error that reports another version."""
UPDATE_SECONDS: Final = 20.0
"""How long a search by meaning reads new notes before it answers."""

_FOLDERS: Final[dict[NoteScope, str]] = {"user": "user/", "project": "projects/", "tag": "tags/"}
_SCOPES: Final[dict[str, NoteScope]] = {
    folder.removesuffix("/"): scope for scope, folder in _FOLDERS.items()
}
_HEAD: Final = 200


@frozen(kw_only=True)
class NoteSummary:
    """A note without its text.

    Attributes:
        path: Path of the note.
        scope: ``user``, ``project`` or ``tag``.
        scope_name: Name of the project or tag; empty for the user's notes.
        first_words: Beginning of the text.
        size: Size of the text, in bytes.
        created: The moment at which it was written first; ``None`` if a person made the file.
        updated: The moment of the last change.
        origins: The conversations from which it was remembered, oldest first.
        version: Version of the text; another text has another one.
    """

    path: str
    scope: NoteScope
    scope_name: str
    first_words: str
    size: int
    created: datetime | None
    updated: datetime | None
    origins: tuple[NoteOrigin, ...]
    version: str


@frozen(kw_only=True)
class StoredNote(NoteSummary):
    """A note with its text."""

    text: str


class LocalNotes:
    """List, search, read, write and delete notes.

    Args:
        runs: Runs of the same store.
    """

    def __init__(self, runs: LocalRuns) -> None:
        self.runs = runs

    @in_thread
    def survey(
        self,
        *,
        scope: NoteScope | None = None,
        name: str = "",
        limit: int,
        after: str = "",
        subject: str = "",
    ) -> tuple[Sequence[NoteSummary], bool]:
        """Return the caller's notes by path, those of the user first; and whether there are more.

        Args:
            scope: Only notes of this scope.
            name: Only notes of this project or tag.
            limit: Maximum number of notes.
            after: Path of the note behind which to begin; it may be deleted by now.
        """
        book = self._open(subject)
        prefix = book.paths.root + ("" if scope is None else _FOLDERS[scope])
        if name and scope in ("project", "tag"):
            prefix += f"{name}/"
        with _refusing_invalid():
            keys = [each for each in book.survey() if each.startswith(prefix)]
            keys = sorted(keys, key=lambda key: _order(book, key))
            if after:
                last = _order(book, book.paths.locate(after))
                keys = [each for each in keys if _order(book, each) > last]
        chosen = keys[:limit]
        texts = book.store.read(chosen, tolerant=True)
        found = [_summarize(book, key, texts[key]) for key in chosen if key in texts]
        return found, len(keys) > limit

    @in_thread
    def read(self, path: str, *, subject: str = "") -> StoredNote:
        """Return a note.

        Raises:
            UnknownNameError: The note does not exist.
            RequestError: The path is invalid, or the note is not UTF-8.
        """
        return _read(self._open(subject), path)

    @in_thread
    def search(self, words: str, *, limit: int, subject: str = "") -> Sequence[NoteHit]:
        """Return the passages with most of the words, one of each note."""
        book = self._open(subject)
        return [_name_hit(book, hit) for hit in search_words(book, words, limit=limit)]

    async def search_meaning(
        self, query: str, *, limit: int, subject: str = ""
    ) -> tuple[Sequence[NoteHit], bool]:
        """Return the passages that are nearest in meaning, and whether all notes were compared.

        Raises:
            DependencyError: A library or the embedder's weights are not installed.
        """
        book, is_whole = self._open(subject), True
        async with produce_index(book, self.runs.application) as index:
            try:
                async with asyncio.timeout(UPDATE_SECONDS):
                    await index.update()
            except TimeoutError:
                is_whole = False
            hits = await search_index(book, index, query, limit=limit)
        return [_name_hit(book, hit) for hit in hits], is_whole

    @in_thread
    def write(self, path: str, text: str, *, version: str, subject: str = "") -> StoredNote:
        """Write a note whose version the caller knows.

        Args:
            version: The version to replace; :data:`ABSENT_VERSION` for a new note.

        Raises:
            RequestError: The note has another version, the path is invalid, or a limit is reached.
        """
        book = self._open(subject)

        def replace(old: str | None) -> str:
            _compare(path, old, version)
            return text

        with _refusing_invalid():
            book.change(path, replace)
        return _read(book, path)

    @in_thread
    def delete(self, path: str, *, version: str, subject: str = "") -> None:
        """Delete a note whose version the caller knows.

        Raises:
            UnknownNameError: The note does not exist.
            RequestError: The note has another version, or the path is invalid.
        """
        book = self._open(subject)
        _read(book, path)

        def remove(document: str | None) -> None:
            text = None if document is None else read_note(path, document).text
            _compare(path, text, version)

        with _refusing_invalid():
            book.store.change(book.paths.locate(path), remove)

    def _open(self, subject: str) -> NoteBook:
        configuration = self.runs.application.configuration
        return open_book(self.runs.store, configuration, owner=subject, is_whole=True)


def _read(book: NoteBook, path: str) -> StoredNote:
    with _refusing_invalid():
        key = book.paths.locate(path)
        document = book.store.read([key]).get(key)
    if document is None:
        raise UnknownNameError(kind="note", name=path, known=())
    return StoredNote(**_describe(book, key, note := read_note(path, document)), text=note.text)


def _summarize(book: NoteBook, key: str, document: str) -> NoteSummary:
    return NoteSummary(**_describe(book, key, read_note(key, document)))


def _describe(book: NoteBook, key: str, note: Note) -> dict[str, Any]:
    folder, _, rest = key.removeprefix(book.paths.root).partition("/")
    scope = _SCOPES[folder]
    return {
        "path": _name(book, key),
        "scope": scope,
        "scope_name": "" if scope == "user" else rest.partition("/")[0],
        "first_words": note.text[:_HEAD],
        "size": len(note.text.encode("utf-8", "replace")),
        "created": note.created,
        "updated": note.updated,
        "origins": note.origins,
        "version": _identify(note.text),
    }


def _name(book: NoteBook, key: str) -> str:
    """Return the path of a note; that of a project names the project."""
    return key.removeprefix(book.paths.root).removeprefix(_FOLDERS["user"])


def _name_hit(book: NoteBook, hit: NoteHit) -> NoteHit:
    return NoteHit(path=_name(book, book.paths.locate(hit.path)), line=hit.line, text=hit.text)


def _order(book: NoteBook, key: str) -> tuple[int, str]:
    folder, _, rest = key.removeprefix(book.paths.root).partition("/")
    return [*_SCOPES].index(folder), rest


def _identify(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _compare(path: str, text: str | None, version: str) -> None:
    """Raise RequestError unless a note has the version that its editor knows."""
    if text is None and version != ABSENT_VERSION:
        detail = f"The note {path!r} has been deleted."
        raise RequestError(path=VERSION, detail=detail, stage=Stage.EXECUTE)
    if text is not None and version not in (ANY_VERSION, _identify(text)):
        detail = f"The note {path!r} exists with another text."
        remedy = "Read it, then send your text with its version."
        raise RequestError(path=VERSION, detail=detail, remedy=remedy, stage=Stage.EXECUTE)


@contextmanager
def _refusing_invalid() -> Iterator[None]:
    """Report an invalid path or text as a mistake of the caller; errors of files stay.

    That a file is not UTF-8 is reported without its place on this machine.
    """
    try:
        yield
    except CorruptionError as error:
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
        detail, remedy = "The note is not UTF-8.", "Convert its file to UTF-8."
        raise RequestError(
            path="note", detail=detail, remedy=remedy, stage=Stage.EXECUTE
        ) from error
    except StoreError as error:
        if type(error) is not StoreError or error.path or error.__cause__ is not None:
            raise
        raise RequestError(
            path="note", detail=error.detail, remedy=error.remedy, stage=Stage.FRAME
        ) from error
