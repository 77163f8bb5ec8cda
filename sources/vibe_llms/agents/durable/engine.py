"""The database of a runner: DBOS's tables, in a file of SQLite or a schema of PostgreSQL."""

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
from vibe_llms.conversations.stores.postgresql.database import is_outage
from vibe_llms.exceptions import StoreError, StoreUnavailableError
from vibe_llms.installing import needing
from vibe_llms.values import frozen

if TYPE_CHECKING:
    import sqlalchemy
    from dbos import DBOSClient, Serializer

APPLICATION: Final = "vibe-llms"
VERSION: Final = "vibe-1"
"""What DBOS calls the version of the program: a run decides anew what comes next, so that any may
go on with those of any other. It rises when arguments of the workflow change."""

_SCHEMA: Final = "vibe_runner"
_CONNECTIONS: Final = 10
_DOOR = threading.Lock()


@frozen(kw_only=True, eq=False)
class DurableDatabase:
    """An open database.

    Attributes:
        place: Its URL, as it may be shown.
        schema: Of its tables; ``None`` where the database has none.
        connections: To it.
        client: Asks for work, and looks at what there is.
        serializer: Of what DBOS stores: JSON, which runs no code when it is read.
    """

    place: str
    schema: str | None
    connections: sqlalchemy.Engine
    client: DBOSClient
    serializer: Serializer

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.schema is None

    @property
    def prefix(self) -> str:
        """Of names of tables in statements."""
        return f'"{self.schema}".' if self.schema else ""

    def close(self) -> None:
        """Closes all connections."""
        self.client.destroy()
        self.connections.dispose()


def open_engine(url: str) -> DurableDatabase:
    """Opens the database of a runner, and makes its tables where there are none.

    Raises:
        StoreError: It is out of reach.
        DependencyError: What this needs is not installed.
    """
    with needing("durable", "dbos", "A runner with workers"):
        from dbos import DBOS, DBOSClient
        from dbos._serialization import DBOSPortableJSON
    logging.getLogger("dbos").setLevel(logging.ERROR)
    place = describe_place(url)
    with reaching(place), _DOOR:  # DBOS sets up its logger anew with each
        connections = _connect(url)
        schema = None if url.startswith("sqlite") else _choose_schema(connections)
        plain = connections.url.render_as_string(hide_password=False)
        with _supplying_unixepoch():
            DBOS.migrate(plain, schema=schema or "dbos")
        client = DBOSClient(
            system_database_engine=connections,
            dbos_system_schema=schema,
            serializer=DBOSPortableJSON,
            application_name=APPLICATION,
            retry_connection_errors=False,
        )
    return DurableDatabase(
        place=place,
        schema=schema,
        connections=connections,
        client=client,
        serializer=DBOSPortableJSON,
    )


def describe_place(url: str) -> str:
    """Returns a URL as it may be shown: without a password."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = "" if is_postgresql_url(url) else parts.query
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=query)) if at else url.partition("?")[0]


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Words what a database says within. Raises StoreError."""
    from dbos._error import DBOSException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except StoreError:  # is an OSError, too
        raise
    except (SQLAlchemyError, DBOSException, OSError) as error:
        said = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        if not place.startswith("sqlite") and is_outage(getattr(error, "orig", None)):
            raise StoreUnavailableError(
                path=place, detail=f"{place}: {said.rstrip('.')}.", remedy=_advise(place, said)
            ) from error
        raise StoreError(
            path=place,
            detail=f"{place}: {(said or type(error).__name__).rstrip('.')}.",
            remedy=_advise(place, said),
        ) from error


def _advise(place: str, said: str) -> str:
    if place.startswith("sqlite"):
        return advise_file(said)
    if said.startswith("permission denied"):
        return "Let this role make a schema: GRANT CREATE ON DATABASE … TO it."
    return "See that the runner's database is there and lets you in."


def _connect(url: str) -> sqlalchemy.Engine:
    import sqlalchemy

    if url.startswith("sqlite"):
        return _open_file(url)
    return sqlalchemy.create_engine(
        sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS,
        pool_pre_ping=True,
        # A server that has vanished is noticed within half a minute, as by the store.
        connect_args={
            "connect_timeout": 10,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20000,
            "application_name": APPLICATION,
        },
    )


def _open_file(url: str) -> sqlalchemy.Engine:
    import sqlalchemy

    path = Path(url.removeprefix("sqlite:///"))
    check_folder(path)
    engine = sqlalchemy.create_engine(url)

    def prepare(connection: sqlite3.Connection, record: object) -> None:
        _supply_unixepoch(connection, record)
        connection.isolation_level = "IMMEDIATE"  # writers wait for each other
        # Readers do not wait for writers, and a commit costs no flush; that the power fails loses
        # the last moments of the schedule, which whoever looks through the runs finds again.
        for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA foreign_keys=ON")

    sqlalchemy.event.listen(engine, "connect", prepare)
    with engine.connect():
        return engine


@contextmanager
def _supplying_unixepoch() -> Iterator[None]:
    """Supply the function to connections that DBOS opens by itself to make its tables."""
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
    """Returns the schema of DBOS's tables: where the path leads elsewhere, they are apart, too."""
    import sqlalchemy

    with connections.connect() as connection:
        current = connection.execute(sqlalchemy.text("SELECT current_schema()")).scalar()
    return _SCHEMA if current in (None, "public") else f"{current}_runner"
