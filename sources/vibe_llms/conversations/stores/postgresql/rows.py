"""The row of a conversation, and the rows of its lines: what they say, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.stores import parts
from vibe_llms.conversations.stores.interfaces import Position
from vibe_llms.conversations.stores.naming import ensure_identity
from vibe_llms.exceptions import CorruptionError, Finding, StoreError, UnknownConversationError
from vibe_llms.messages.canisters import AnyCanister

if TYPE_CHECKING:
    import psycopg

Lines: TypeAlias = Sequence[tuple[int, str]]
"""Lines of a history with their numbers in it, in order."""

# From a conversation up to its root: of each, the lines that its forks below have a share in.
_HISTORY = """
WITH RECURSIVE chain (id, parent, start, until) AS (
    SELECT id, parent, start, next FROM vibe_conversations WHERE id = %s
    UNION ALL
    SELECT above.id, above.parent, above.start, least(chain.start, chain.until)
    FROM chain JOIN vibe_conversations AS above ON above.id = chain.parent
)
SELECT number, line FROM chain JOIN vibe_canisters
    ON conversation = chain.id AND number >= chain.start AND number < chain.until
ORDER BY number
"""
_OWN = "SELECT number, line FROM vibe_canisters WHERE conversation = %s ORDER BY number"


class _About(msgspec.Struct):
    """What people say of a conversation."""

    name: str | None
    tags: tuple[str, ...]
    model: str | None


def write_about(metadata: ConversationMetadata) -> str:
    """Returns what people say of a conversation, as its row has it. Raises StoreError."""
    about = _About(name=metadata.name, tags=metadata.tags, model=metadata.model)
    try:
        return msgspec.json.encode(about).decode()
    except UnicodeEncodeError as error:
        detail = "A name, a tag or a model holds half a character (a lone surrogate)."
        raise StoreError(detail=detail) from error


class StoredConversation(NamedTuple):
    """A conversation as its row says it.

    Attributes:
        place: The conversation as errors call it.
        identity: Its name; what follows are the columns, see :mod:`..tables`.
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
        changing: bool = False,
    ) -> StoredConversation:
        """Reads the row of a conversation.

        Args:
            changing: Keep others from changing it until the transaction ends.

        Raises:
            UnknownConversationError: There is none.
        """
        columns = "about, created, updated, parent, start, next, merged"
        question = f"SELECT {columns} FROM vibe_conversations WHERE id = %s"
        question += " FOR UPDATE" if changing else ""
        row = connection.execute(question, (ensure_identity(identity),)).fetchone()
        if row is None:
            raise UnknownConversationError(
                identity=identity, path=place, remedy="`vibe list` lists the conversations."
            )
        return cls(place, identity, *row)

    @property
    def position(self) -> Position:
        """Where the conversation ends."""
        return Position(size=self.next - self.start, merged=self.merged)

    def interpret(self) -> ConversationMetadata:
        """Returns what the row says of the conversation. Raises CorruptionError."""
        try:
            about = msgspec.json.decode(self.about, type=_About)
        except msgspec.MsgspecError as error:
            detail = f"Cannot read the metadata: {error}."
            raise CorruptionError(path=self.place, detail=detail) from error
        return ConversationMetadata(
            name=about.name,
            created=self.created,
            updated=self.updated,
            tags=about.tags,
            model=about.model,
            parent=ParentLink(identity=self.parent, canisters=self.start) if self.parent else None,
        )

    def read_own(self, connection: psycopg.Connection[Any]) -> Lines:
        """Returns the lines that the conversation has stored itself."""
        return connection.execute(_OWN, (self.identity,)).fetchall()

    def read_history(self, connection: psycopg.Connection[Any]) -> Lines:
        """Returns these lines behind those that it has of its parents."""
        lines: Lines = connection.execute(_HISTORY, (self.identity,)).fetchall()
        # Within a transaction that writes, others may have appended since the row was read.
        return [each for each in lines if each[0] < self.next]

    def decode(
        self, lines: Lines, *, tolerant: bool
    ) -> tuple[Sequence[AnyCanister], list[Finding]]:
        """Reads what was said; tolerant, a line that does not read is a finding."""
        data = b"".join([line.encode() + b"\n" for _, line in lines])
        return parts.decode_part(parts.FilePart(path=self.place, data=data), tolerant=tolerant)

    def find_gap(self, lines: Lines) -> CorruptionError | None:
        """Says what is missing of a history: its numbers have no gaps."""
        if len(lines) == self.next:
            return None
        inherited = sum(number < self.start for number, _ in lines)
        if inherited < self.start:
            detail = f"Its parents have fewer than the {self.start} canisters at the fork point."
        else:
            lost = self.next - len(lines)
            detail = f"{lost} of the {self.next} acknowledged canisters are missing."
        return CorruptionError(path=self.place, detail=detail, remedy="Restore it from a backup.")
