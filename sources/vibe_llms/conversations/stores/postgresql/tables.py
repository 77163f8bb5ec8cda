"""The tables: what each column means, and making them in an empty database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    import psycopg

FORMAT: Final = 1
"""Rises when tables change so that earlier versions must keep off."""

_LOCK: Final = 0x76696265
"""Two processes that find an empty database make its tables one after the other."""

# A conversation has the lines with the numbers `start` to `next`, counted over the whole history;
# those before `start` are its parent's. `merged` of its lines came over from deleted parents.
# Texts of the user's are JSON: PostgreSQL has no text with the character 0, and a name may have it.
_TABLES: Final = """
CREATE TABLE vibe_format (version integer NOT NULL);
CREATE TABLE vibe_conversations (
    id text COLLATE "C" PRIMARY KEY,
    about text NOT NULL,
    created timestamptz NOT NULL,
    updated timestamptz NOT NULL,
    parent text COLLATE "C" REFERENCES vibe_conversations (id),
    start bigint NOT NULL,
    next bigint NOT NULL,
    merged bigint NOT NULL
);
CREATE INDEX vibe_forks ON vibe_conversations (parent);
CREATE TABLE vibe_canisters (
    conversation text COLLATE "C" NOT NULL REFERENCES vibe_conversations (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (conversation, number)
);
CREATE TABLE vibe_contents (
    id text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL,
    about text NOT NULL,
    created timestamptz NOT NULL,
    added timestamptz NOT NULL
);
CREATE TABLE vibe_claims (
    conversation text COLLATE "C" PRIMARY KEY
        REFERENCES vibe_conversations (id) ON DELETE CASCADE,
    epoch bigint NOT NULL,
    until timestamptz NOT NULL
);
CREATE TABLE vibe_events (
    conversation text COLLATE "C" NOT NULL REFERENCES vibe_conversations (id) ON DELETE CASCADE,
    sequence bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (conversation, sequence)
);
CREATE TABLE vibe_letters (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation text COLLATE "C" NOT NULL REFERENCES vibe_conversations (id) ON DELETE CASCADE,
    letter text NOT NULL
);
CREATE INDEX vibe_inboxes ON vibe_letters (conversation, number);
"""


def prepare(connection: psycopg.Connection[Any], place: str) -> None:
    """Makes the tables where there are none.

    Raises:
        StoreError: A later version of this program has made them.
    """
    if not _has_tables(connection):
        # Before the transaction begins: one that waits within it goes on believing that there is
        # no such table.
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        with connection.transaction():
            if not _has_tables(connection):
                connection.execute(_TABLES)
                connection.execute("INSERT INTO vibe_format VALUES (%s)", (FORMAT,))
        connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
    row: tuple[int] | None = connection.execute("SELECT max(version) FROM vibe_format").fetchone()
    if row is None or row[0] != FORMAT:
        raise StoreError(
            path=place,
            detail=f"The tables in {place} have the format {row and row[0]}; this version of "
            f"vibe-llms reads {FORMAT}.",
            remedy="Use the version that has made them.",
        )


def _has_tables(connection: psycopg.Connection[Any]) -> bool:
    row: tuple[Any] | None = connection.execute("SELECT to_regclass('vibe_format')").fetchone()
    return row is not None and row[0] is not None
