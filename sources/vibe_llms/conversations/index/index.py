"""Index of a directory of conversations."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from vibe_llms.conversations.index.database import (
    UnusableIndexError,
    compose_database_path,
    discard_database,
    is_damage,
    open_database,
    open_memory,
)
from vibe_llms.conversations.index.interfaces import DEFAULT_LIMIT
from vibe_llms.conversations.index.questions import (
    Lineage,
    gather_relatives,
    has_new_text,
    read_rows,
    search_canisters,
    snapshot,
    survey_newest,
)
from vibe_llms.conversations.index.refresh import refresh_messages, refresh_metadata
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vibe_llms.conversations.index.messages import IndexedConversation
    from vibe_llms.plugins.specification.users import Progress

_Result = TypeVar("_Result")


class ConversationIndex:
    """Lists and full-text search of the conversations in a directory.

    Each call sees the files as they were when the call began. The database is a cache: if it is
    missing, damaged or of another version, it is rebuilt; if it is locked or read-only, calls read
    the files, which takes longer. Calls block; on an event loop use ``asyncio.to_thread``. Threads
    and processes can use it at the same time.
    """

    def __init__(
        self,
        conversations: str | os.PathLike[str],
        database: str | os.PathLike[str],
        progress: Progress | None = None,
    ):
        """Initialize the index without opening files.

        Args:
            conversations: Directory with a folder for each conversation.
            database: File of the cache; a missing directory is created.
            progress: Shows the progress of indexing many megabytes.
        """
        # The database stores this name of the directory, without symbolic links.
        self._conversations = os.path.realpath(conversations)
        self._database = os.path.abspath(database)
        self._progress = progress

    @classmethod
    def open_cached(
        cls, conversations: Path, cache: Path, progress: Progress | None = None
    ) -> ConversationIndex:
        """Return the index of a store; the cache directory has a database for each store.

        Args:
            conversations: Directory with a folder for each conversation.
            cache: Cache directory.
            progress: Shows the progress of indexing many megabytes.
        """
        return cls(conversations, compose_database_path(cache, conversations), progress)

    def survey(
        self, *, limit: int | None = DEFAULT_LIMIT, parts: bool = False
    ) -> list[ConversationRow]:
        """Return conversations, the newest message first.

        Args:
            limit: Maximum number; ``None`` for all.
            parts: Include conversations that belong to another one, such as a flow's visits.
        """

        def read(connection: sqlite3.Connection) -> list[ConversationRow]:
            return self._describe(connection, survey_newest(connection, limit, parts=parts))

        return self._run(read, everything=limit is None)

    def survey_relatives(self, identity: str) -> list[ConversationRow]:
        """Return a conversation, its ancestors, and all forks of these; empty if it is unknown."""

        def read(connection: sqlite3.Connection) -> list[ConversationRow]:
            # A fork of a deleted conversation gets another parent.
            forks = "SELECT id FROM conversations WHERE parent IS NOT NULL"
            identities = [each for (each,) in connection.execute(forks)]
            refresh_metadata(connection, self._conversations, identities)
            parents = dict(connection.execute("SELECT id, parent FROM conversations"))
            return self._describe(connection, gather_relatives(parents, identity))

        return self._run(read)

    def describe(self, identities: Iterable[str]) -> list[ConversationRow]:
        """Return the rows of some conversations. Unknown and damaged ones are left out."""
        described = [*identities]
        return self._run(lambda connection: self._describe(connection, described))

    def _describe(
        self, connection: sqlite3.Connection, identities: list[str]
    ) -> list[ConversationRow]:
        refresh_metadata(connection, self._conversations, identities)
        lineage = Lineage(connection, self._conversations)
        with snapshot(connection):
            rows = read_rows(connection, identities, lineage)
        lineage.store()
        return rows

    def search(
        self,
        query: str,
        *,
        limit: int = DEFAULT_LIMIT,
        role: str | None = None,
        parts: bool = False,
    ) -> list[SearchHit]:
        """Return the canisters that contain all words of the query, the best match first.

        The search covers the text of all contents: text, reasoning, refusals, transcripts, names
        and titles of media, names and arguments of invocations, and results. Case and accents do
        not matter. Words in double quotes are a phrase, ``*`` at the end of a word matches any
        ending, and every other sign only separates words.

        Matches in the part that a fork shares with its parent are reported only for the parent.

        Args:
            query: The user's words; any text is valid.
            limit: Maximum number.
            role: Only canisters of this role.
            parts: Include conversations that belong to another one, such as a flow's visits.

        Raises:
            UnknownNameError: The role is unknown.
            LimitError: The query has more than 64 words.
        """
        from vibe_llms.conversations.index.tokenization import compose_match

        match = compose_match(query, role)

        def read(connection: sqlite3.Connection) -> list[SearchHit]:
            self._update_texts(connection)
            hits, lineage = self._search(connection, match, limit, parts=parts)
            # Names and tags are refreshed only for the results. If any has changed, the tags may
            # change the results, so search again.
            if refresh_metadata(connection, self._conversations, {hit.id for hit in hits}):
                hits, lineage = self._search(connection, match, limit, parts=parts)
            lineage.store()
            return hits

        return self._run(read)

    def survey_stamps(self) -> dict[str, str]:
        """Return a stamp for each conversation, by id. A stamp changes with the messages."""
        from vibe_llms.conversations.index.messages import survey_stamps

        def read(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            self._update_texts(connection)
            return list(survey_stamps(connection).items())

        return dict(self._run(read))

    def read_messages(self, identities: Iterable[str]) -> list[IndexedConversation]:
        """Return the messages of some conversations with their texts, without inherited messages.

        Deleted conversations are left out.
        """
        from vibe_llms.conversations.index.messages import read_messages

        wanted = tuple(identities)

        def read(connection: sqlite3.Connection) -> list[IndexedConversation]:
            self._update_texts(connection)
            refresh_metadata(connection, self._conversations, wanted)
            lineage = Lineage(connection, self._conversations)
            with snapshot(connection):
                found = read_messages(connection, wanted, lineage)
            lineage.store()
            return found

        return self._run(read)

    def _update_texts(self, connection: sqlite3.Connection) -> None:
        if has_new_text(connection):
            from vibe_llms.conversations.index.texts import update_texts

            update_texts(connection, self._conversations, self._progress)

    def _search(
        self, connection: sqlite3.Connection, match: str, limit: int, *, parts: bool
    ) -> tuple[list[SearchHit], Lineage]:
        lineage = Lineage(connection, self._conversations)
        with snapshot(connection):
            return search_canisters(connection, match, limit, lineage, parts=parts), lineage

    def _run(
        self, read: Callable[[sqlite3.Connection], list[_Result]], *, everything: bool = False
    ) -> list[_Result]:
        if not _exists(self._conversations):
            return []
        # If the database is unusable, it is removed, and the second attempt creates a new database.
        for _ in range(2):
            try:
                with open_database(self._database, self._conversations) as connection:
                    self._refresh(connection, everything)
                    return read(connection)
            except (UnusableIndexError, sqlite3.Error) as error:
                # A locked or read-only database is not damaged: other processes may use it.
                if isinstance(error, sqlite3.Error) and not is_damage(error):
                    break
            except OSError:
                break
            try:
                discard_database(self._database)
            except OSError:
                break
        with open_memory() as connection:
            self._refresh(connection, everything)
            return read(connection)

    def _refresh(self, connection: sqlite3.Connection, everything: bool) -> None:
        refresh_messages(connection, self._conversations, self._progress, everything=everything)


def _exists(conversations: str) -> bool:
    """Return whether any conversations exist. Raise StoreError if the directory is unreadable."""
    try:
        with os.scandir(conversations):
            return True
    except FileNotFoundError:
        return False
    except OSError as error:
        from vibe_llms.conversations.stores.mapping import produce_store_error  # on errors

        raise produce_store_error(error) from error
