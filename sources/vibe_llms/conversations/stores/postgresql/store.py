"""Conversation store in PostgreSQL: one row per conversation, and one row per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.canister_media import find_required, needs_content_store
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.stores.content_urls import produce_backend, split_content_address
from vibe_llms.conversations.stores.defaults import StoreDefaults
from vibe_llms.conversations.stores.examining import find_duplicates
from vibe_llms.conversations.stores.identities import ensure_identity
from vibe_llms.conversations.stores.interfaces import (
    Examination,
    History,
    Position,
    Receipt,
    Seen,
)
from vibe_llms.conversations.stores.media import detach_media, ensure_distinct
from vibe_llms.conversations.stores.moments import find_moment
from vibe_llms.conversations.stores.postgresql.content_store import PostgresqlContents
from vibe_llms.conversations.stores.postgresql.database import LOCK_CLAIM, Database
from vibe_llms.conversations.stores.postgresql.rows import StoredConversation, encode_fields
from vibe_llms.exceptions import (
    CorruptionError,
    Finding,
    StaleConversationError,
    StoreError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now, produce_identity

if TYPE_CHECKING:
    import psycopg

    from vibe_llms.conversations.run_logs.database_inbox import DatabaseInbox
    from vibe_llms.conversations.run_logs.database_log import DatabaseLog
    from vibe_llms.conversations.run_logs.inbox import RunMessage
    from vibe_llms.conversations.stores.postgresql.notes import NoteRows
    from vibe_llms.conversations.stores.postgresql.vendor_notes import PostgresqlNotes

# Append in one round trip. Nothing is added if the conversation has another size than expected, or
# if the claim, where one is required, is lost.
_ADD = f"""
WITH held AS ({LOCK_CLAIM}), grown AS (
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
_LOGS = """
SELECT id, last FROM (
    SELECT id, (SELECT max(sequence) FROM vibe_events WHERE conversation = each.id) AS last
    FROM vibe_conversations AS each
) AS logs WHERE last IS NOT NULL
"""
# Search the raw text, so that a damaged line still protects the content that it names.
_REFERENCES = """
SELECT DISTINCT found[1] FROM (
    SELECT line FROM vibe_canisters UNION ALL SELECT line FROM vibe_events
) AS lines, regexp_matches(line, '"content_id":\\s*"([0-9a-f]{64})"', 'g') AS found
WHERE position('"content_id"' IN line) > 0
"""


@define(init=False)
class PostgresqlStore(StoreDefaults):
    """Store of conversations in a database; see :class:`..interfaces.ConversationStore`.

    Args:
        url: URL such as ``postgresql://host/database``; ``content=`` in its query names an external
            backend for new content, see :mod:`..content_backends`.

    Raises:
        ConfigurationError: The URL of the content backend is invalid.
    """

    url: str  # stores of one database are equal, even with different content backends
    database: Database = attrs.field(eq=False)
    contents: PostgresqlContents = attrs.field(eq=False)
    keeps_logs = plants_whole = True

    def __init__(self, url: str) -> None:
        self.url, address = split_content_address(url)
        self.database = Database(self.url)
        self.contents = PostgresqlContents(
            self.database, produce_backend(address) if address else None
        )

    @property
    def content_backends(self) -> PostgresqlContents:
        """The content store, which also manages its backends."""
        return self.contents

    @property
    def vendor_files(self) -> PostgresqlNotes:
        """Notes about vendors' files of contents, in a table."""
        from vibe_llms.conversations.stores.postgresql.vendor_notes import PostgresqlNotes

        return PostgresqlNotes(self.database)

    @property
    def notes(self) -> NoteRows:
        """Notes of models and users, in a table."""
        from vibe_llms.conversations.stores.postgresql.notes import NoteRows

        return NoteRows(self.database)

    def transact(self, *, reading: bool = False) -> AbstractContextManager[object]:
        """Run a transaction: apply all changes inside the block, or none."""
        return self.database.transact(reading=reading)

    def open_log(self, identity: str) -> DatabaseLog:
        """Return the log of a conversation's runs, stored in separate rows."""
        from vibe_llms.conversations.run_logs.database_log import DatabaseLog

        return DatabaseLog(self.database, ensure_identity(identity), contents=self.contents)

    def open_inbox(self, identity: str) -> DatabaseInbox:
        """Return the inbox of a conversation's runs, stored in separate rows."""
        from vibe_llms.conversations.run_logs.database_inbox import DatabaseInbox

        return DatabaseInbox(self.database, ensure_identity(identity))

    # --- writing ---------------------------------------------------------------------------

    def create(self, identity: str, metadata: ConversationMetadata) -> Position:
        """Create a conversation."""
        ensure_identity(identity)
        link = metadata.parent
        with self.database.transact() as connection:
            if link is not None:
                self._access(connection, link.identity)
            start = (link.canisters or 0) if link else 0
            result = connection.execute(
                "INSERT INTO vibe_conversations VALUES (%s, %s, %s, %s, %s, %s, %s, 0)"
                " ON CONFLICT DO NOTHING",
                (
                    identity,
                    encode_fields(metadata),
                    metadata.created,
                    metadata.created,
                    link.identity if link else None,
                    start,
                    start,
                ),
            )
            if not result.rowcount:
                raise StoreError(
                    path=self._place(identity),
                    detail=f"The conversation {identity} already exists.",
                )
        return Position()

    def plant(
        self,
        identity: str,
        metadata: ConversationMetadata,
        canisters: Sequence[AnyCanister],
        *,
        events: Sequence[bytes] = (),
        messages: Sequence[RunMessage] = (),
    ) -> Position:
        """Create a conversation with canisters, a log of runs and an inbox."""
        with self.database.transact() as connection:
            position = super().plant(
                identity, metadata, canisters, events=events, messages=messages
            )
            connection.execute(
                "UPDATE vibe_conversations SET updated = %s WHERE id = %s",
                (metadata.updated, identity),
            )
        return position

    def append(
        self, identity: str, canisters: Sequence[AnyCanister], *, after: Position | None = None
    ) -> Receipt:
        """Append canisters, all or none."""
        from vibe_llms.messages.codec.canister_lines import encode_canister

        ensure_identity(identity)
        ensure_distinct(canisters)
        needs_hold = needs_content_store(canisters)
        # Content is added first, each in a separate transaction, as two writers of equal content in
        # a different order would deadlock. The shared lock lasts until a line refers to the
        # content.
        with self.contents.hold() if needs_hold else nullcontext():
            add = self.contents.add_while_locked
            stored = detach_media(canisters, self.contents, add=add) if needs_hold else canisters
            lines = [encode_canister(canister).decode() for canister in stored]
            position = self._add(identity, stored, lines, after) if lines else None
            if position is None:
                position = self._add_or_raise(identity, stored, lines, after)
        return Receipt(position=position)

    def _add_or_raise(
        self,
        identity: str,
        canisters: Sequence[AnyCanister],
        lines: list[str],
        after: Position | None,
    ) -> Position:
        """Add lines, if there are any; raise an error with the reason if that is not possible."""
        with self.database.transact() as connection:
            position = self._access(connection, identity, locks=True).position
            if after is not None and after.own_size != position.own_size:
                raise StaleConversationError(
                    identity=identity,
                    path=self._place(identity),
                    remedy="Read it again, fork it, or append the other messages, too.",
                )
            if lines:
                added = self._add(identity, canisters, lines, after)
                assert added is not None  # conflicts are raised above, and the row is locked
                position = added
        return position

    def _add(
        self,
        identity: str,
        canisters: Sequence[AnyCanister],
        lines: list[str],
        after: Position | None,
    ) -> Position | None:
        """Add lines; return the new end, or ``None`` if they cannot be added."""
        fence, now = self.database.fence, access_now()
        parameters: dict[str, object] = {
            "id": identity,
            "size": None if after is None else after.own_size,
            "lines": lines,
            "count": len(lines),
            "moment": find_moment(canisters, now) or now,
            **({"claimed": None, "epoch": None} if fence is None else fence.parameters),
        }
        row: tuple[int, int] | None = self.database.perform(_ADD, parameters).fetchone()
        return None if row is None else Position(size=row[0], merged=row[1])

    def secure(self, identity: str) -> None:
        """Check that the conversation exists. All readable data are committed, and so durable."""
        self.read_metadata(identity)

    def update_metadata(
        self,
        identity: str,
        *,
        name: str | None | Absence = ABSENT,
        tags: Sequence[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
        keep: int | None | Absence = ABSENT,
        pinned: Sequence[str] | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Change some fields and keep the others; return the result."""
        with self.database.transact() as connection:
            row = self._access(connection, identity, locks=True)
            metadata = row.interpret().change(
                name=name, tags=tags, model=model, keep=keep, pinned=pinned
            )
            connection.execute(
                "UPDATE vibe_conversations SET about = %s WHERE id = %s",
                (encode_fields(metadata), identity),
            )
        return metadata

    def fork(
        self, identity: str, *, from_index: int | None = None, child: str | None = None
    ) -> str:
        """Create a fork, which shares the history of another conversation; return its identity."""
        child = produce_identity() if child is None else child
        with self.database.transact() as connection:
            # Lock the parent against deletion until the fork refers to it.
            row = self._access(connection, identity, locks=True)
            count = row.next if from_index is None else from_index
            link = ParentLink(identity=identity, canisters=count)
            self.create(child, row.interpret().fork(link))
        return child

    def delete(self, identity: str) -> None:
        """Delete a conversation; first copy shared lines to its forks."""
        with self.database.transact() as connection:
            # Lock order: the conversation, then its forks.
            row = self._access(connection, identity, locks=True)
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
            # Positions of other callers do not count merged lines, and so stay valid.
            connection.execute(
                "UPDATE vibe_conversations SET parent = %(above)s,"
                " merged = merged + start - least(start, %(start)s),"
                " start = least(start, %(start)s) WHERE parent = %(identity)s",
                {"above": row.parent, "start": row.start, "identity": identity},
            )
            connection.execute("DELETE FROM vibe_conversations WHERE id = %s", (identity,))

    # --- reading ---------------------------------------------------------------------------

    def read(self, identity: str, *, tolerant: bool = False) -> History:
        """Read a complete conversation."""
        with self.database.transact(reading=True) as connection:
            row = self._access(connection, identity)
            lines = row.read_history(connection)
        notices: list[Finding] = []
        if gap := row.find_gap(lines):
            if not tolerant:
                raise gap
            notices.append(Finding(place=gap.path, message=gap.detail))
            lines = [each for each in lines if each[0] >= row.start]
        canisters, findings = row.decode(lines, tolerant=tolerant)
        return History(
            identity=identity,
            metadata=row.interpret(),
            canisters=tuple(canisters),
            position=row.position,
            notices=(*notices, *findings),
        )

    def read_on(self, identity: str, after: Position) -> History | None:
        """Read only the canisters behind a position."""
        with self.database.transact(reading=True) as connection:
            row = self._access(connection, identity)
            start = row.start + row.merged + after.own_size
            lines = row.read_from(connection, start)
        if len(lines) != row.next - start:
            return None
        try:
            canisters, _ = row.decode(lines, tolerant=False)
        except CorruptionError:  # reading all of it names the line
            return None
        return History(
            identity=identity,
            metadata=row.interpret(),
            canisters=tuple(canisters),
            position=row.position,
        )

    def read_metadata(self, identity: str) -> ConversationMetadata:
        """Return the metadata without reading the canisters."""
        with self.database.transact(reading=True) as connection:
            return self._access(connection, identity).interpret()

    def survey(self) -> Iterator[str]:
        """Yield the identities of all conversations."""
        with self.database.transact(reading=True) as connection:
            rows = connection.execute("SELECT id FROM vibe_conversations").fetchall()
        return iter([each for (each,) in rows])

    def measure_logs(self) -> Mapping[str, object]:
        """Return the number of the last event of each log of runs."""
        with self.database.transact(reading=True) as connection:
            rows = connection.execute(_LOGS).fetchall()
        return {identity: (0, last) for identity, last in rows}

    def survey_references(self) -> Iterator[str]:
        """Yield the ids of all content that conversations need, even in damaged lines."""
        with self.database.transact(reading=True) as connection:
            rows = connection.execute(_REFERENCES).fetchall()
        return iter([each for (each,) in rows])

    def examine(self, identity: str, *, seen: Seen | None = None) -> Examination:
        """Verify the lines of the conversation's rows, and the link to its parent."""
        with self.database.transact(reading=True) as connection:
            row = self._access(connection, identity)
            lines, history = row.read_own(connection), row.read_history(connection)
        canisters, damages = row.decode(lines, tolerant=True)
        findings = [*damages, *find_duplicates(row.place, canisters)]
        if gap := row.find_gap(history):
            findings.append(Finding(place=gap.path, message=gap.detail))
        return Examination(
            canisters=len(canisters),
            references=find_required(canisters),
            findings=tuple(findings),
        )

    # --- rows ------------------------------------------------------------------------------

    def _access(
        self, connection: psycopg.Connection[Any], identity: str, *, locks: bool = False
    ) -> StoredConversation:
        place = self._place(identity)
        return StoredConversation.access(connection, identity, place, locks=locks)

    def _place(self, identity: str) -> str:
        return f"{self.database.location} {identity}"
