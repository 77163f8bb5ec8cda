"""Database of a runner: the tables of DBOS, in a SQLite file or a PostgreSQL schema."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from vibe_llms.batches.databases import advise_file, check_folder
from vibe_llms.configuration.definitions import is_postgresql_url
from vibe_llms.conversations.stores.postgresql.database import (
    DETECT_LOST_CLIENT,
    DETECT_LOST_SERVER,
    is_outage,
)
from vibe_llms.exceptions import StoreError, StoreUnavailableError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.optional_packages import needing

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy
    from dbos import DBOSClient, Serializer

APPLICATION: Final = "vibe-llms"
VERSION: Final = "vibe-1"
"""Application version for DBOS: a worker takes only work of its own version.

A run decides its next step from its log, so any release can continue it. Raise this when the
arguments of a workflow change.
"""

_SCHEMA: Final = "vibe_runner"
_CONNECTIONS: Final = 10
_LOCK = threading.Lock()


@frozen(kw_only=True, eq=False)
class DurableDatabase:
    """Open database of a runner.

    Attributes:
        location: The URL without its password.
        schema: The schema of the tables; ``None`` in SQLite.
        connections: Connection pool.
        client: Client of DBOS: enqueues work and lists it.
        serializer: JSON, which cannot execute code when it is read.
    """

    location: str
    schema: str | None
    connections: sqlalchemy.Engine
    client: DBOSClient
    serializer: Serializer

    @property
    def is_sqlite(self) -> bool:
        """True if the database is a SQLite file on this machine."""
        return self.schema is None

    @property
    def prefix(self) -> str:
        """Prefix of table names in statements."""
        return f'"{self.schema}".' if self.schema else ""

    def close(self) -> None:
        """Close all connections."""
        self.client.destroy()
        self.connections.dispose()


def open_database(url: str) -> DurableDatabase:
    """Open the database of a runner; create missing tables.

    Raises:
        StoreError: The database is unreachable.
        DependencyError: The extra ``durable`` is not installed.
    """
    with needing("durable", "dbos", "A runner with workers"):
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
    logging.getLogger("dbos").setLevel(logging.ERROR)
    location, serializer = describe_location(url), DBOSPortableJSONSerializer()
    with translating_errors(location), _LOCK:  # each client configures the logger of DBOS
        connections = _connect(url)
        schema = None if url.startswith("sqlite") else _choose_schema(connections)
        plain = connections.url.render_as_string(hide_password=False)
        with _supplying_unixepoch():
            DBOS.migrate(plain, schema=schema or "dbos")
        client = DBOSClient(
            system_database_engine=connections,
            dbos_system_schema=schema,
            serializer=serializer,
            application_name=APPLICATION,
            retry_connection_errors=False,
        )
    return DurableDatabase(
        location=location,
        schema=schema,
        connections=connections,
        client=client,
        serializer=serializer,
    )


def describe_location(url: str) -> str:
    """Return a URL without its password."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = "" if is_postgresql_url(url) else parts.query
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=query)) if at else url.partition("?")[0]


@contextmanager
def translating_errors(location: str) -> Iterator[None]:
    """Turn errors of the database into StoreError."""
    from dbos import error as dbos_errors
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except StoreError:  # a subclass of OSError
        raise
    except (SQLAlchemyError, dbos_errors.DBOSException, OSError) as error:
        message = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        if not location.startswith("sqlite") and is_outage(getattr(error, "orig", None)):
            raise StoreUnavailableError(
                path=location,
                detail=f"{location}: {message.rstrip('.')}.",
                remedy=_advise(location, message),
            ) from error
        raise StoreError(
            path=location,
            detail=f"{location}: {(message or type(error).__name__).rstrip('.')}.",
            remedy=_advise(location, message),
        ) from error


def _advise(location: str, message: str) -> str:
    if location.startswith("sqlite"):
        return advise_file(message)
    if message.startswith("permission denied"):
        return "Allow this role to create a schema: GRANT CREATE ON DATABASE … TO it."
    return "Check that the runner's database exists and accepts your login."


def _connect(url: str) -> sqlalchemy.Engine:
    import sqlalchemy

    if url.startswith("sqlite"):
        return _open_file(url)
    engine = sqlalchemy.create_engine(
        sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS,
        pool_pre_ping=True,
        connect_args={**DETECT_LOST_SERVER, "application_name": APPLICATION},
    )

    def prepare(connection: psycopg.Connection[Any], record: object) -> None:
        connection.execute(DETECT_LOST_CLIENT)
        connection.commit()

    sqlalchemy.event.listen(engine, "connect", prepare)
    return engine


def _open_file(url: str) -> sqlalchemy.Engine:
    import sqlalchemy

    path = Path(url.removeprefix("sqlite:///"))
    check_folder(path)
    engine = sqlalchemy.create_engine(url)

    def prepare(connection: sqlite3.Connection, record: object) -> None:
        _supply_unixepoch(connection, record)
        connection.isolation_level = "IMMEDIATE"  # writers wait for each other
        # Readers do not wait for writers, and a commit does not flush the disk. After a power
        # failure the last enqueued work is missing; the next scan of the store enqueues it again.
        for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA foreign_keys=ON")

    sqlalchemy.event.listen(engine, "connect", prepare)
    with engine.connect():
        return engine


@contextmanager
def _supplying_unixepoch() -> Iterator[None]:
    """Add the function to connections that DBOS opens to create its tables."""
    import sqlalchemy

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _supply_unixepoch)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", _supply_unixepoch)


def _supply_unixepoch(connection: Any, _: object) -> None:
    """Define ``unixepoch('subsec')`` on a connection where SQLite is too old to have it.

    On Python 3.12 and later DBOS takes the default of its times from this function, which SQLite
    has since 3.42: https://www.sqlite.org/lang_datefunc.html, read 2026-11-28.
    """
    if sqlite3.sqlite_version_info < (3, 42) and isinstance(connection, sqlite3.Connection):
        connection.create_function("unixepoch", 1, lambda _: time.time_ns() // 1_000_000 / 1000)


def _choose_schema(connections: sqlalchemy.Engine) -> str:
    """Return the schema for the tables of DBOS; one per schema of the search path."""
    import sqlalchemy

    with connections.connect() as connection:
        current = connection.execute(sqlalchemy.text("SELECT current_schema()")).scalar()
    return _SCHEMA if current in (None, "public") else f"{current}_runner"
