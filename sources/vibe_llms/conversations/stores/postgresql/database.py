"""Connections to a database of PostgreSQL, and transactions over them."""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

import attrs

from vibe_llms.conversations.stores.postgresql.tables import NoTables, prepare, read_format
from vibe_llms.exceptions import StoreError, StoreUnavailableError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.optional_packages import needing

if TYPE_CHECKING:
    import psycopg

LOCK_SECONDS: Final = 60.0
"""Maximum wait for a row or a table that another process has locked."""
CONNECTIONS: Final = 16
"""Maximum number of connections of a process; further threads wait."""

DETECT_LOST_SERVER: Final[Mapping[str, str]] = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Parameters of connections, by which this process detects a vanished server in half a minute."""

DETECT_LOST_CLIENT: Final = (
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
    " SET tcp_keepalives_count = 3; SET tcp_user_timeout = 20000"
)
"""Statement that makes the server detect a vanished client in half a minute.

By default that takes over two hours, and an open transaction of the client keeps its locks.
"""

LOCK_CLAIM: Final = (
    "SELECT FROM vibe_claims WHERE conversation = %(claimed)s AND epoch = %(epoch)s FOR UPDATE"
)
"""Statement that locks a claim until the end of the transaction, if it is still valid."""

_PERMISSION_CODES: Final = ("3F000", "42501")
"""Error codes of PostgreSQL for a role that lacks permissions for the schema or an operation."""

_REFUSAL_TEXTS: Final = ("authentication failed", "does not exist", "pg_hba.conf", "not permitted")
"""Parts of messages by which a server refuses a role or a database.

Errors of connecting have no code.
"""


@frozen
class Fence:
    """Claim that a thread's changes require.

    Attributes:
        conversation: Conversation whose runs are claimed.
        epoch: Number of the claim.
        describe_lost: Makes the error for a claim that another process has taken over.
    """

    conversation: str
    epoch: int
    describe_lost: Callable[[], StoreError]

    @property
    def parameters(self) -> dict[str, Any]:
        """The claim as parameters of statements."""
        return {"claimed": self.conversation, "epoch": self.epoch}

    def lock_claim(self, connection: psycopg.Connection[Any]) -> None:
        """Lock the claim until the end of a transaction."""
        if not connection.execute(LOCK_CLAIM, self.parameters).rowcount:
            raise self.describe_lost()


class _ThreadState(threading.local):
    """State of one thread: the open transaction, and the claim that its changes require."""

    connection: psycopg.Connection[Any] | None = None
    fence: Fence | None = None


@define(eq=False)
class Database:
    """PostgreSQL database; several threads and processes may use it.

    Attributes:
        url: URL in the syntax of PostgreSQL's tools; omitted parts come from their variables and
            files, such as ``PGPASSWORD`` and ``~/.pgpass``.
    """

    url: str
    _idle: list[psycopg.Connection[Any]] = attrs.field(factory=list)
    _semaphore: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(CONNECTIONS))
    _thread_state: _ThreadState = attrs.field(factory=_ThreadState)
    _is_prepared: bool = False
    _process: int = attrs.field(factory=os.getpid)

    @property
    def location(self) -> str:
        """URL for display, without a password."""
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query=""))

    @contextmanager
    def transact(self, *, reading: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Run a transaction: apply all changes or none; join an open transaction of the thread.

        Args:
            reading: Whether the transaction is read-only, with a snapshot. If the tables do not
                exist yet, reads return nothing, and no tables are created.

        Raises:
            StoreError: The server is unreachable, or rejects a statement.
        """
        if self._thread_state.connection is not None:
            yield self._thread_state.connection
            return
        with self._semaphore, self._begin_or_empty(reading=reading) as connection:
            if self.fence is not None and not reading:
                self.fence.lock_claim(connection)
            self._thread_state.connection = connection
            try:
                yield connection
            finally:
                self._thread_state.connection = None

    @contextmanager
    def _begin_or_empty(self, *, reading: bool) -> Iterator[psycopg.Connection[Any]]:
        if reading and not self._is_prepared:
            with self._lend(reading=True, prepares=False) as connection:
                is_empty = read_format(connection) is None
            if is_empty:
                yield cast("psycopg.Connection[Any]", NoTables())
                return
        with self.begin(reading=reading) as connection:
            yield connection

    @property
    def is_joined(self) -> bool:
        """True if this thread has an open transaction."""
        return self._thread_state.connection is not None

    @property
    def fence(self) -> Fence | None:
        """Claim that this thread's changes require."""
        return self._thread_state.fence

    @contextmanager
    def fenced(self, fence: Fence) -> Iterator[None]:
        """Make this thread's changes require a valid claim, inside the block.

        Each transaction, also an open one, locks the claim until its end. For :meth:`perform`, the
        statement itself must check the claim.
        """
        previous, self._thread_state.fence = self.fence, fence
        try:
            if self.is_joined:
                with self.transact() as connection:
                    fence.lock_claim(connection)
            yield
        finally:
            self._thread_state.fence = previous

    def perform(self, statement: str, parameters: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        """Execute one statement as a separate transaction, in one round trip.

        If this thread has an open transaction, join it.

        Returns:
            The complete, already fetched result.

        Raises:
            StoreError: The server is unreachable, or rejects a statement.
        """
        if self.is_joined:
            with self.transact() as connection:
                return connection.execute(statement, parameters)
        with self._semaphore, self._lend(reading=False) as connection:
            return connection.execute(statement, parameters)

    @contextmanager
    def begin(self, *, reading: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Begin a transaction like :meth:`transact`, but one that no other can join."""
        with self._lend(reading=reading) as connection, connection.transaction():
            yield connection

    @contextmanager
    def _lend(self, *, reading: bool, prepares: bool = True) -> Iterator[psycopg.Connection[Any]]:
        with needing("postgresql", "psycopg", "A store in PostgreSQL"):
            import psycopg
        try:
            connection = self._take() or self._open()
            try:
                if prepares and not self._is_prepared:
                    connection.isolation_level = connection.read_only = None
                    prepare(connection, self.location)
                    self._is_prepared = True
                connection.isolation_level = (
                    psycopg.IsolationLevel.REPEATABLE_READ if reading else None
                )
                connection.read_only = True if reading else None
                yield connection
            finally:
                self._put_back(connection)
        except psycopg.Error as error:
            raise describe(error, self.location) from error

    def _open(self) -> psycopg.Connection[Any]:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        parameters = conninfo_to_dict(self.url)
        # Settings in the user's URL take precedence.
        settings: dict[str, Any] = {
            "fallback_application_name": "vibe-llms",
            **DETECT_LOST_SERVER,
            **parameters,
        }
        connection = psycopg.connect("", autocommit=True, **settings)
        try:
            connection.execute(
                f"SET lock_timeout = {int(LOCK_SECONDS * 1000)}; {DETECT_LOST_CLIENT}"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self) -> psycopg.Connection[Any] | None:
        if self._process != os.getpid():  # a child process must not use its parent's connections
            self._idle.clear()
            self._process = os.getpid()
        while self._idle:
            with suppress(IndexError):  # another thread has taken the connection
                connection = self._idle.pop()
                if not _has_ended(connection):
                    return connection
                connection.close()
        return None

    def _put_back(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg.pq import TransactionStatus

        if connection.info.transaction_status == TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _close, self._idle)  # also at the end of the process

    def close(self) -> None:
        """Close idle connections; the next transaction connects again."""
        _close(self._idle)


def _close(idle: list[psycopg.Connection[Any]]) -> None:
    while idle:
        idle.pop().close()


def _has_ended(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the server closed an idle connection: only then is there data to read."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def is_outage(error: BaseException | None) -> bool:
    """Return whether an error means that PostgreSQL is unreachable now."""
    import psycopg

    return isinstance(error, psycopg.OperationalError) and not _is_refused(error)


def _is_refused(error: Exception) -> bool:
    """Return whether a server refuses a role or a database, so that waiting does not help."""
    message = str(error)
    return "FATAL:" in message and any(each in message for each in _REFUSAL_TEXTS)


def describe(error: psycopg.Error, location: str) -> StoreError:
    """Create the StoreError for an error of PostgreSQL."""
    import psycopg

    message = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, psycopg.errors.LockNotAvailable):
        detail = f"{location}: locked by other processes for more than {LOCK_SECONDS:g} seconds."
        return StoreUnavailableError(path=location, detail=detail, remedy="Try again later.")
    detail = f"{location}: {message.rstrip('.')}."
    if is_outage(error):
        remedy = (
            "Check that the server is running and accepts your login: `psql` takes the same URL."
        )
        return StoreUnavailableError(path=location, detail=detail, remedy=remedy)
    remedy = ""
    if _is_refused(error):
        remedy = "Correct the user, password and database: `psql` takes the same URL."
    if error.sqlstate in _PERMISSION_CODES:
        remedy = (
            "Allow this role to create and use tables: GRANT USAGE, CREATE ON SCHEMA public TO it."
        )
    return StoreError(path=location, detail=detail, remedy=remedy)
