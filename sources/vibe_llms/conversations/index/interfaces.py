"""Protocol of indexes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit

if TYPE_CHECKING:
    from vibe_llms.conversations.index.messages import IndexedConversation

DEFAULT_LIMIT: Final = 20


class Index(Protocol):
    """Lists and full-text search of a store. Calls may block."""

    def survey(
        self, *, limit: int | None = DEFAULT_LIMIT, parts: bool = False
    ) -> list[ConversationRow]:
        """Return conversations, the newest message first.

        Args:
            limit: Maximum number; ``None`` for all.
            parts: Include conversations that belong to another one, such as a flow's visits. They
                have a tag that begins with :data:`~vibe_llms.conversations.tags.PART_TAG`.
        """

    def describe(self, identities: Iterable[str]) -> list[ConversationRow]:
        """Return the rows of some conversations. Unknown and damaged ones are left out."""

    def survey_relatives(self, identity: str) -> list[ConversationRow]:
        """Return a conversation, its ancestors, and all forks of these; empty if it is unknown."""

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
            parts: As in :meth:`survey`.

        Raises:
            UnknownNameError: The role is unknown.
            LimitError: The query has more than 64 words.
        """

    def survey_stamps(self) -> dict[str, str]:
        """Return a stamp for each conversation, by id. A stamp changes with the messages."""

    def read_messages(self, identities: Iterable[str]) -> list[IndexedConversation]:
        """Return the messages of some conversations with their texts, without inherited messages.

        Deleted conversations are left out.
        """
