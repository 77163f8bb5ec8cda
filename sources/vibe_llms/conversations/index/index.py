"""The index as callers see it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from vibe_llms.conversations.index.answers import ConversationRow, SearchHit
from vibe_llms.conversations.index.database import (
    UnusableIndexError,
    discard_database,
    is_damage,
    open_database,
    open_memory,
)
from vibe_llms.conversations.index.interfaces import DEFAULT_LIMIT
from vibe_llms.conversations.index.questions import (
    read_rows,
    search_places,
    snapshot,
    survey_newest,
)
from vibe_llms.conversations.index.refresh import refresh_messages, refresh_metadata

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.users import Progress

_Answer = TypeVar("_Answer")


class ConversationIndex:
    """Lists and searches the conversations in a directory.

    Each call sees what was on the disk when it began. The database is a cache: where it is
    missing, damaged or of another version it is made anew; where it cannot be used, because
    another process keeps it locked or the place is read-only, the answer comes from reading
    the files, which takes longer. Calls block; on an event loop use ``asyncio.to_thread``.
    Several threads and processes may ask at once.
    """

    def __init__(
        self,
        conversations: str | os.PathLike[str],
        database: str | os.PathLike[str],
        progress: Progress | None = None,
    ):
        """Touches nothing yet.

        Args:
            conversations: The directory with a folder for each conversation.
            database: The file of the cache; its directory is made when it is missing.
            progress: Shows the indexing of many megabytes, the first time above all.
        """
        # The database knows the directory by this name, whichever link led to it.
        self._conversations = os.path.realpath(conversations)
        self._database = os.path.abspath(database)
        self._progress = progress

    def survey(
        self, *, limit: int | None = DEFAULT_LIMIT, parts: bool = False
    ) -> list[ConversationRow]:
        """Returns conversations, the one in which something was last said first.

        Args:
            limit: How many at most; ``None`` for all.
            parts: Also those that are parts of others.
        """

        def question(connection: sqlite3.Connection) -> list[ConversationRow]:
            identities = survey_newest(connection, limit, parts=parts)
            refresh_metadata(connection, self._conversations, identities)
            with snapshot(connection):
                return read_rows(connection, identities)

        return self._answer(question)

    def search(
        self,
        query: str,
        *,
        limit: int = DEFAULT_LIMIT,
        role: str | None = None,
        parts: bool = False,
    ) -> list[SearchHit]:
        """Returns the canisters that hold all words of the query, the best match first.

        Searched is the text of all contents: text, reasoning, refusals, transcripts, names
        and titles of media, names and arguments of invocations, and results. Case and accents
        do not matter. Words in double quotes are a phrase, ``*`` ends a word of which only the
        beginning is given, every other sign only parts words.

        A fork does not repeat its parent: what they share is found in the parent.

        Args:
            query: As a person typed it; nothing in it is an error.
            limit: How many at most.
            role: Only canisters of this role.
            parts: Also in conversations that are parts of others.

        Raises:
            UnknownNameError: There is no such role.
            LimitError: The query has more than 64 words.
        """
        from vibe_llms.conversations.index.words import compose_match

        match = compose_match(query, role)

        def question(connection: sqlite3.Connection) -> list[SearchHit]:
            with snapshot(connection):
                hits = search_places(connection, match, limit, parts=parts)
            # Names and tags are looked at for what is shown alone, and may change what is to be
            # shown.
            if refresh_metadata(connection, self._conversations, {hit.id for hit in hits}):
                with snapshot(connection):
                    hits = search_places(connection, match, limit, parts=parts)
            return hits

        return self._answer(question)

    def _answer(self, question: Callable[[sqlite3.Connection], list[_Answer]]) -> list[_Answer]:
        if not _is_begun(self._conversations):
            return []
        # The second time is for the database that is made anew after the first was thrown away.
        for _ in range(2):
            try:
                with open_database(self._database, self._conversations) as connection:
                    refresh_messages(connection, self._conversations, self._progress)
                    return question(connection)
            except (UnusableIndexError, sqlite3.Error) as error:
                # Locked or read-only is no damage: others may be using it, and go on doing so.
                if isinstance(error, sqlite3.Error) and not is_damage(error):
                    break
            except OSError:
                break
            try:
                discard_database(self._database)
            except OSError:
                break
        with open_memory() as connection:
            refresh_messages(connection, self._conversations, self._progress)
            return question(connection)


def _is_begun(conversations: str) -> bool:
    """Tells whether anything was ever said here. Raises StoreError where that cannot be seen."""
    try:
        with os.scandir(conversations):
            return True
    except FileNotFoundError:
        return False
    except OSError as error:
        from vibe_llms.conversations.stores.mapping import produce_store_error  # after trouble only

        raise produce_store_error(error) from error
