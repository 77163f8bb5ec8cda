"""What the registry says of a response and of a conversation, and how it is looked up."""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Final, TypeVar

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class GatewayResponse:
    """A response that was answered here.

    Attributes:
        id: As the client knows it.
        subject: Who may read it; empty where nobody has to say who they are.
        address: The model that has answered, as ``provider:name``.
        conversation: In the store; empty where the upstream keeps the response.
        input, output: Ids of the canisters that were asked and answered, in their order.
        last: The canister with which its conversation ended then.
        created: In seconds since 1970.
        status: In the words of the protocol.
        owner: The process that answers, or has answered.
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
        """Whether its answer has not come to its end."""
        return self.status in ("queued", "in_progress")

    @property
    def is_in_background(self) -> bool:
        """Whether it was asked for in the background."""
        return bool(self.body.get("background"))


@frozen(kw_only=True)
class GatewayConversation:
    """A conversation that a client has begun.

    Attributes:
        id: Of it, in the store as well.
        subject: Who may read it.
        created: In seconds since 1970.
        metadata: As the client has set it.
        hidden: Ids of items that were deleted from it.
    """

    id: str
    subject: str
    created: float = attrs.field(factory=time.time)
    metadata: dict[str, Any] = attrs.field(factory=dict)
    hidden: tuple[str, ...] = ()


_Kept = TypeVar("_Kept", GatewayResponse, GatewayConversation)
_JSON: Final = frozenset({"input", "output", "body", "metadata", "hidden"})
"""The columns that hold JSON."""


def _write(db: sqlite3.Connection, table: str, kept: GatewayResponse | GatewayConversation) -> None:
    values = attrs.asdict(kept, recurse=False)
    for name in _JSON & values.keys():
        values[name] = msgspec.json.encode(values[name]).decode()
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", (*values.values(),))


def _find(db: sqlite3.Connection, table: str, kind: type[_Kept], identity: str) -> _Kept | None:
    row = db.execute(f"SELECT * FROM {table} WHERE id = ?", (identity,)).fetchone()
    if row is None:
        return None
    values = dict(row)
    for name in _JSON & values.keys():
        value = msgspec.json.decode(values[name])
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def write_response(db: sqlite3.Connection, response: GatewayResponse) -> bool:
    """Adds a response, or replaces what is known of it.

    Returns:
        Whether it is there now: an id that somebody else has stays theirs.
    """
    found = db.execute("SELECT subject FROM responses WHERE id = ?", (response.id,)).fetchone()
    if found is not None and found["subject"] != response.subject:
        return False
    _write(db, "responses", response)
    return True


def update_response(db: sqlite3.Connection, response: GatewayResponse) -> bool:
    """Replaces what is known of a response, unless it was cancelled or removed meanwhile."""
    found = db.execute("SELECT status FROM responses WHERE id = ?", (response.id,)).fetchone()
    if found is None or found["status"] == "cancelled":
        return True
    return write_response(db, response)


def end_response(db: sqlite3.Connection, response: GatewayResponse) -> GatewayResponse:
    """Notes how a response has ended, unless it has ended meanwhile; returns what is known then."""
    found = find_response(db, response.id)
    if found is None or not found.is_running:
        return found or response
    write_response(db, response)
    return response


def find_response(db: sqlite3.Connection, identity: str) -> GatewayResponse | None:
    """Returns a response by its id, whoever's it is."""
    return _find(db, "responses", GatewayResponse, identity)


def remove_response(db: sqlite3.Connection, identity: str) -> None:
    """Forgets a response."""
    db.execute("DELETE FROM responses WHERE id = ?", (identity,))
    db.execute("DELETE FROM frames WHERE id = ?", (identity,))


def write_conversation(db: sqlite3.Connection, conversation: GatewayConversation) -> None:
    """Adds a conversation, or replaces what is known of it."""
    _write(db, "conversations", conversation)


def find_conversation(db: sqlite3.Connection, identity: str) -> GatewayConversation | None:
    """Returns a conversation by its id, whoever's it is."""
    return _find(db, "conversations", GatewayConversation, identity)


def remove_conversation(db: sqlite3.Connection, identity: str) -> None:
    """Forgets a conversation; its responses are still known."""
    db.execute("DELETE FROM conversations WHERE id = ?", (identity,))


def is_needed(db: sqlite3.Connection, identity: str) -> bool:
    """Tells whether anything that is known lies in a conversation of the store."""
    sought = (identity,)
    needs = "SELECT 1 FROM responses WHERE conversation = ? LIMIT 1"
    begun = "SELECT 1 FROM conversations WHERE id = ?"
    return bool(db.execute(needs, sought).fetchone() or db.execute(begun, sought).fetchone())


def take_old(db: sqlite3.Connection, before: float, count: int, most: int) -> list[str]:
    """Forgets the responses and conversations that are too old or too many.

    Args:
        before: What is older goes.
        count: How many of each stay at most.
        most: How many of each go at once.

    Returns:
        The conversations of the store in which they lay.
    """
    found = set()
    for table, place in (("responses", "conversation"), ("conversations", "id")):
        over = db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] - count
        rows = db.execute(
            f"SELECT id, created, {place} AS place FROM {table} ORDER BY created LIMIT ?", (most,)
        ).fetchall()
        for index, row in enumerate(rows):
            if index >= over and row["created"] >= before:
                break
            remove = remove_response if table == "responses" else remove_conversation
            remove(db, row["id"])
            found.add(row["place"])
    return sorted(each for each in found if each and not is_needed(db, each))


def write_frames(db: sqlite3.Connection, identity: str, data: bytes) -> None:
    """Keeps what was streamed of a response in the background: while it goes on, an empty list."""
    db.execute("INSERT OR REPLACE INTO frames (id, data) VALUES (?, ?)", (identity, data))


def find_frames(db: sqlite3.Connection, identity: str) -> bytes | None:
    """Returns what was streamed of a response in the background."""
    row = db.execute("SELECT data FROM frames WHERE id = ?", (identity,)).fetchone()
    return None if row is None else bytes(row["data"])
