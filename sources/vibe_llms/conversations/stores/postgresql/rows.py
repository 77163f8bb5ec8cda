"""Rows of a conversation and of its lines: decode them, and detect missing lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from vibe_llms.conversations.metadata import DESCRIPTIVE_FIELDS, ConversationMetadata, ParentLink
from vibe_llms.conversations.stores import parts
from vibe_llms.conversations.stores.identities import ensure_identity
from vibe_llms.conversations.stores.interfaces import Position
from vibe_llms.exceptions import CorruptionError, Finding, StoreError, UnknownConversationError
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    import psycopg

Lines: TypeAlias = Sequence[tuple[int, str]]
"""Lines of a history with their numbers, in order."""

# From a conversation up to its root: the lines of each that the conversation inherits.
_HISTORY = """
WITH RECURSIVE chain (id, parent, start, until) AS (
    SELECT id, parent, start, next FROM vibe_conversations WHERE id = %s
    UNION ALL
    SELECT above.id, above.parent, above.start, least(chain.start, chain.until)
    FROM chain JOIN vibe_conversations AS above ON above.id = chain.parent AND chain.start > 0
)
SELECT number, line FROM chain JOIN vibe_canisters
    ON conversation = chain.id AND number >= chain.start AND number < chain.until
ORDER BY number
"""
_OWN = "SELECT number, line FROM vibe_canisters WHERE conversation = %s ORDER BY number"
_REST = (
    "SELECT number, line FROM vibe_canisters WHERE conversation = %s AND number >= %s"
    " ORDER BY number"
)


class _Fields(msgspec.Struct, omit_defaults=True):
    """Descriptive fields of a conversation."""

    name: str | None
    tags: tuple[str, ...]
    model: str | None
    keep: int | None = None
    pinned: tuple[str, ...] = ()


def encode_fields(metadata: ConversationMetadata) -> str:
    """Encode the descriptive fields of a conversation for its row. Raises StoreError."""
    about = _Fields(**{field: getattr(metadata, field) for field in DESCRIPTIVE_FIELDS})
    try:
        return msgspec.json.encode(about).decode()
    except UnicodeEncodeError as error:
        detail = "A name, a tag or a model contains half a character (a lone surrogate)."
        raise StoreError(detail=detail) from error


class StoredConversation(NamedTuple):
    """Conversation as described by its row.

    Attributes:
        place: Name of the conversation in errors.
        identity: Its identity; the other attributes are the columns, see :mod:`..tables`.
    """

    place: str
    identity: str
    about: str
    created: datetime
    updated: datetime
    parent: str | None
    start: int
    next: int
    merged: int

    @classmethod
    def access(
        cls,
        connection: psycopg.Connection[Any],
        identity: str,
        place: str,
        *,
        locks: bool = False,
    ) -> StoredConversation:
        """Read the row of a conversation.

        Args:
            locks: Lock the row until the transaction ends.

        Raises:
            UnknownConversationError: The row does not exist.
        """
        columns = "about, created, updated, parent, start, next, merged"
        query = f"SELECT {columns} FROM vibe_conversations WHERE id = %s"
        query += " FOR UPDATE" if locks else ""
        row = connection.execute(query, (ensure_identity(identity),)).fetchone()
        if row is None:
            raise UnknownConversationError(
                identity=identity, path=place, remedy="`vibe list` lists the conversations."
            )
        return cls(place, identity, *row)

    @property
    def position(self) -> Position:
        """End of the conversation."""
        return Position(size=self.next - self.start, merged=self.merged)

    def interpret(self) -> ConversationMetadata:
        """Return the metadata in the row. Raises CorruptionError."""
        try:
            about = msgspec.json.decode(self.about, type=_Fields)
        except msgspec.MsgspecError as error:
            detail = f"Cannot read the metadata: {error}."
            raise CorruptionError(path=self.place, detail=detail) from error
        return ConversationMetadata(
            **{field: getattr(about, field) for field in DESCRIPTIVE_FIELDS},
            created=self.created,
            updated=self.updated,
            parent=ParentLink(identity=self.parent, canisters=self.start) if self.parent else None,
        )

    def read_own(self, connection: psycopg.Connection[Any]) -> Lines:
        """Return the lines of the conversation, without inherited lines."""
        return connection.execute(_OWN, (self.identity,)).fetchall()

    def read_from(self, connection: psycopg.Connection[Any], start: int) -> Lines:
        """Return the conversation's own lines from a number on."""
        lines: Lines = connection.execute(_REST, (self.identity, start)).fetchall()
        return [each for each in lines if each[0] < self.next]

    def read_history(self, connection: psycopg.Connection[Any]) -> Lines:
        """Return the conversation's inherited lines, then its own lines."""
        lines: Lines = connection.execute(_HISTORY, (self.identity,)).fetchall()
        # In a transaction that writes, others may have appended since the row was read.
        return [each for each in lines if each[0] < self.next]

    def decode(
        self, lines: Lines, *, tolerant: bool
    ) -> tuple[Sequence[AnyCanister], list[Finding]]:
        """Decode the lines; if tolerant, an unreadable line becomes a finding."""
        data = b"".join([line.encode() + b"\n" for _, line in lines])
        return parts.decode_part(parts.FilePart(path=self.place, data=data), tolerant=tolerant)

    def find_gap(self, lines: Lines) -> CorruptionError | None:
        """Report missing lines of a history, whose numbers must be consecutive."""
        if len(lines) == self.next:
            return None
        inherited = sum(number < self.start for number, _ in lines)
        if inherited < self.start:
            detail = f"Its parents have fewer than the {self.start} canisters at the fork point."
        else:
            lost = self.next - len(lines)
            detail = f"{lost} of the {self.next} acknowledged canisters are missing."
        return CorruptionError(path=self.place, detail=detail, remedy="Restore it from a backup.")
