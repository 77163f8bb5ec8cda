"""Search of notes: for words, and by meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.memory.books import NoteBook
from vibe_llms.memory.notes import Note, read_note
from vibe_llms.retrieval.passages import Passage, SourceDocument, split_text

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.retrieval.meaning import MeaningIndex

_WORD: Final = re.compile(r"\w+")


@frozen(kw_only=True)
class NoteHit:
    """A passage of a note that a search has found.

    Attributes:
        path: Path of the note.
        line: Number of the first line of the passage, from 1, without front matter.
        text: The passage.
    """

    path: str
    line: int
    text: str


@frozen
class NotePassages:
    """Notes of one scope, for a :class:`.MeaningIndex`.

    Attributes:
        book: The notes.
        scope: Beginning of the keys of the scope.
    """

    book: NoteBook
    scope: str

    @property
    def collection(self) -> str:
        """Name of the scope among the collections of the index."""
        return f"notes {self.scope}"

    def survey(self) -> Mapping[str, str]:
        """Return the stamp of each note, by its key."""
        return self.book.stamp(self.scope)

    def read(self, names: Sequence[str]) -> Iterator[SourceDocument]:
        """Yield some notes; deleted ones are left out."""
        for key, document in self.book.store.read(names, tolerant=True).items():
            pieces = split_text(read_note(key, document).text)
            passages = tuple(
                Passage(position=piece.line, heading=piece.heading, text=piece.text)
                for piece in pieces
            )
            yield SourceDocument(name=key, passages=passages)


def produce_index(book: NoteBook, application: Application) -> MeaningIndex:
    """Create an index of the notes, which the caller closes. The embedder is not loaded yet."""
    from vibe_llms.retrieval.meaning import MeaningIndex

    sources = [NotePassages(book, scope) for scope in book.paths.scopes]
    return MeaningIndex(conversations=False, sources=sources, application=application)


async def search_index(
    book: NoteBook, index: MeaningIndex, query: str, *, limit: int
) -> list[NoteHit]:
    """Return the passages that are nearest in meaning or have the query's words.

    Raises:
        DependencyError: A library that it needs is not installed.
        ConverseError: The embedder failed, or the query is blank.
    """
    hits = await index.search(query, limit=limit, update=False)
    return [
        NoteHit(path=book.paths.name(hit.document), line=hit.position, text=hit.text)
        for hit in hits
    ]


def search_words(book: NoteBook, query: str, *, limit: int) -> list[NoteHit]:
    """Return the passages with most of the query's words, one of each note. Blocks.

    Capital and small letters count as equal; a word is also found within a longer one.
    """
    words = set(_WORD.findall(query.casefold()))
    scored = []
    for note in book.list() if words else ():
        score, hit = _find_best(note, words)
        if score:
            scored.append((score, hit))
    scored.sort(key=lambda each: (-each[0], each[1].path))
    return [hit for _, hit in scored[:limit]]


def _find_best(note: Note, words: set[str]) -> tuple[int, NoteHit]:
    """Return the passage with the most words, and their number; words of the path count, too."""
    best = (0, NoteHit(path=note.path, line=1, text=note.text[:200]))
    path = note.path.casefold()
    named = {word for word in words if word in path}
    for piece in split_text(note.text):
        text = f"{piece.heading}\n{piece.text}".casefold()
        score = len(named | {word for word in words if word in text})
        if score > best[0]:
            best = (score, NoteHit(path=note.path, line=piece.line, text=piece.text))
    return (len(named), best[1]) if named and not best[0] else best
