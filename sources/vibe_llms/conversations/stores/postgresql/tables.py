"""The tables: what each column means, and making them in an empty database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    import psycopg

FORMAT: Final = 3
"""Rises when tables change so that earlier versions must keep off."""

_LOCK: Final = 0x76696265
"""Two processes that find an empty database make its tables one after the other."""

# A conversation has the lines with the numbers `start` to `next`, counted over the whole history;
# those before `start` are its parent's. `merged` of its lines came over from deleted parents.
# Texts of the user's are JSON: PostgreSQL has no text with the character 0, and a name may have it.
# The `owner` is this database, as places say that have content of it.
# Content without `data` is at its `place`, and has a `size` as soon as it is there whole.
_TABLES: Final = """
CREATE TABLE vibe_format (
    version integer NOT NULL,
    owner text NOT NULL DEFAULT gen_random_uuid()
);
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
    data bytea,
    about text NOT NULL,
    created timestamptz NOT NULL,
    added timestamptz NOT NULL,
    place text,
    size bigint
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

_STEPS: Final = {
    1: "ALTER TABLE vibe_contents ALTER COLUMN data DROP NOT NULL,"
    " ADD COLUMN place text, ADD COLUMN size bigint",
    2: "ALTER TABLE vibe_format ADD COLUMN owner text NOT NULL DEFAULT gen_random_uuid()",
}
"""What makes of each earlier format the next one."""


class NoTables:
    """Stands for a connection where there are no tables yet: all that is read there is nothing."""

    rowcount = 0

    def execute(self, statement: str, *_: object, **__: object) -> NoTables:
        """Finds nothing."""
        assert statement.lstrip().startswith("SELECT"), "This transaction is read-only."
        return self

    def fetchone(self) -> None:
        """Returns no row."""

    def fetchall(self) -> list[Any]:
        """Returns no rows."""
        return []


def prepare(connection: psycopg.Connection[Any], place: str) -> None:
    """Makes the tables where there are none, and those of earlier versions what they are now.

    Raises:
        StoreError: A later version of this program has made them.
    """
    found = read_format(connection)
    if found is None or found in _STEPS:
        # Before the transaction begins: one that waits within it goes on believing that there is
        # no such table.
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        with connection.transaction():
            found = _bring_up(connection)
        connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
    if found != FORMAT:
        raise StoreError(
            path=place,
            detail=f"The tables in {place} have format {found}; this version of vibe-llms reads "
            f"format {FORMAT}.",
            remedy="Use the version that created them.",
        )


def _bring_up(connection: psycopg.Connection[Any]) -> int | None:
    found = read_format(connection)
    if found is None:
        connection.execute(_TABLES)
        connection.execute("INSERT INTO vibe_format (version) VALUES (%s)", (FORMAT,))
        return FORMAT
    while (step := _STEPS.get(found)) is not None:
        connection.execute(step)
        found += 1
        connection.execute("UPDATE vibe_format SET version = %s", (found,))
    return found


def read_format(connection: psycopg.Connection[Any]) -> int | None:
    """Returns the format of the tables; ``None`` where there are none."""
    row: tuple[Any] | None = connection.execute("SELECT to_regclass('vibe_format')").fetchone()
    if row is None or row[0] is None:
        return None
    row = connection.execute("SELECT max(version) FROM vibe_format").fetchone()
    return row[0] if row else None
