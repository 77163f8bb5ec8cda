"""Log of a conversation's runs in a database, beside the conversation: one row per event."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from vibe_llms.conversations.run_logs.claims import LEASE_SECONDS, access_renewer
from vibe_llms.conversations.run_logs.file_log import detach_event
from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LoggedEvent, LogLine, describe_busy
from vibe_llms.conversations.run_logs.log_lines import (
    Flaw,
    open_envelope,
    read_envelope,
    read_head,
    read_lines,
    write_line,
)
from vibe_llms.conversations.run_logs.publishing import publish
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.conversations.stores.postgresql.database import Fence
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import (
    CodecError,
    CorruptionError,
    Finding,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.identities import Moments

if TYPE_CHECKING:
    import psycopg

    from vibe_llms.conversations.stores.postgresql.database import Database

# A lease ends within its duration. If a lease seems to end much later, the database's clock was set
# back after the claim, and the lease counts as expired. Small corrections of the clock are
# tolerated.
_IS_VALID = "until BETWEEN clock_timestamp() AND clock_timestamp() + %(valid)s"
# Return no row if another process has a valid claim.
_CLAIM = f"""
INSERT INTO vibe_claims AS claim
SELECT id, 1, clock_timestamp() + make_interval(secs => %(seconds)s)
FROM vibe_conversations WHERE id = %(identity)s
ON CONFLICT (conversation) DO UPDATE SET epoch = claim.epoch + 1, until = excluded.until
WHERE NOT claim.{_IS_VALID} RETURNING epoch
"""
_IS_CLAIMED = f"""
SELECT 1 FROM vibe_claims WHERE conversation = %(identity)s AND {_IS_VALID}
"""
# Append events in one round trip. No row is inserted if the claim is lost, or if the number of the
# first event is not the next one.
_APPEND_SURELY = """
INSERT INTO vibe_events SELECT conversation, %(number)s + place - 1, line
FROM vibe_claims, unnest(%(lines)s::text[]) WITH ORDINALITY AS new (line, place)
WHERE conversation = %(id)s AND epoch = %(epoch)s AND %(number)s = 1 + (
    SELECT coalesce(max(sequence), 0) FROM vibe_events WHERE conversation = %(id)s
) FOR UPDATE OF vibe_claims
"""
# Append lines without waiting for the disk.
_APPEND = _APPEND_SURELY.replace(
    "FROM vibe_claims,", "FROM vibe_claims, set_config('synchronous_commit', 'off', true),"
)
# A transaction that changes a row waits for the disk, and so for all transactions before it.
_SECURE = "UPDATE vibe_claims SET epoch = epoch WHERE conversation = %(id)s AND epoch = %(epoch)s"
_DUPLICATE_KEY = "23505"  # PostgreSQL's code for a duplicate key
_PIECE = """
SELECT sequence, line FROM (
    SELECT sequence, line, sum(octet_length(line)) OVER (ORDER BY sequence) AS size FROM (
        SELECT sequence, line FROM vibe_events WHERE conversation = %s AND sequence > %s
        ORDER BY sequence LIMIT 1024
    ) AS next
) AS measured WHERE size - octet_length(line) < %s ORDER BY sequence
"""
_RAW_PIECE = f"""
SELECT max(sequence), string_agg(line, E'\\n' ORDER BY sequence) FROM ({_PIECE}) AS piece
"""


class DatabaseLog:
    """Log of one conversation in a database; see :class:`.log.RunLog`.

    Each event is committed separately and survives this process. A crash of the server may lose the
    last half second of events that were not secured, as a power failure does with log files.
    """

    notices: tuple[Finding, ...] = ()

    def __init__(
        self, database: Database, identity: str, *, contents: ContentStore | None = None
    ) -> None:
        self._database = database
        self._identity = identity
        self._contents = contents
        self._epoch = 0
        self._moments = Moments()
        self._last = 0  # number of the last event known to be committed
        self._durable = 0  # number of the last event known to be on the server's disk
        self._write_lock = asyncio.Lock()

    # --- writing ---------------------------------------------------------------------------

    @property
    def is_claimed(self) -> bool:
        """True if a process with an unexpired lease has claimed the log."""
        with self._database.transact() as connection:
            found = connection.execute(_IS_CLAIMED, self._describe_claim()).fetchone()
        return found is not None

    def claim(self) -> None:
        """Claim the log until :meth:`close`."""
        parameters = self._describe_claim()
        with self._database.transact() as connection:
            row: tuple[int] | None = connection.execute(_CLAIM, parameters).fetchone()
            if row is None:
                self._ensure_known(connection)
                raise describe_busy()
        self._epoch, self._moments = row[0], Moments()
        self._durable = 0  # if the server has lost events since, their numbers are used again
        access_renewer(self._database).add(self._database, self._identity, self._epoch)
        try:
            last = self.read_last()  # do not write to a damaged log
            self._last = last.sequence if last else 0
        except BaseException:
            self.close()
            raise

    def _describe_claim(self) -> dict[str, object]:
        valid = timedelta(seconds=2 * LEASE_SECONDS)
        return {"seconds": LEASE_SECONDS, "valid": valid, "identity": self._identity}

    def _ensure_known(self, connection: Any) -> None:
        found = connection.execute(
            "SELECT 1 FROM vibe_conversations WHERE id = %s", (self._identity,)
        ).fetchone()
        if found is None:
            raise UnknownConversationError(identity=self._identity, path=self.topic)

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events; move media to the content store first."""
        return await finish(self._write_in_turn(run_id, events, durable))

    async def _write_in_turn(self, run_id: str, events: Sequence[LogEvent], durable: bool) -> int:
        async with self._write_lock:  # published in the order of their numbers
            return await asyncio.to_thread(self._write, run_id, events, durable)

    def _write(self, run_id: str, events: Sequence[LogEvent], durable: bool) -> int:
        if (contents := self._contents) is not None:
            events = [detach_event(event, contents) for event in events]
        return self.append(run_id, *events, durable=durable)

    async def secure(self, sequence: int) -> None:
        """Wait for the server's disk, unless the writes already did."""
        if self._durable < sequence:
            await finish(asyncio.to_thread(self.synchronize))

    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events; media keep their bytes."""
        if self._database.is_joined:
            return self._append(run_id, events)[-1][0]  # which may still be rolled back
        lines = self._number(self._last + 1, run_id, events)
        if not self._append_at_once(lines, durable):
            # Another thread of this process has appended in between, as a run does when it moves
            # messages from the inbox to the log.
            lines, durable = self._append(run_id, events), True
        last, _ = lines[-1]
        self._last = max(self._last, last)
        if durable:
            self._durable = max(self._durable, last)
        for event, (number, line) in zip(events, lines, strict=True):
            publish(self.topic, number, event, line)
        return last

    def _number(
        self, first: int, run_id: str, events: Sequence[LogEvent]
    ) -> list[tuple[int, bytes]]:
        return [
            (number, write_line(number, self._moments.access(), run_id, event))
            for number, event in enumerate(events, first)
        ]

    def _append_at_once(self, lines: Sequence[tuple[int, bytes]], durable: bool) -> bool:
        """Append lines if the first has the next number; return whether they were appended."""
        parameters = {
            "id": self._identity,
            "epoch": self._epoch,
            "number": lines[0][0],
            "lines": [line.decode() for _, line in lines],
        }
        statement = _APPEND_SURELY if durable else _APPEND
        try:
            return self._database.perform(statement, parameters).rowcount > 0
        except StoreError as error:
            # Another writer held the lock on the claim, and has used the number.
            if getattr(error.__cause__, "sqlstate", "") == _DUPLICATE_KEY:
                return False
            raise

    def _append(self, run_id: str, events: Sequence[LogEvent]) -> list[tuple[int, bytes]]:
        """Append after the current end, unless events are missing."""
        with self._transact() as connection:
            row: tuple[int] | None = connection.execute(
                "SELECT coalesce(max(sequence), 0) FROM vibe_events WHERE conversation = %s",
                (self._identity,),
            ).fetchone()
            found, known = row[0] if row else 0, self._last
            if found < known:  # events are lost; an error until the log is claimed again
                raise self._describe_lost_events(known)
            lines = self._number(found + 1, run_id, events)
            self._insert(connection, lines)
        return lines

    def _insert(self, connection: Any, lines: Sequence[tuple[int, bytes]]) -> None:
        connection.execute(
            "INSERT INTO vibe_events SELECT %s, * FROM unnest(%s::bigint[], %s::text[])",
            (
                self._identity,
                [number for number, _ in lines],
                [line.decode() for _, line in lines],
            ),
        )

    def adopt(self, lines: Sequence[bytes]) -> None:
        """Append lines of another log unchanged."""
        with self._transact() as connection:
            self._insert(connection, [(read_head(line).sequence, line) for line in lines])

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Replace all lines up to a number."""
        with self._transact() as connection:
            connection.execute(
                "DELETE FROM vibe_events WHERE conversation = %s AND sequence <= %s",
                (self._identity, until),
            )
            self.adopt(lines)
        self.close()

    def fencing(self) -> AbstractContextManager[None]:
        """Fence this thread's changes: inside the block they need a valid claim."""
        return self._database.fenced(Fence(self._identity, self._epoch, self._describe_lost_claim))

    @contextmanager
    def _transact(self) -> Iterator[psycopg.Connection[Any]]:
        with self.fencing(), self._database.transact() as connection:
            yield connection

    def _describe_lost_events(self, number: int) -> StoreError:
        return StoreUnavailableError(
            path=self.topic,
            detail=f"{self.topic} no longer ends at number {number}; the server may have crashed.",
            remedy="The run is resumed from the events that exist.",
        )

    def _describe_lost_claim(self) -> StoreError:
        if not self._epoch:
            return StoreError(path=self.topic, detail=f"{self.topic} was not claimed for a run.")
        return StoreError(
            path=self.topic,
            detail=f"{self.topic}: this process lost its claim on the run after {LEASE_SECONDS:g} "
            "seconds without renewal.",
            remedy="Another worker continues the run; nothing was written here since.",
        )

    def synchronize(self) -> None:
        """Wait until all writes have reached the server's disk."""
        last = self._last
        # Inside a larger transaction, its commit will wait for the disk.
        if self._epoch and not self._database.is_joined:
            parameters = {"id": self._identity, "epoch": self._epoch}
            if not self._database.perform(_SECURE, parameters).rowcount:
                raise self._describe_lost_claim()
            self._durable = max(self._durable, last)

    def close(self) -> None:
        """Release the claim; may be called again."""
        if not self._epoch:
            return
        access_renewer(self._database).remove(self._identity)
        epoch, self._epoch = self._epoch, 0
        # If the database is unreachable, the claim expires.
        with suppress(StoreError), self._database.transact() as connection:
            connection.execute(
                "UPDATE vibe_claims SET until = '-infinity' WHERE conversation = %s AND epoch = %s",
                (self._identity, epoch),
            )

    # --- reading ---------------------------------------------------------------------------

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Return the events after a sequence number."""
        with self._database.transact(reading=True) as connection:
            rows: list[tuple[str]] = connection.execute(
                "SELECT line FROM vibe_events WHERE conversation = %s AND sequence > %s"
                " ORDER BY sequence",
                (self._identity, after),
            ).fetchall()
        logged = []
        for each in read_lines([line.encode() for (line,) in rows], after):
            if isinstance(each, Flaw):
                raise _describe_damage(self.topic, after + each.line, each.detail)
            logged.append(each)
        return logged

    def read_last(self) -> LoggedEvent | None:
        """Return the last event."""
        with self._database.transact(reading=True) as connection:
            row: tuple[str, int] | None = connection.execute(
                "SELECT line, sequence FROM vibe_events WHERE conversation = %s"
                " ORDER BY sequence DESC LIMIT 1",
                (self._identity,),
            ).fetchone()
        return self._decode(*row) if row else None

    def measure(self) -> tuple[object, int] | None:
        """Return the number of the last event."""
        last = self.read_last()
        return None if last is None else (0, last.sequence)

    def tail(self, after: int = 0) -> DatabaseTail:
        """Return a reader of the events after a number."""
        return DatabaseTail(self._database, self._identity, self.topic, after)

    def _decode(self, line: str, number: int) -> LoggedEvent:
        try:
            envelope = read_envelope(line.encode())
            if envelope.sequence != number:
                raise CodecError(detail=f"its own number is {envelope.sequence}")
            return open_envelope(envelope)
        except (*UNREADABLE, CodecError) as error:
            raise _describe_damage(self.topic, number, str(error)) from error

    @property
    def topic(self) -> str:
        """Database and conversation of the log."""
        return f"{self._database.location} {self._identity} events"


class DatabaseTail:
    """Reader of the events after a number in a database log; see :class:`.log.LogTail`."""

    def __init__(self, database: Database, identity: str, place: str, after: int) -> None:
        self._database = database
        self._identity = identity
        self._place = place
        self._after = after

    def read_raw(self, max_bytes: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Return the next events as lines."""
        with self._database.transact(reading=True) as connection:
            row: tuple[int | None, str] | None = connection.execute(
                _RAW_PIECE, (self._identity, self._after, max_bytes)
            ).fetchone()
        if row is None or row[0] is None:
            return b"", self._after
        self._after = row[0]
        return row[1].encode() + b"\n", self._after

    def read(self) -> Sequence[LogLine]:
        """Return the next events."""
        with self._database.transact(reading=True) as connection:
            rows: list[tuple[int, str]] = connection.execute(
                _PIECE, (self._identity, self._after, PIECE_BYTES)
            ).fetchall()
        lines = []
        for number, line in rows:
            try:
                lines.append(read_head(line.encode()))
            except msgspec.MsgspecError as error:
                raise _describe_damage(self._place, number, str(error)) from error
            self._after = number
        return lines


def _describe_damage(place: str, number: int, detail: str) -> CorruptionError:
    detail = f"Cannot read an event: {detail.rstrip('.')}."
    return CorruptionError(path=place, line=number, detail=detail)
