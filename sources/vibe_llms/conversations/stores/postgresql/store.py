"""Conversations in PostgreSQL: a row each, and a row for each of their lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import msgspec

from vibe_llms.absence import ABSENT, Absence
from vibe_llms.conversations.contents import find_required, needs_content_store
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.stores import parts
from vibe_llms.conversations.stores.examining import find_doubles
from vibe_llms.conversations.stores.interfaces import (
    Examination,
    History,
    Position,
    Receipt,
    Seen,
)
from vibe_llms.conversations.stores.media import detach_media, ensure_distinct
from vibe_llms.conversations.stores.moments import find_moment
from vibe_llms.conversations.stores.naming import ensure_identity
from vibe_llms.conversations.stores.places import produce_place, split_content
from vibe_llms.conversations.stores.postgresql.contents import PostgresqlContents
from vibe_llms.conversations.stores.postgresql.database import HOLD, Database
from vibe_llms.exceptions import (
    CorruptionError,
    Finding,
    StaleConversationError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.values import define

if TYPE_CHECKING:
    import psycopg

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
# One round trip for what is said: nothing is added where the conversation does not end where it is
# said to (a size), nor where a claim that is named is not held any more.
_ADD = f"""
WITH held AS ({HOLD}), grown AS (
    UPDATE vibe_conversations
    SET next = next + %(count)s, updated = greatest(updated, %(moment)s)
    WHERE id = %(id)s AND (%(size)s::bigint IS NULL OR next - start - merged = %(size)s)
        AND (%(claimed)s::text IS NULL OR EXISTS (SELECT FROM held))
    RETURNING start, next, merged
), added AS (
    INSERT INTO vibe_canisters SELECT %(id)s, next - %(count)s + place - 1, line
    FROM grown, unnest(%(lines)s::text[]) WITH ORDINALITY AS new (line, place)
)
SELECT next - start, merged FROM grown
"""
_OWN = "SELECT number, line FROM vibe_canisters WHERE conversation = %s ORDER BY number"
# In the words as they are written, so that a damaged line still protects what it names.
_REFERENCES = """
SELECT DISTINCT found[1] FROM (
    SELECT line FROM vibe_canisters UNION ALL SELECT line FROM vibe_events
) AS lines, regexp_matches(line, '"content_id":\\s*"([0-9a-f]{64})"', 'g') AS found
WHERE position('"content_id"' IN line) > 0
"""


class _About(msgspec.Struct):
    """What people say of a conversation."""

    name: str | None
    tags: tuple[str, ...]
    model: str | None


class _Row(NamedTuple):
    about: str
    created: datetime
    updated: datetime
    parent: str | None
    start: int
    next: int
    merged: int

    @property
    def position(self) -> Position:
        """Where the conversation ends."""
        return Position(size=self.next - self.start, merged=self.merged)


@define(init=False)
class PostgresqlStore:
    """Keeps conversations in a database; see :class:`..interfaces.ConversationStore`.

    Args:
        url: As ``postgresql://host/database``; ``content=`` in its query says where new content
            goes that is not to lie in the database, see :mod:`..places`.

    Raises:
        ConfigurationError: There is no such place for content.
    """

    url: str  # stores of one database are equal, wherever they put content
    database: Database = attrs.field(eq=False)
    contents: PostgresqlContents = attrs.field(eq=False)

    def __init__(self, url: str) -> None:
        self.url, address = split_content(url)
        self.database = Database(self.url)
        self.contents = PostgresqlContents(
            self.database, produce_place(address) if address else None
        )

    # --- writing ---------------------------------------------------------------------------

    def create(self, identity: str, metadata: ConversationMetadata) -> Position:
        """Begins a conversation."""
        ensure_identity(identity)
        link = metadata.parent
        with self.database.transact() as connection:
            if link is not None:
                self._access(connection, link.identity)
            start = (link.canisters or 0) if link else 0
            made = connection.execute(
                "INSERT INTO vibe_conversations VALUES (%s, %s, %s, %s, %s, %s, %s, 0)"
                " ON CONFLICT DO NOTHING",
                (
                    identity,
                    _write_about(metadata),
                    metadata.created,
                    metadata.created,
                    link.identity if link else None,
                    start,
                    start,
                ),
            )
            if not made.rowcount:
                raise StoreError(
                    path=self._place(identity),
                    detail=f"There is a conversation {identity} already.",
                )
        return Position()

    def plant(
        self, identity: str, metadata: ConversationMetadata, canisters: Sequence[AnyCanister]
    ) -> Position:
        """Brings in a conversation: it is there, with what it has stored itself, or not at all.

        Raises:
            StoreError: There is a conversation of this identity already, its parent is not
                there, or content that is referred to.
        """
        with self.database.transact() as connection:
            self.create(identity, metadata)
            receipt = self.append(identity, canisters)
            connection.execute(
                "UPDATE vibe_conversations SET updated = %s WHERE id = %s",
                (metadata.updated, identity),
            )
        return receipt.position

    def append(
        self, identity: str, canisters: Sequence[AnyCanister], *, after: Position | None = None
    ) -> Receipt:
        """Adds canisters at the end; all or none."""
        from vibe_llms.messages.codec.lines import encode_canister

        ensure_identity(identity)
        ensure_distinct(canisters)
        holds = needs_content_store(canisters)
        # Content first, each in a transaction of its own: two that add the same in another order
        # would wait for each other. It is held until a line names it.
        with self.contents.hold() if holds else nullcontext():
            place = self.contents.place
            stored = detach_media(canisters, self.contents, place=place) if holds else canisters
            lines = [encode_canister(canister).decode() for canister in stored]
            position = self._add(identity, stored, lines, after) if lines else None
            if position is None:
                position = self._add_surely(identity, stored, lines, after)
        return Receipt(position=position)

    def _add_surely(
        self,
        identity: str,
        canisters: Sequence[AnyCanister],
        lines: list[str],
        after: Position | None,
    ) -> Position:
        """Adds lines, if there are any, or says why none may be added."""
        with self.database.transact() as connection:
            position = self._access(connection, identity, changing=True).position
            if after is not None and after.own_size != position.own_size:
                raise StaleConversationError(
                    identity=identity,
                    path=self._place(identity),
                    remedy="Read it again, or fork it, or append whatever the others have said.",
                )
            if lines:
                added = self._add(identity, canisters, lines, after)
                assert (
                    added is not None
                )  # what is in its way is raised above, and nobody changes it
                position = added
        return position

    def _add(
        self,
        identity: str,
        canisters: Sequence[AnyCanister],
        lines: list[str],
        after: Position | None,
    ) -> Position | None:
        """Returns where a conversation ends now; ``None`` where nothing may be added."""
        fence, now = self.database.fence, access_now()
        given: dict[str, object] = {
            "id": identity,
            "size": None if after is None else after.own_size,
            "lines": lines,
            "count": len(lines),
            "moment": find_moment(canisters, now) or now,
            **({"claimed": None, "epoch": None} if fence is None else fence.given),
        }
        row: tuple[int, int] | None = self.database.perform(_ADD, given).fetchone()
        return None if row is None else Position(size=row[0], merged=row[1])

    def secure(self, identity: str) -> None:
        """Only looks for it: what was not committed, nobody can read."""
        self.read_metadata(identity)

    def update_metadata(
        self,
        identity: str,
        *,
        name: str | None | Absence = ABSENT,
        tags: Sequence[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Changes what is given and leaves the rest; returns the result."""
        with self.database.transact() as connection:
            row = self._access(connection, identity, changing=True)
            old = self._interpret(identity, row)
            metadata = old.change(name=name, tags=tags, model=model)
            connection.execute(
                "UPDATE vibe_conversations SET about = %s WHERE id = %s",
                (_write_about(metadata), identity),
            )
        return metadata

    def fork(
        self, identity: str, *, from_index: int | None = None, child: str | None = None
    ) -> str:
        """Begins a conversation that shares the history of another; returns its identity."""
        child = produce_identity() if child is None else child
        with self.database.transact() as connection:
            # Locked: nobody deletes the parent before the fork points at it.
            row = self._access(connection, identity, changing=True)
            parent = self._interpret(identity, row)
            count = row.next if from_index is None else from_index
            link = ParentLink(identity=identity, canisters=count)
            self.create(child, parent.fork(link))
        return child

    def delete(self, identity: str) -> None:
        """Removes a conversation; its forks first receive what they need of it."""
        with self.database.transact() as connection:
            # Always downwards: the conversation, then its forks.
            row = self._access(connection, identity, changing=True)
            connection.execute(
                "SELECT 1 FROM vibe_conversations WHERE parent = %s ORDER BY id FOR UPDATE",
                (identity,),
            )
            connection.execute(
                "INSERT INTO vibe_canisters SELECT child.id, number, line FROM vibe_canisters"
                " JOIN vibe_conversations AS child ON parent = conversation"
                " AND number < child.start WHERE conversation = %s",
                (identity,),
            )
            # Positions that others hold count without what is merged, and so stay true.
            connection.execute(
                "UPDATE vibe_conversations SET parent = %(above)s,"
                " merged = merged + start - least(start, %(start)s),"
                " start = least(start, %(start)s) WHERE parent = %(identity)s",
                {"above": row.parent, "start": row.start, "identity": identity},
            )
            connection.execute("DELETE FROM vibe_conversations WHERE id = %s", (identity,))

    # --- reading ---------------------------------------------------------------------------

    def read(self, identity: str, *, tolerant: bool = False) -> History:
        """Reads a conversation whole."""
        with self.database.transact(reading=True) as connection:
            row = self._access(connection, identity)
            lines = _read_history(connection, identity, row)
        notices: list[Finding] = []
        if trouble := self._find_gap(identity, row, lines):
            if not tolerant:
                raise trouble
            notices.append(Finding(place=trouble.path, message=trouble.detail))
            lines = [each for each in lines if each[0] >= row.start]
        canisters, findings = self._decode(identity, lines, tolerant=tolerant)
        return History(
            identity=identity,
            metadata=self._interpret(identity, row),
            canisters=tuple(canisters),
            position=row.position,
            notices=(*notices, *findings),
        )

    def _decode(
        self, identity: str, lines: Sequence[tuple[int, str]], *, tolerant: bool
    ) -> tuple[Sequence[AnyCanister], list[Finding]]:
        data = b"".join([line.encode() + b"\n" for _, line in lines])
        part = parts.FilePart(path=self._place(identity), data=data)
        return parts.decode_part(part, tolerant=tolerant)

    def _find_gap(
        self, identity: str, row: _Row, lines: Sequence[tuple[int, str]]
    ) -> CorruptionError | None:
        """Says what is missing of a history: its numbers have no gaps."""
        if len(lines) == row.next:
            return None
        inherited = sum(number < row.start for number, _ in lines)
        if inherited < row.start:
            detail = f"Its parents have fewer than the {row.start} canisters at the fork point."
        else:
            lost = row.next - len(lines)
            detail = f"{lost} of the {row.next} canisters that were acknowledged are missing."
        return CorruptionError(
            path=self._place(identity), detail=detail, remedy="Restore it from a backup."
        )

    def read_metadata(self, identity: str) -> ConversationMetadata:
        """Returns the metadata without reading what was said."""
        with self.database.transact(reading=True) as connection:
            return self._interpret(identity, self._access(connection, identity))

    def survey(self) -> Iterator[str]:
        """Yields the identities of all conversations."""
        with self.database.transact(reading=True) as connection:
            rows = connection.execute("SELECT id FROM vibe_conversations").fetchall()
        return iter([each for (each,) in rows])

    def survey_references(self) -> Iterator[str]:
        """Yields the ids of all content that conversations need, damaged lines included."""
        with self.database.transact(reading=True) as connection:
            rows = connection.execute(_REFERENCES).fetchall()
        return iter([each for (each,) in rows])

    def examine(self, identity: str, *, seen: Seen | None = None) -> Examination:
        """Proves each line that the conversation has stored itself, and its link."""
        with self.database.transact(reading=True) as connection:
            row = self._access(connection, identity)
            lines: list[tuple[int, str]] = connection.execute(_OWN, (identity,)).fetchall()
            history = _read_history(connection, identity, row)
        canisters, damages = self._decode(identity, lines, tolerant=True)
        findings = [*damages, *find_doubles(self._place(identity), canisters)]
        if trouble := self._find_gap(identity, row, history):
            findings.append(Finding(place=trouble.path, message=trouble.detail))
        return Examination(
            canisters=len(canisters),
            references=find_required(canisters),
            findings=tuple(findings),
        )

    # --- rows ------------------------------------------------------------------------------

    def _access(
        self, connection: psycopg.Connection[Any], identity: str, *, changing: bool = False
    ) -> _Row:
        """Reads the row of a conversation.

        Args:
            changing: Keep others from changing it until the transaction ends.
        """
        columns = "about, created, updated, parent, start, next, merged"
        question = f"SELECT {columns} FROM vibe_conversations WHERE id = %s"
        question += " FOR UPDATE" if changing else ""
        row = connection.execute(question, (ensure_identity(identity),)).fetchone()
        if row is None:
            raise UnknownConversationError(
                identity=identity,
                path=self._place(identity),
                remedy="`vibe list` shows all that there are.",
            )
        return _Row(*row)

    def _interpret(self, identity: str, row: _Row) -> ConversationMetadata:
        try:
            about = msgspec.json.decode(row.about, type=_About)
        except msgspec.MsgspecError as error:
            detail = f"The metadata do not read: {error}."
            raise CorruptionError(path=self._place(identity), detail=detail) from error
        return ConversationMetadata(
            name=about.name,
            created=row.created,
            updated=row.updated,
            tags=about.tags,
            model=about.model,
            parent=ParentLink(identity=row.parent, canisters=row.start) if row.parent else None,
        )

    def _place(self, identity: str) -> str:
        return f"{self.database.place} {identity}"


def _read_history(
    connection: psycopg.Connection[Any], identity: str, row: _Row
) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = connection.execute(_HISTORY, (identity,)).fetchall()
    # Within a transaction that writes, others may have appended since the row was read.
    return [each for each in lines if each[0] < row.next]


def _write_about(metadata: ConversationMetadata) -> str:
    about = _About(name=metadata.name, tags=metadata.tags, model=metadata.model)
    try:
        return msgspec.json.encode(about).decode()
    except UnicodeEncodeError as error:
        detail = "A name, a tag or a model holds half a character (a lone surrogate)."
        raise StoreError(detail=detail) from error
