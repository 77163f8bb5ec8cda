"""Tables: the meaning of each column, and their creation in an empty database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import StoreError

if TYPE_CHECKING:
    import psycopg

FORMAT: Final = 6
"""Version of the tables; increased by changes that earlier versions of this program cannot read."""

_LOCK: Final = 0x76696265
"""Key of the advisory lock under which a process creates or migrates the tables."""

# A conversation has the lines with the numbers from `start` to before `next`, counted over the
# whole history; those before `start` belong to its parent. `merged` is the number of its lines that
# were moved from deleted parents. Names and tags are JSON, as PostgreSQL's texts cannot contain the
# character 0. `owner` identifies this database in content backends. Content without `data` is in
# the backend `place`; its `size` is set when it is complete there.
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
CREATE TABLE vibe_vendor_files (
    content text COLLATE "C" NOT NULL REFERENCES vibe_contents (id) ON DELETE CASCADE,
    account text NOT NULL,
    file text NOT NULL,
    ends timestamptz,
    PRIMARY KEY (content, account)
);
CREATE TABLE vibe_notes (
    key text COLLATE "C" PRIMARY KEY,
    text text NOT NULL
);
CREATE TABLE vibe_deleted_notes (
    key text COLLATE "C" PRIMARY KEY,
    digest text NOT NULL,
    moment timestamptz NOT NULL
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

_MIGRATIONS: Final = {
    1: "ALTER TABLE vibe_contents ALTER COLUMN data DROP NOT NULL,"
    " ADD COLUMN place text, ADD COLUMN size bigint",
    2: "ALTER TABLE vibe_format ADD COLUMN owner text NOT NULL DEFAULT gen_random_uuid()",
    3: 'CREATE TABLE vibe_vendor_files (content text COLLATE "C" NOT NULL REFERENCES'
    " vibe_contents (id) ON DELETE CASCADE, account text NOT NULL, file text NOT NULL,"
    " ends timestamptz, PRIMARY KEY (content, account))",
    4: 'CREATE TABLE vibe_notes (key text COLLATE "C" PRIMARY KEY, text text NOT NULL)',
    5: 'CREATE TABLE vibe_deleted_notes (key text COLLATE "C" PRIMARY KEY,'
    " digest text NOT NULL, moment timestamptz NOT NULL)",
}
"""Statement that migrates each earlier format to the next one."""


class NoTables:
    """Replacement for a connection before the tables exist: all reads return no rows."""

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
    version = read_format(connection)
    if version is None or version in _MIGRATIONS:
        # Locked before the transaction begins: after waiting inside of it, the transaction would
        # not see the tables that the other process has created.
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        with connection.transaction():
            version = _migrate(connection)
        connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
    if version != FORMAT:
        raise StoreError(
            path=place,
            detail=f"The tables in {place} have format {version}; this version of vibe-llms reads "
            f"format {FORMAT}.",
            remedy="Use the version that created them.",
        )


def _migrate(connection: psycopg.Connection[Any]) -> int | None:
    version = read_format(connection)
    if version is None:
        connection.execute(_TABLES)
        connection.execute("INSERT INTO vibe_format (version) VALUES (%s)", (FORMAT,))
        return FORMAT
    while (statement := _MIGRATIONS.get(version)) is not None:
        connection.execute(statement)
        version += 1
        connection.execute("UPDATE vibe_format SET version = %s", (version,))
    return version


def read_format(connection: psycopg.Connection[Any]) -> int | None:
    """Return the format of the tables; ``None`` if they do not exist."""
    row: tuple[Any] | None = connection.execute("SELECT to_regclass('vibe_format')").fetchone()
    if row is None or row[0] is None:
        return None
    row = connection.execute("SELECT max(version) FROM vibe_format").fetchone()
    return row[0] if row else None
