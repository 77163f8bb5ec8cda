"""Results of the index. They are named tuples, which are fast, as a list may have many."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class ConversationRow(NamedTuple):
    """One conversation in a list.

    Attributes:
        id: Full id, never shortened.
        name: Name given by the user; ``None`` if there is none.
        created: Time of its creation, in UTC.
        updated: Time of the last message, in UTC.
        canisters: Number of canisters, including inherited ones.
        model: The address of the model last used, such as ``local:smollm2``.
        first_words: Beginning of the user's first message, on one line; may be empty.
        tags: Tags in the order in which they were added.
        parent: The id of the conversation that this one was forked from.
    """

    id: str
    name: str | None
    created: datetime
    updated: datetime
    canisters: int
    model: str | None
    first_words: str
    tags: tuple[str, ...]
    parent: str | None


class SearchHit(NamedTuple):
    """Canister that matches a search.

    Attributes:
        id: Id of the conversation that owns the canister. Forks that inherit the canister are not
            listed again.
        name: Name of that conversation.
        index: Index of the canister in that conversation, from 0, including inherited ones.
        canister_id: Id of the canister.
        role: Stable name of its role, such as ``user``.
        timestamp: Time of the canister, in UTC.
        snippet: The text around the first match, on one line.
        marks: Positions of the words in the snippet: pairs of start and end, end exclusive.
    """

    id: str
    name: str | None
    index: int  # type: ignore[assignment]  # tuples have a method of this name
    canister_id: str
    role: str
    timestamp: datetime
    snippet: str
    marks: tuple[tuple[int, int], ...]
