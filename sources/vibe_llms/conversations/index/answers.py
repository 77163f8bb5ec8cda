"""What the index answers: plain tuples with names, because a list may have many."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class ConversationRow(NamedTuple):
    """One conversation in a list.

    Attributes:
        id: Whole, never shortened.
        name: As a person gave it; ``None`` where nobody has.
        created: When it began, in UTC.
        updated: When something was last said, in UTC.
        canisters: How many there are, those inherited from a parent included.
        model: The address of the model last used, such as ``local:smollm2``.
        first_words: The beginning of what the user first said, on one line; may be empty.
        tags: In the order in which they were given.
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
    """One canister in which the words were found.

    Attributes:
        id: Of the conversation that holds the canister. Its forks inherit the canister and
            are not listed again.
        name: Of that conversation.
        index: Of the canister in that conversation, counted from 0, inherited ones included.
        canister_id: The canister's own id.
        role: Its stable word, such as ``user``.
        timestamp: When it was said, in UTC.
        snippet: The text around the first match, on one line.
        marks: Where in the snippet the words are: pairs of start and end, end exclusive.
    """

    id: str
    name: str | None
    index: int  # type: ignore[assignment]  # a place, where a bare tuple has a method
    canister_id: str
    role: str
    timestamp: datetime
    snippet: str
    marks: tuple[tuple[int, int], ...]
