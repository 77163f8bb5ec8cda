"""Passages with their vectors, searched by sqlite-vec, and their words, searched by FTS5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.conversations.index.tokenization import ROLES, prepare_text, restore_text
from vibe_llms.retrieval.opening import VECTORS, open_database, transaction
from vibe_llms.retrieval.passages import Passage, SourceDocument

if TYPE_CHECKING:
    import apsw

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ROLE_NUMBERS: Final = {role: number for number, role in enumerate(("", *ROLES))}


class PassageDatabase:
    """Passages with their vectors, in a file. Calls block; only one at a time is allowed.

    Args:
        path: The file; its directory is created if it is missing.
        model: Address of the embedder. Vectors of another one are discarded.

    Raises:
        DependencyError: APSW or sqlite-vec is not installed.
        OSError, apsw.Error: The file is unavailable; any other call may raise the latter.
    """

    def __init__(self, path: str, model: str) -> None:
        self._connection: apsw.Connection = open_database(path, model)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def width(self) -> int:
        """Length of the vectors; 0 before the first one."""
        return int(self._connection.execute("SELECT width FROM state").get)

    def count(self) -> int:
        """Return the number of passages."""
        return int(self._connection.execute("SELECT count(*) FROM passages").get)

    def survey_stamps(self, collection: str) -> dict[str, str]:
        """Return the stamp of each document in a collection, by its name."""
        rows = self._connection.execute(
            "SELECT name, stamp FROM documents WHERE collection = ?",
            (self._access_collection(collection),),
        )
        return dict(rows)

    def read_digests(self, collection: str, name: str) -> set[bytes]:
        """Return the digests of a document's passages."""
        rows = self._connection.execute(
            "SELECT digest FROM passages JOIN documents ON documents.key = document"
            " WHERE collection = ? AND name = ?",
            (self._access_collection(collection), name),
        )
        return {digest for (digest,) in rows}

    def add(self, collection: str, rows: Sequence[tuple[SourceDocument, Passage, bytes]]) -> None:
        """Store passages with their vectors: floats of four bytes.

        A passage that its document has already, at any position, is not stored again.
        """
        connection = self._connection
        with transaction(connection):
            if rows and self.width == 0:
                width = len(rows[0][2]) // 4
                connection.execute(VECTORS.format(width=width))
                connection.execute("UPDATE state SET width = ?", (width,))
            for document, passage, vector in rows:
                key = self._access_document(collection, document)
                self._insert(key, collection, document, passage, vector)

    def _access_collection(self, name: str) -> int:
        query = "SELECT key FROM collections WHERE name = ?"
        key = self._connection.execute(query, (name,)).get
        if key is None:
            self._connection.execute("INSERT OR IGNORE INTO collections (name) VALUES (?)", (name,))
            key = self._connection.execute(query, (name,)).get
        return int(key)

    def _access_document(self, collection: str, document: SourceDocument) -> int:
        key = self._access_collection(collection)
        self._connection.execute(
            "INSERT INTO documents (collection, name, stamp, is_part) VALUES (?, ?, '', ?)"
            " ON CONFLICT DO UPDATE SET is_part = excluded.is_part",
            (key, document.name, document.is_part),
        )
        query = "SELECT key FROM documents WHERE collection = ? AND name = ?"
        return int(self._connection.execute(query, (key, document.name)).get)

    def _insert(
        self, owner: int, collection: str, document: SourceDocument, passage: Passage, vector: bytes
    ) -> None:
        connection = self._connection
        moment = passage.timestamp
        microseconds = None if moment is None else (moment - _EPOCH) // _MICROSECOND
        connection.execute(
            "INSERT OR IGNORE INTO passages (document, digest, position, item, role, timestamp)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(owner, passage.digest, passage.position),
                *(passage.item, passage.role, microseconds),
            ),
        )
        if not connection.changes():
            return
        key = connection.last_insert_rowid()
        connection.execute(
            "INSERT INTO texts (rowid, heading, text) VALUES (?, ?, ?)",
            (key, prepare_text(passage.heading), prepare_text(passage.text)),
        )
        if not any(vector):  # it has no direction: no vector is near it
            return
        connection.execute(
            "INSERT INTO vectors (rowid, embedding, collection, role, is_part)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                *(key, vector, self._access_collection(collection)),
                *(_ROLE_NUMBERS[passage.role], int(document.is_part)),
            ),
        )

    def settle(self, collection: str, document: SourceDocument, stamp: str) -> None:
        """Mark a document as complete: keep just its passages, at their positions."""
        connection = self._connection
        # Equal passages of a document are found at the first of their positions.
        positions = {each.digest: each.position for each in reversed(document.passages)}
        with transaction(connection):
            owner = self._access_document(collection, document)
            rows: list[Any] = connection.execute(
                "SELECT key, digest, position FROM passages WHERE document = ?", (owner,)
            ).fetchall()
            self._remove([key for key, digest, _ in rows if digest not in positions])
            connection.executemany(
                "UPDATE passages SET position = ? WHERE key = ?",
                [
                    (positions[digest], key)
                    for key, digest, position in rows
                    if positions.get(digest, position) != position
                ],
            )
            connection.execute("UPDATE documents SET stamp = ? WHERE key = ?", (stamp, owner))

    def remove(self, collection: str, names: Iterable[str]) -> None:
        """Remove documents from a collection."""
        connection = self._connection
        for name in names:
            with transaction(connection):
                owner = self._access_document(collection, SourceDocument(name=name))
                query = "SELECT key FROM passages WHERE document = ?"
                self._remove([key for (key,) in connection.execute(query, (owner,))])
                connection.execute("DELETE FROM documents WHERE key = ?", (owner,))

    def _remove(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._connection.execute("DELETE FROM vectors WHERE rowid = ?", (key,))
            self._connection.execute("DELETE FROM texts WHERE rowid = ?", (key,))
            self._connection.execute("DELETE FROM passages WHERE key = ?", (key,))

    def find_nearest(
        self, vector: bytes, limit: int, collection: str, *, role: str | None, parts: bool
    ) -> list[tuple[int, float]]:
        """Return the keys of the nearest passages, nearest first, with their cosine similarity."""
        if self.width == 0 or not any(vector):
            return []
        query = "SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND k = ?"
        values: list[Any] = [vector, limit]
        filters = {
            "collection": self._access_collection(collection),
            "role": None if role is None else _ROLE_NUMBERS[role],
            "is_part": None if parts else 0,
        }
        for column, value in filters.items():
            if value is not None:
                query += f" AND {column} = ?"
                values.append(value)
        rows = self._connection.execute(f"{query} ORDER BY distance", values)
        return [(key, 1.0 - distance) for key, distance in rows]

    def find_words(
        self, match: str, limit: int, collection: str, *, role: str | None, parts: bool
    ) -> list[int]:
        """Return the keys of the passages that match a query of FTS5, the best first."""
        rows = self._connection.execute(
            "SELECT texts.rowid FROM texts JOIN passages ON passages.key = texts.rowid"
            " JOIN documents ON documents.key = document"
            " WHERE texts MATCH ? AND collection = ? AND (? IS NULL OR role = ?)"
            " AND (? OR NOT is_part) ORDER BY bm25(texts) LIMIT ?",
            (match, self._access_collection(collection), role, role, parts, limit),
        )
        return [key for (key,) in rows]

    def read(self, keys: Iterable[int]) -> Mapping[int, tuple[str, str, Passage]]:
        """Return passages by their keys, each with its collection and the name of its document."""
        found = {}
        for key in keys:
            for row in self._connection.execute(
                "SELECT collections.name, documents.name, item, position, role, timestamp,"
                " heading, text FROM passages JOIN documents ON documents.key = document"
                " JOIN collections ON collections.key = collection"
                " JOIN texts ON texts.rowid = passages.key WHERE passages.key = ?",
                (key,),
            ):
                collection, name, item, position, role, microseconds, heading, text = row
                moment = None if microseconds is None else _EPOCH + microseconds * _MICROSECOND
                passage = Passage(
                    item=item,
                    position=position,
                    role=role,
                    timestamp=moment,
                    heading=restore_text(heading),
                    text=restore_text(text),
                )
                found[key] = (collection, name, passage)
        return found
