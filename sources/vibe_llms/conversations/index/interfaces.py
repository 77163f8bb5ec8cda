"""What lists and searches conversations must do, and how a store says that it can do so itself."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

from vibe_llms.conversations.index.answers import ConversationRow, SearchHit

DEFAULT_LIMIT: Final = 20


class Index(Protocol):
    """Lists and searches the conversations of a store. Calls may block."""

    def survey(
        self, *, limit: int | None = DEFAULT_LIMIT, parts: bool = False
    ) -> list[ConversationRow]:
        """Returns conversations, the one in which something was last said first.

        Args:
            limit: How many at most; ``None`` for all.
            parts: Also those that are parts of others, by a tag that begins with
                :data:`~vibe_llms.conversations.tags.PART_TAG`.
        """

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
            parts: As in :meth:`survey`.

        Raises:
            UnknownNameError: There is no such role.
            LimitError: The query has more than 64 words.
        """


@runtime_checkable
class IndexedStore(Protocol):
    """A store of conversations that lists and searches by itself, as a database can.

    A store need not: :class:`vibe_llms.conversations.index.reading.ReadingIndex` asks it for
    all that there is, which takes long where that is much.
    """

    @property
    def index(self) -> Index:
        """What lists and searches the conversations of this store."""
