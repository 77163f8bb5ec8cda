"""The log of a conversation's runs in a database, beside the conversation: an event a row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from vibe_llms.conversations.run_logs.claims import LEASE_SECONDS, access_renewer
from vibe_llms.conversations.run_logs.file_log import detach_event
from vibe_llms.conversations.run_logs.lines import (
    Flaw,
    open_envelope,
    read_envelope,
    read_head,
    read_lines,
    write_line,
)
from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LoggedEvent, LogLine, describe_busy
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

# A lease ends within its duration. One that seems to end later was made before the clock of
# the database was set back, and counts as expired; a small correction expires none.
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
# One round trip for what happened at one moment: it is refused where the claim is lost, and where
# the first number is not the next.
_APPEND_SURELY = """
INSERT INTO vibe_events SELECT conversation, %(number)s + place - 1, line
FROM vibe_claims, unnest(%(lines)s::text[]) WITH ORDINALITY AS new (line, place)
WHERE conversation = %(id)s AND epoch = %(epoch)s AND %(number)s = 1 + (
    SELECT coalesce(max(sequence), 0) FROM vibe_events WHERE conversation = %(id)s
) FOR UPDATE OF vibe_claims
"""
# The same, without waiting for the disk.
_APPEND = _APPEND_SURELY.replace(
    "FROM vibe_claims,", "FROM vibe_claims, set_config('synchronous_commit', 'off', true),"
)
# Only a transaction that has changed something waits for the disk, and then for all before it.
_SECURE = "UPDATE vibe_claims SET epoch = epoch WHERE conversation = %(id)s AND epoch = %(epoch)s"
_IS_THERE = "23505"  # as PostgreSQL says of a row whose key another has
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
    """Keeps the log of one conversation in a database; see :class:`.log.RunLog`.

    Each event is committed by itself, and survives this process; a crash of the server may take the
    last half second of those that nobody has secured, as a loss of power does with files.
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
        self._last = 0  # the number of the last event that is known to be committed
        self._certain = 0  # up to here they are on the server's disk
        self._turnstile = asyncio.Lock()

    # --- writing ---------------------------------------------------------------------------

    @property
    def is_claimed(self) -> bool:
        """Whether a process has claimed it that was alive within the time of a lease."""
        with self._database.transact() as connection:
            found = connection.execute(_IS_CLAIMED, self._describe_claim()).fetchone()
        return found is not None

    def claim(self) -> None:
        """Claim the log until :meth:`close`."""
        given = self._describe_claim()
        with self._database.transact() as connection:
            row: tuple[int] | None = connection.execute(_CLAIM, given).fetchone()
            if row is None:
                self._ensure_known(connection)
                raise describe_busy()
        self._epoch, self._moments = row[0], Moments()
        self._certain = 0  # of what was lost meanwhile, the numbers are given again
        access_renewer(self._database).add(self._database, self._identity, self._epoch)
        try:
            last = self.read_last()  # one that is damaged is not written on
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
            raise UnknownConversationError(identity=self._identity, path=self.place)

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Appends events; media go to the content store first."""
        return await finish(self._write_in_turn(run_id, events, durable))

    async def _write_in_turn(self, run_id: str, events: Sequence[LogEvent], durable: bool) -> int:
        async with self._turnstile:  # told in the order in which they are numbered
            return await asyncio.to_thread(self._write, run_id, events, durable)

    def _write(self, run_id: str, events: Sequence[LogEvent], durable: bool) -> int:
        if (contents := self._contents) is not None:
            events = [detach_event(event, contents) for event in events]
        return self.append(run_id, *events, durable=durable)

    async def secure(self, sequence: int) -> None:
        """Waits for the server's disk, where what was written has not done so."""
        if self._certain < sequence:
            await finish(asyncio.to_thread(self.synchronize))

    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Appends events; media keep their bytes."""
        if self._database.is_joined:
            return self._append(run_id, events)[-1][0]  # which may yet be taken back
        lines = self._number(self._last + 1, run_id, events)
        if not self._append_at_once(lines, durable):
            # Another thread of this process has taken letters in between, as a run does that works.
            lines, durable = self._append(run_id, events), True
        last, _ = lines[-1]
        self._last = max(self._last, last)
        if durable:
            self._certain = max(self._certain, last)
        for event, (number, line) in zip(events, lines, strict=True):
            publish(self.place, number, event, line)
        return last

    def _number(
        self, first: int, run_id: str, events: Sequence[LogEvent]
    ) -> list[tuple[int, bytes]]:
        return [
            (number, write_line(number, self._moments.access(), run_id, event))
            for number, event in enumerate(events, first)
        ]

    def _append_at_once(self, lines: Sequence[tuple[int, bytes]], durable: bool) -> bool:
        """Tells whether lines are there now; not where the first has not the next number."""
        given = {
            "id": self._identity,
            "epoch": self._epoch,
            "number": lines[0][0],
            "lines": [line.decode() for _, line in lines],
        }
        statement = _APPEND_SURELY if durable else _APPEND
        try:
            return self._database.perform(statement, given).rowcount > 0
        except StoreError as error:
            # Somebody took the number who had the claim locked while this waited for it.
            if getattr(error.__cause__, "sqlstate", "") == _IS_THERE:
                return False
            raise

    def _append(self, run_id: str, events: Sequence[LogEvent]) -> list[tuple[int, bytes]]:
        """Appends behind whatever is there by now, unless some of it is gone."""
        with self._transact() as connection:
            row: tuple[int] | None = connection.execute(
                "SELECT coalesce(max(sequence), 0) FROM vibe_events WHERE conversation = %s",
                (self._identity,),
            ).fetchone()
            found, known = row[0] if row else 0, self._last
            if found < known:  # each time, until it is claimed anew
                raise self._describe_loss(known)
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
        """Appends lines of another log as they are."""
        with self._transact() as connection:
            self._insert(connection, [(read_head(line).sequence, line) for line in lines])

    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Puts lines in the place of all up to a number."""
        with self._transact() as connection:
            connection.execute(
                "DELETE FROM vibe_events WHERE conversation = %s AND sequence <= %s",
                (self._identity, until),
            )
            self.adopt(lines)
        self.close()

    def fencing(self) -> AbstractContextManager[None]:
        """While it is entered, this thread changes nothing here unless the claim holds."""
        return self._database.fenced(Fence(self._identity, self._epoch, self._describe_lost))

    @contextmanager
    def _transact(self) -> Iterator[psycopg.Connection[Any]]:
        with self.fencing(), self._database.transact() as connection:
            yield connection

    def _describe_loss(self, number: int) -> StoreError:
        return StoreUnavailableError(
            path=self.place,
            detail=f"{self.place} no longer ends at number {number}; the server may have crashed.",
            remedy="The run is resumed from the events that exist.",
        )

    def _describe_lost(self) -> StoreError:
        if not self._epoch:
            return StoreError(path=self.place, detail=f"{self.place} was not claimed for a run.")
        return StoreError(
            path=self.place,
            detail=f"{self.place}: this process lost its claim on the run after {LEASE_SECONDS:g} "
            "seconds without renewal.",
            remedy="Another worker continues the run; nothing was written here since.",
        )

    def synchronize(self) -> None:
        """Returns when all that was written has reached the server's disk."""
        last = self._last
        if self._epoch and not self._database.is_joined:  # the end of a transaction waits for it
            given = {"id": self._identity, "epoch": self._epoch}
            if not self._database.perform(_SECURE, given).rowcount:
                raise self._describe_lost()
            self._certain = max(self._certain, last)

    def close(self) -> None:
        """Gives the claim up; may be called again."""
        if not self._epoch:
            return
        access_renewer(self._database).remove(self._identity)
        epoch, self._epoch = self._epoch, 0
        with suppress(StoreError), self._database.transact() as connection:  # else it runs out
            connection.execute(
                "UPDATE vibe_claims SET until = '-infinity' WHERE conversation = %s AND epoch = %s",
                (self._identity, epoch),
            )

    # --- reading ---------------------------------------------------------------------------

    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Returns the events behind a sequence number."""
        with self._database.transact(reading=True) as connection:
            rows: list[tuple[str]] = connection.execute(
                "SELECT line FROM vibe_events WHERE conversation = %s AND sequence > %s"
                " ORDER BY sequence",
                (self._identity, after),
            ).fetchall()
        logged = []
        for each in read_lines([line.encode() for (line,) in rows], after):
            if isinstance(each, Flaw):
                raise _describe_damage(self.place, after + each.line, each.detail)
            logged.append(each)
        return logged

    def read_last(self) -> LoggedEvent | None:
        """Returns the last event."""
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
        """Returns what reads the log on from a number."""
        return DatabaseTail(self._database, self._identity, self.place, after)

    def _decode(self, line: str, number: int) -> LoggedEvent:
        try:
            envelope = read_envelope(line.encode())
            if envelope.sequence != number:
                raise CodecError(detail=f"its own number is {envelope.sequence}")
            return open_envelope(envelope)
        except (*UNREADABLE, CodecError) as error:
            raise _describe_damage(self.place, number, str(error)) from error

    @property
    def place(self) -> str:
        """The database and the conversation."""
        return f"{self._database.place} {self._identity} events"


class DatabaseTail:
    """Reads such a log on from a number; see :class:`.log.LogTail`."""

    def __init__(self, database: Database, identity: str, place: str, after: int) -> None:
        self._database = database
        self._identity = identity
        self._place = place
        self._after = after

    def read_raw(self, most: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Returns the next events as lines."""
        with self._database.transact(reading=True) as connection:
            row: tuple[int | None, str] | None = connection.execute(
                _RAW_PIECE, (self._identity, self._after, most)
            ).fetchone()
        if row is None or row[0] is None:
            return b"", self._after
        self._after = row[0]
        return row[1].encode() + b"\n", self._after

    def read(self) -> Sequence[LogLine]:
        """Returns the next events."""
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
