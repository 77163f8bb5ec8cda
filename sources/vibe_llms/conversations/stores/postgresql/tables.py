"""Tables: the meaning of each column, and their creation in an empty database."""

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
# those before `start` belong to its parent. `merged` of its lines come from deleted parents. The
# user's texts are JSON: PostgreSQL text cannot contain the character 0, but a name may. `owner`
# identifies this database in places that have content of it. Content without `data` is at its
# `place`, and gets a `size` once it is complete there.
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
    """Null connection, used before the tables exist: all reads return nothing."""

    rowcount = 0

    def execute(self, statement: str, *_: object, **__: object) -> NoTables:
        """Return itself, without rows."""
        assert statement.lstrip().startswith("SELECT"), "This transaction is read-only."
        return self

    def fetchone(self) -> None:
        """Return no row."""

    def fetchall(self) -> list[Any]:
        """Return no rows."""
        return []


def prepare(connection: psycopg.Connection[Any], place: str) -> None:
    """Create missing tables, and migrate those of earlier versions.

    Raises:
        StoreError: A later version of this program has created them.
    """
    found = read_format(connection)
    if found is None or found in _STEPS:
        # Lock before the transaction begins: after a wait inside the transaction, it would still
        # not see the new table.
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
    """Return the format of the tables; ``None`` if they do not exist."""
    row: tuple[Any] | None = connection.execute("SELECT to_regclass('vibe_format')").fetchone()
    if row is None or row[0] is None:
        return None
    row = connection.execute("SELECT max(version) FROM vibe_format").fetchone()
    return row[0] if row else None
