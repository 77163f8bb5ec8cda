"""Search by meaning: passages of conversations and documents, by words and vectors together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from zlib import crc32

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.conversations.index.tokenization import compose_match
from vibe_llms.exceptions import ConverseError, Stage, StoreError, UnknownNameError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.files import expand_home, resolve_links
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like
from vibe_llms.instruments.embedders import Embedder
from vibe_llms.instruments.rankers import Ranker
from vibe_llms.messages.vectors import FLOAT_BYTES, ensure_texts
from vibe_llms.models.genera import Genus
from vibe_llms.retrieval.database import PassageDatabase
from vibe_llms.retrieval.ranking import MeaningHit, find_passages
from vibe_llms.retrieval.sources import (
    CONVERSATIONS,
    ROLES,
    ConversationSource,
    FolderSource,
    PassageSource,
    name_collection,
)

if TYPE_CHECKING:
    from vibe_llms.conversations.index.interfaces import Index
    from vibe_llms.messages.vectors import Vectors
    from vibe_llms.plugins.specification.users import Progress
    from vibe_llms.retrieval.passages import Passage, SourceDocument

_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")

BATCH: Final = 256
"""Passages between two commits: the most that an interruption loses."""

RANKED: Final = 50
"""Passages that a ranker orders."""

GROUP: Final = 32
"""Documents that are read together, so that short ones share a request."""


class MeaningIndex(Closing):
    """Search of conversations and folders by meaning and by words.

    The vectors are kept in the cache directory and updated by each search: only new texts are
    embedded. Use it as an asynchronous context manager, or close it at the end.

    Args:
        embedder: Address of the embedder; empty for the configured one, by default a model that
            runs on this machine.
        folders: Folders of text files to search.
        conversations: Search the conversations of the configured store.
        sources: Further documents to search.
        index: Index of the conversations; by default that of the application.
        application: The configuration to use; by default that of this process.
        progress: Shows the progress of embedding many documents.
    """

    def __init__(
        self,
        embedder: str = "",
        *,
        folders: Iterable[str | Path] = (),
        conversations: bool = True,
        sources: Iterable[PassageSource] = (),
        index: Index | None = None,
        application: Application | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._application = application or access_application()
        self._embedder = Embedder(embedder, application=self._application)
        self._folders = tuple(expand_home(folder).absolute() for folder in folders)
        self._conversations = conversations
        self._sources = tuple(sources)
        self._index = index
        self._progress = progress
        self._ranker: Ranker | None | Absence = ABSENT
        self._unreadable: dict[str, str] = {}  # errors of folders, by collection
        self._notices: tuple[str, ...] = ()
        self._database: PassageDatabase | None = None
        self._lock = asyncio.Lock()
        self._mutex = threading.Lock()

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about what the last call left out, such as a folder that cannot be read."""
        return self._notices

    async def update(self) -> int:
        """Embed the texts that are new or have changed; return the number of new passages.

        It commits regularly, so that the next call continues after an interruption. A folder that
        cannot be read is left out, and named in :attr:`notices`.

        Raises:
            DependencyError: A library that it needs is not installed.
            ConverseError: The embedder failed, or no source can be read.
        """
        async with self._open() as database:
            added = 0
            for source, stamps in await self._survey_sources():
                added += await self._update_source(database, source, stamps)
            return added

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        role: str | None = None,
        parts: bool = False,
        update: bool = True,
    ) -> list[MeaningHit]:
        """Return the passages that are nearest in meaning or have the query's words.

        The rankings of both are joined by reciprocal rank fusion. If the configuration has a
        ranker, it then orders the best :data:`RANKED` passages. Of several passages of one message,
        only the best is returned.

        Args:
            query: A question or a description, in any language that the embedder knows.
            limit: Maximum number.
            role: Only messages of this role: user, assistant, supervisor or document.
            parts: Include conversations that belong to another one, such as a flow's visits.
            update: First embed new messages; see :meth:`update`.

        Raises:
            UnknownNameError: The role is unknown, or is not searched by meaning.
            DependencyError, ConverseError: As :meth:`update`; or the query is blank.
        """
        if role is not None and role not in ROLES:
            raise UnknownNameError(kind="role", name=role, known=ROLES, stage=Stage.STORE)
        ensure_texts(query)  # before anything is downloaded or read
        if update:
            await self.update()
        match = compose_match(query, None, any_word=True)
        (vector,) = _list_bytes(await self._embedder.embed(query, purpose="query"))
        self._notices = tuple(self._unreadable.values())
        ranker = await self._access_ranker()
        fetched = limit if ranker is None else max(limit, RANKED)
        async with self._open() as database:
            sources = await asyncio.to_thread(self._list_sources)
            collections = [source.collection for source in sources]
            readable = [each for each in collections if each not in self._unreadable]
            hits = await self._call(
                find_passages, database, readable, vector, match, fetched, role, parts
            )
        if ranker is not None and len(hits) > 1:
            hits = await self._rank(ranker, query, hits)
        return hits[:limit]

    async def _access_ranker(self) -> Ranker | None:
        if isinstance(self._ranker, Absence):
            self._ranker = await asyncio.to_thread(_find_ranker, self._application)
        return self._ranker

    async def _rank(
        self, ranker: Ranker, query: str, hits: Sequence[MeaningHit]
    ) -> list[MeaningHit]:
        """Return the hits in the order of the ranker; the first :data:`RANKED` are ranked."""
        ranked, others = hits[:RANKED], hits[RANKED:]
        try:
            ranking = await ranker.rank(query, [hit.text for hit in ranked])
        except ConverseError as error:
            # The joined rankings are an order, too; a search works without the ranker.
            self._notices = (*self._notices, f"The passages were not ranked again: {error}")
            return list(hits)
        found = [attrs.evolve(ranked[each.index], relevance=each.score) for each in ranking.ranked]
        return [*found, *others]

    async def count(self) -> int:
        """Return the number of passages that can be searched."""
        async with self._open() as database:
            return await self._call(database.count)

    async def forget(self, folder: str | Path) -> int:
        """Remove the passages of a folder; return the number of its files that had some."""
        collection = name_collection(expand_home(folder).absolute())
        async with self._open() as database:
            names = await self._call(database.survey_stamps, collection)
            await self._call(database.remove, collection, names)
            return len(names)

    async def close(self) -> None:
        """Close the database, and the embedder unless others use it."""
        async with self._lock:
            if self._database is not None:
                database, self._database = self._database, None
                await self._call(database.close)
        await self._embedder.close()
        if isinstance(self._ranker, Ranker):
            await self._ranker.close()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[PassageDatabase]:
        """Use the database, one task at a time."""
        async with self._lock:
            if self._database is None:
                model = str((await self._embedder.access()).descriptor)
                configuration = self._application.configuration
                data = resolve_links(configuration.data_directory)
                place = f"{data}\0{configuration.store}\0{model}"
                folder = configuration.cache_directory / "meaning"
                path = folder / f"{crc32(place.encode('utf-8', 'surrogateescape')):08x}.sqlite"
                self._database = await self._call(PassageDatabase, str(path), model)
            yield self._database

    def _list_sources(self) -> list[PassageSource]:
        sources: list[PassageSource] = [FolderSource(folder) for folder in self._folders]
        if self._conversations:
            sources.insert(0, ConversationSource(self._index or self._application.index))
        return [*sources, *self._sources]

    async def _survey_sources(self) -> list[tuple[PassageSource, Mapping[str, str]]]:
        """Return the readable sources with the stamps of their documents.

        Raises:
            ConverseError: There is no readable source.
        """
        surveyed: list[tuple[PassageSource, Mapping[str, str]]] = []
        errors: dict[str, ConverseError] = {}
        for source in await asyncio.to_thread(self._list_sources):
            try:
                surveyed.append((source, await asyncio.to_thread(source.survey)))
            except ConverseError as error:
                if not isinstance(source, FolderSource):
                    raise
                errors[source.collection] = error
        if errors and not surveyed:
            raise next(iter(errors.values()))
        self._unreadable = {name: str(error) for name, error in errors.items()}
        self._notices = tuple(self._unreadable.values())
        return surveyed

    async def _update_source(
        self, database: PassageDatabase, source: PassageSource, current: Mapping[str, str]
    ) -> int:
        known = await self._call(database.survey_stamps, source.collection)
        gone = known.keys() - current.keys()
        await self._call(database.remove, source.collection, gone)
        changed = [name for name, stamp in current.items() if known.get(name) != stamp]
        progress = self._progress if len(changed) > 1 else None
        if progress is not None:
            what = "conversations" if source.collection == CONVERSATIONS else source.collection
            progress.start(len(changed), f"Reading {what}")
        added = 0
        try:
            for start in range(0, len(changed), GROUP):
                names = changed[start : start + GROUP]
                documents = await asyncio.to_thread(_read_all, source, names)
                stamps = {name: current[name] for name in names}
                added += await self._add(database, source.collection, documents, stamps)
                if progress is not None:
                    progress.advance(len(names))
        finally:
            if progress is not None:
                progress.finish()
        return added

    async def _add(
        self,
        database: PassageDatabase,
        collection: str,
        documents: Sequence[SourceDocument],
        stamps: Mapping[str, str],
    ) -> int:
        """Embed and store the new passages of some documents; return their number."""
        missing = await self._call(_list_missing, database, collection, documents)
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            texts = [passage.embedded_text for _, passage in batch]
            vectors = _list_bytes(await self._embedder.embed(texts, purpose="passage"))
            rows = [(*each, vector) for each, vector in zip(batch, vectors, strict=True)]
            await self._call(database.add, collection, rows)
        for document in documents:
            await self._call(database.settle, collection, document, stamps[document.name])
        return len(missing)

    async def _call(
        self, function: Callable[_P, _Answer], *args: _P.args, **settings: _P.kwargs
    ) -> _Answer:
        """Call a function of the database in a thread.

        If the task is cancelled, the thread continues, and the next one waits for its end.
        """

        def run() -> _Answer:
            with self._mutex:
                return function(*args, **settings)

        try:
            return await asyncio.to_thread(run)
        except Exception as error:
            if isinstance(error, ConverseError):
                raise
            import apsw  # installed, since its absence is a ConverseError

            if not isinstance(error, apsw.Error | OSError):
                raise
            folder = self._application.configuration.cache_directory
            detail = f"The index of passages in {folder} is unavailable: {error}."
            remedy = "Check that the folder is writable and has space, or delete it."
            raise StoreError(path=str(folder), detail=detail, remedy=remedy) from error


class SyncMeaningIndex(SyncFace[MeaningIndex]):
    """A meaning index for synchronous code, with the arguments of :class:`MeaningIndex`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(MeaningIndex)
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(MeaningIndex(*args, **settings))

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about what the last call left out, such as a folder that cannot be read."""
        return self.asynchronous.notices

    update = blocking(MeaningIndex.update)
    search = blocking(MeaningIndex.search)
    count = blocking(MeaningIndex.count)
    forget = blocking(MeaningIndex.forget)
    close = blocking(MeaningIndex.close)


def _find_ranker(application: Application) -> Ranker | None:
    """Return the configured ranker; ``None`` if it is an embedder, whose vectors are compared."""
    configuration = application.configuration
    name = configuration.find_default(Genus.RANKER)
    if name == configuration.find_default(Genus.EMBEDDER):  # as by default
        return None
    resolved = application.resolve_address(name)
    known = application.catalogue.access_attributes(resolved) if resolved.name else None
    is_embedder = known is not None and known.genus is Genus.EMBEDDER
    return None if is_embedder else Ranker(application=application)


def _read_all(source: PassageSource, names: Sequence[str]) -> list[SourceDocument]:
    return list(source.read(names))


def _list_missing(
    database: PassageDatabase, collection: str, documents: Sequence[SourceDocument]
) -> list[tuple[SourceDocument, Passage]]:
    """Return the passages that are not in the database, each once."""
    missing = []
    for document in documents:
        present = database.read_digests(collection, document.name)
        for passage in document.passages:
            if passage.digest not in present:
                present.add(passage.digest)
                missing.append((document, passage))
    return missing


def _list_bytes(vectors: Vectors) -> list[bytes]:
    size = vectors.width * FLOAT_BYTES
    return [vectors.data[start : start + size] for start in range(0, len(vectors.data), size)]
