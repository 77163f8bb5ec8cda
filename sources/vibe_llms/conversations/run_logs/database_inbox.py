"""Inbox of a conversation's runs in its database."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.conversations.run_logs.inbox import (
    CAPACITY,
    RunMessage,
    decode_message,
    describe_full,
)
from vibe_llms.events.codec import encode_event
from vibe_llms.exceptions import UnknownConversationError

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.postgresql.database import Database

_CACHE_SECONDS: Final = 0.1
"""Maximum age of the cached list of conversations with messages."""

_CACHED_LISTS: weakref.WeakKeyDictionary[Database, tuple[float, frozenset[str]]] = (
    weakref.WeakKeyDictionary()
)
"""Lists, and the moments at which they were queried."""

_CACHE_LOCK: Final = threading.Lock()


class DatabaseInbox:
    """Inbox in a database table; see :class:`.inbox.RunInbox`."""

    def __init__(self, database: Database, identity: str) -> None:
        self._database = database
        self._identity = identity

    @property
    def is_empty(self) -> bool:
        """True if the inbox is empty; messages of other processes are seen 0.1 seconds later."""
        return self._identity not in _survey_with_messages(self._database)

    def put(self, message: RunMessage) -> None:
        """Add a message."""
        with self._database.transact() as connection:
            row: tuple[bool, int] | None = connection.execute(
                "SELECT EXISTS (SELECT 1 FROM vibe_conversations WHERE id = %(id)s),"
                " (SELECT count(*) FROM vibe_letters WHERE conversation = %(id)s)",
                {"id": self._identity},
            ).fetchone()
            is_known, count = row or (False, 0)
            if not is_known:
                raise UnknownConversationError(
                    identity=self._identity, path=f"{self._database.location} {self._identity}"
                )
            if count >= CAPACITY:
                raise describe_full()
            connection.execute(
                "INSERT INTO vibe_letters (conversation, letter) VALUES (%s, %s)",
                (self._identity, encode_event(message).decode()),
            )
        _discard_list(self._database)

    def read(self) -> Sequence[RunMessage]:
        """Return all messages."""
        with self._database.transact(reading=True) as connection:
            rows: list[tuple[int, str]] = connection.execute(
                "SELECT number, letter FROM vibe_letters WHERE conversation = %s ORDER BY number",
                (self._identity,),
            ).fetchall()
        return self._decode(rows)

    def empty(self, handle: Callable[[Sequence[RunMessage]], None]) -> None:
        """Pass all messages to a function, which writes its events in this transaction."""
        with self._database.transact() as connection:
            rows: list[tuple[int, str]] = connection.execute(
                "SELECT number, letter FROM vibe_letters WHERE conversation = %s"
                " ORDER BY number FOR UPDATE",
                (self._identity,),
            ).fetchall()
            handle(self._decode(rows))
            connection.execute(
                "DELETE FROM vibe_letters WHERE number = ANY(%s)", ([number for number, _ in rows],)
            )
        _discard_list(self._database)

    def _decode(self, rows: Sequence[tuple[int, str]]) -> list[RunMessage]:
        location = f"{self._database.location} {self._identity} messages"
        return [decode_message(message.encode(), location, number) for number, message in rows]


def _survey_with_messages(database: Database) -> frozenset[str]:
    """Return the conversations with messages: one query for all runs of this process."""
    known = _CACHED_LISTS.get(database)
    moment = time.monotonic()
    if known is not None and moment <= known[0] + _CACHE_SECONDS:
        return known[1]
    with database.transact(reading=True) as connection:
        rows: list[tuple[str]] = connection.execute(
            "SELECT DISTINCT conversation FROM vibe_letters"
        ).fetchall()
    found = frozenset(each for (each,) in rows)
    with _CACHE_LOCK:
        if _CACHED_LISTS.get(database) is known:  # no inbox changed during the query
            _CACHED_LISTS[database] = (moment, found)
    return found


def _discard_list(database: Database) -> None:
    """Discard the cached list after a change, and the results of queries in progress."""
    with _CACHE_LOCK:
        _CACHED_LISTS[database] = (-math.inf, frozenset())
