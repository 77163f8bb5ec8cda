"""Rows of the database of stored responses and conversations, and its queries."""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Final, TypeVar

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class GatewayResponse:
    """A stored response.

    Attributes:
        id: Id that the client knows.
        subject: Client that may read it; empty without an authorizer.
        address: The model that answered, as ``provider:name``.
        conversation: Id in the store; empty if the upstream stores the response.
        input, output: Ids of the canisters of the request and of the answer, in order.
        last: The last canister of its conversation at that time.
        created: Time of creation, in seconds since 1970.
        status: Status as in the protocol, such as ``in_progress`` or ``completed``.
        owner: The process that answers or has answered.
        body: The response without its output.
    """

    id: str
    subject: str
    address: str
    conversation: str = ""
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    last: str = ""
    created: float = attrs.field(factory=time.time)
    status: str = "completed"
    owner: str = ""
    body: dict[str, Any] = attrs.field(factory=dict)

    @property
    def is_running(self) -> bool:
        """True while the answer is incomplete."""
        return self.status in ("queued", "in_progress")

    @property
    def is_in_background(self) -> bool:
        """True if it was requested in the background."""
        return bool(self.body.get("background"))


@frozen(kw_only=True)
class GatewayConversation:
    """A conversation that a client has created.

    Attributes:
        id: Id of the conversation, also in the store.
        subject: Client that may read it.
        created: Time of creation, in seconds since 1970.
        metadata: Set by the client.
        hidden: Ids of deleted items.
    """

    id: str
    subject: str
    created: float = attrs.field(factory=time.time)
    metadata: dict[str, Any] = attrs.field(factory=dict)
    hidden: tuple[str, ...] = ()


_Row = TypeVar("_Row", GatewayResponse, GatewayConversation)
_JSON_COLUMNS: Final = frozenset({"input", "output", "body", "metadata", "hidden"})
"""Columns that contain JSON."""


def _write(db: sqlite3.Connection, table: str, row: GatewayResponse | GatewayConversation) -> None:
    values = attrs.asdict(row, recurse=False)
    for name in _JSON_COLUMNS & values.keys():
        values[name] = msgspec.json.encode(values[name]).decode()
    names, placeholders = ", ".join(values), ", ".join("?" * len(values))
    query = f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({placeholders})"
    db.execute(query, tuple(values.values()))


def _find(db: sqlite3.Connection, table: str, kind: type[_Row], identity: str) -> _Row | None:
    row = db.execute(f"SELECT * FROM {table} WHERE id = ?", (identity,)).fetchone()
    if row is None:
        return None
    values = dict(row)
    for name in _JSON_COLUMNS & values.keys():
        value = msgspec.json.decode(values[name])
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def write_response(db: sqlite3.Connection, response: GatewayResponse) -> bool:
    """Insert or replace a response.

    Returns:
        Whether it was written; the id of another client's response is not overwritten.
    """
    found = db.execute("SELECT subject FROM responses WHERE id = ?", (response.id,)).fetchone()
    if found is not None and found["subject"] != response.subject:
        return False
    _write(db, "responses", response)
    return True


def update_response(db: sqlite3.Connection, response: GatewayResponse) -> bool:
    """Replace a response, unless it was cancelled or removed.

    Returns:
        False if it belongs to another client.
    """
    found = db.execute("SELECT status FROM responses WHERE id = ?", (response.id,)).fetchone()
    if found is None or found["status"] == "cancelled":
        return True
    return write_response(db, response)


def end_response(db: sqlite3.Connection, response: GatewayResponse) -> GatewayResponse:
    """Record the end of a response that has not ended; return the current row."""
    found = find_response(db, response.id)
    if found is None or not found.is_running:
        return found or response
    write_response(db, response)
    return response


def find_response(db: sqlite3.Connection, identity: str) -> GatewayResponse | None:
    """Return a response of any client by its id."""
    return _find(db, "responses", GatewayResponse, identity)


def remove_response(db: sqlite3.Connection, identity: str) -> None:
    """Delete a response."""
    db.execute("DELETE FROM responses WHERE id = ?", (identity,))
    db.execute("DELETE FROM frames WHERE id = ?", (identity,))


def write_conversation(db: sqlite3.Connection, conversation: GatewayConversation) -> None:
    """Insert or replace a conversation."""
    _write(db, "conversations", conversation)


def find_conversation(db: sqlite3.Connection, identity: str) -> GatewayConversation | None:
    """Return a conversation of any client by its id."""
    return _find(db, "conversations", GatewayConversation, identity)


def remove_conversation(db: sqlite3.Connection, identity: str) -> None:
    """Delete a conversation, but not its responses."""
    db.execute("DELETE FROM conversations WHERE id = ?", (identity,))


def is_needed(db: sqlite3.Connection, identity: str) -> bool:
    """Return whether any row refers to a conversation of the store."""
    queries = (
        "SELECT 1 FROM responses WHERE conversation = ? LIMIT 1",
        "SELECT 1 FROM conversations WHERE id = ?",
    )
    return any(db.execute(query, (identity,)).fetchone() for query in queries)


def remove_old(db: sqlite3.Connection, before: float, count: int, max_deleted: int) -> list[str]:
    """Delete rows that are too old or too many.

    Args:
        before: Delete older rows.
        count: Number of rows of each kind to keep.
        max_deleted: Maximum number of rows of each kind to delete at once.

    Returns:
        The conversations of the store to which no row refers any longer.
    """
    conversations = set()
    for table, column in (("responses", "conversation"), ("conversations", "id")):
        surplus = db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] - count
        oldest = db.execute(
            f"SELECT id, created, {column} AS conversation FROM {table} ORDER BY created LIMIT ?",
            (max_deleted,),
        ).fetchall()
        remove = remove_response if table == "responses" else remove_conversation
        for index, row in enumerate(oldest):
            if index >= surplus and row["created"] >= before:
                break
            remove(db, row["id"])
            conversations.add(row["conversation"])
    return sorted(each for each in conversations if each and not is_needed(db, each))


def write_frames(db: sqlite3.Connection, identity: str, data: bytes) -> None:
    """Store the events of a background response; an empty list while it is running."""
    db.execute("INSERT OR REPLACE INTO frames (id, data) VALUES (?, ?)", (identity, data))


def find_frames(db: sqlite3.Connection, identity: str) -> bytes | None:
    """Return the events of a background response."""
    row = db.execute("SELECT data FROM frames WHERE id = ?", (identity,)).fetchone()
    return None if row is None else bytes(row["data"])
