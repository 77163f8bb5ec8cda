"""Texts of whole conversations, read back from the database, for other indexes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from vibe_llms.conversations.index.database import KEY_SHIFT
from vibe_llms.conversations.index.questions import Lineage
from vibe_llms.conversations.index.tokenization import restore_text
from vibe_llms.conversations.tags import PART_TAG


class IndexedMessage(NamedTuple):
    """A canister with its text.

    Attributes:
        canister_id: Id of the canister.
        index: Index in its conversation, from 0, including inherited canisters.
        role: Stable name of its role, such as ``user``.
        timestamp: Time of the message, in nanoseconds since 1970.
        text: All text of the message, as a search sees it; may be empty.
    """

    canister_id: str
    index: int  # type: ignore[assignment]  # a place, where a bare tuple has a method
    role: str
    timestamp: int
    text: str


class IndexedConversation(NamedTuple):
    """Messages of a conversation, without inherited messages.

    Attributes:
        id: The id of the conversation.
        is_part: True if it is a part of another conversation, such as a visit of a flow.
        messages: The messages, in the order of the conversation.
    """

    id: str
    is_part: bool
    messages: tuple[IndexedMessage, ...]


def survey_stamps(connection: sqlite3.Connection) -> dict[str, str]:
    """Return a stamp for each conversation, by id. A stamp changes with the messages."""
    rows = connection.execute("SELECT id, inode, searchable FROM conversations")
    return {identity: f"{inode}:{size}" for identity, inode, size in rows}


def read_messages(
    connection: sqlite3.Connection, identities: Iterable[str], lineage: Lineage
) -> list[IndexedConversation]:
    """Return the messages of some conversations; deleted ones are left out."""
    found = []
    for identity in identities:
        for key, tags in connection.execute(
            "SELECT key, tags FROM conversations WHERE id = ?", (identity,)
        ).fetchall():
            first, inherited = key << KEY_SHIFT, lineage.trace(identity).inherited
            rows = connection.execute(
                "SELECT place - ?, id, role, timestamp,"
                " coalesce((SELECT text FROM texts WHERE rowid = place), '')"
                " FROM places WHERE place >= ? AND place < ? ORDER BY place",
                (first, first, (key + 1) << KEY_SHIFT),
            )
            messages = tuple(
                IndexedMessage(canister, inherited + offset, role, moment, restore_text(text))
                for offset, canister, role, moment, text in rows
            )
            found.append(IndexedConversation(identity, f'"{PART_TAG}' in tags, messages))
    return found
