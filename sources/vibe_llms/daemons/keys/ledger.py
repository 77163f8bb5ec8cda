"""Spending by key, model and day over all processes, as sums in SQLite.

The journals of all processes are added to the sums (folded). Each byte of a journal counts once,
because sums and offset are written in one transaction. Requests of keys with limits are admitted in
such a transaction, so that two processes cannot both use the last part of a budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

import attrs

from vibe_llms.daemons.keys.bounds import Slot, find_refusal, select_window
from vibe_llms.daemons.keys.charges import (
    DAY_SECONDS,
    NOTHING,
    UNKNOWN,
    ActualUsage,
    Charge,
    KeySpending,
    add_cents,
    add_spending,
    settle,
    subtract_spending,
    write_day,
)
from vibe_llms.daemons.keys.database import mapping_errors, open_database, transaction
from vibe_llms.daemons.keys.journal import (
    FOLDER,
    DeadJournal,
    EndedRequest,
    StartedRequest,
    read_entries,
    survey_journals,
)
from vibe_llms.daemons.keys.register import Key
from vibe_llms.exceptions import AccessError

_FILE: Final = "spending.sqlite"
_DEFERRED_DAYS: Final = 366
"""Age after which the usage of a request can no longer be corrected."""
_COLUMNS: Final = ", ".join(KeySpending._fields)
_PLACEHOLDERS: Final = ", ".join("?" * (3 + len(KeySpending._fields)))


class SpendingBucket(NamedTuple):
    """Requests whose spending is one sum: all requests of a key for a model on one day."""

    key: str
    day: str
    model: str


class AdmissionRequest(NamedTuple):
    """A request that waits for admission, of a key with limits.

    Attributes:
        key, charge: The key, and the most that the request may use.
        journal, number: The reservation's journal and its number there.
        is_paced: Whether limits per minute apply.
    """

    key: Key
    charge: Charge
    journal: str
    number: int
    is_paced: bool = True


class KeyAccount(NamedTuple):
    """Spending of keys, and requests under way.

    Attributes:
        spent: Sums of ended requests.
        under_way: Reservations of the requests under way.
    """

    spent: Mapping[SpendingBucket, KeySpending]
    under_way: Mapping[SpendingBucket, KeySpending]


class KeyLedger:
    """The sums, and requests under way. Thread-safe if used by one thread at a time.

    Args:
        directory: Folder of the authorizer, shared by all processes.
        read_clock: Returns monotonic seconds, which are equal in all processes of a machine.
        read_time: Returns seconds since 1970.

    Raises:
        StoreError: The database cannot be used; also raised by all methods.
    """

    def __init__(
        self, directory: Path, *, read_clock: Callable[[], float], read_time: Callable[[], float]
    ) -> None:
        self._path = directory / _FILE
        self._journals = directory / FOLDER
        self._read_clock, self._tell_time = read_clock, read_time
        self._lock = threading.Lock()
        self._database = open_database(self._path)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def fold(self) -> None:
        """Add all journals to the sums; those of dead processes completely."""
        with self._lock, mapping_errors(self._path):
            locked = {path: DeadJournal.lock(path) for path in survey_journals(self._journals)}
            dead = {path: journal for path, journal in locked.items() if journal is not None}
            try:
                with transaction(self._database):
                    self._add_all()
                    for path in dead:
                        self._end_reservations(path.name)
                    self._delete_gone_journals()
                # Delete a journal only after its sums are committed.
                for journal in dead.values():
                    journal.remove()
            finally:
                for journal in dead.values():
                    journal.release()

    def survey(self, since: str = "") -> KeyAccount:
        """Return the spending up to now.

        Args:
            since: First day, such as ``2026-11-23``; by default all days.
        """
        self.fold()
        spent: dict[SpendingBucket, KeySpending] = {}
        under_way: dict[SpendingBucket, KeySpending] = {}
        with self._lock, mapping_errors(self._path):
            query = (
                f"SELECT key, day, model, {_COLUMNS} FROM spending WHERE day >= ?"
                " ORDER BY key, day, model"
            )
            for key, day, model, *sums in self._database.execute(query, (since,)):
                spent[SpendingBucket(key, day, model)] = _read_spending(sums)
            rows = self._database.execute(
                "SELECT key, day, model, input_tokens, output_tokens, cents FROM reservations"
                " WHERE day >= ?",
                (since,),
            )
            for row in rows:
                charge = _read_charge(row)
                _add(under_way, charge, settle(charge, UNKNOWN))
        return KeyAccount(spent, under_way)

    # --- admission -------------------------------------------------------------------------

    def admit(self, requests: Sequence[AdmissionRequest]) -> list[AccessError | None]:
        """Admit or refuse requests, in order; reserve the charges of admitted ones."""
        with self._lock, mapping_errors(self._path), transaction(self._database):
            # First release the reservations of requests that have ended.
            self._add_all()
            return [self._admit(request) for request in requests]

    def _admit(self, request: AdmissionRequest) -> AccessError | None:
        key, charge = request.key, request.charge
        now, second = self._read_clock(), None
        window: list[Slot] = []
        if not request.is_paced:
            key = attrs.evolve(key, requests_per_minute=None, tokens_per_minute=None)
        if key.requests_per_minute is not None or key.tokens_per_minute is not None:
            second, window = int(now), self._read_window(charge.key, now)
        spent = self._sum_day(charge) if key.cents_per_day is not None else NOTHING
        seconds_left = DAY_SECONDS - self._tell_time() % DAY_SECONDS
        refusal = find_refusal(key, charge, window, now, spent, seconds_left)
        if refusal is None:
            self._insert_reservation(request.journal, request.number, charge, second)
            if second is not None:
                self._count_in_second(
                    charge.key, second, 1, charge.input_tokens + charge.output_tokens
                )
        return refusal

    def _read_window(self, key: str, now: float) -> list[Slot]:
        rows = self._database.execute(
            "SELECT second, requests, tokens FROM minutes WHERE key = ? ORDER BY second", (key,)
        )
        slots = [Slot(*row) for row in rows]
        window = select_window(slots, now)
        if window != slots:  # some have expired, or are of another clock
            self._database.execute("DELETE FROM minutes WHERE key = ?", (key,))
            for slot in window:
                self._count_in_second(key, *slot)
        return window

    def _count_in_second(self, key: str, second: int, requests: int, tokens: int) -> None:
        self._database.execute(
            "INSERT INTO minutes VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " requests = requests + excluded.requests, tokens = tokens + excluded.tokens",
            (key, second, requests, tokens),
        )

    def _sum_day(self, charge: Charge) -> Decimal:
        """Return a key's cents of a day: spent, perhaps spent, and reserved."""
        rows = self._database.execute(
            "SELECT cents, perhaps_cents FROM spending WHERE key = :key AND day = :day"
            " UNION ALL SELECT cents, '0' FROM reservations"
            " WHERE key = :key AND day = :day AND cents IS NOT NULL",
            {"key": charge.key, "day": charge.day},
        )
        total = NOTHING
        for cents, perhaps in rows:
            total = add_cents(total, add_cents(Decimal(cents), Decimal(perhaps)))
        return total

    def _insert_reservation(
        self, journal: str, number: int, charge: Charge, second: int | None
    ) -> None:
        *fields, cents = charge
        cents_text = None if cents is None else str(cents)
        self._database.execute(
            "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (journal, number, *fields, cents_text, second),
        )

    # --- usage that is known later -----------------------------------------------------------

    def defer(self, journal: str, number: int, name: str) -> None:
        """Settle a request by its reservation, until :meth:`correct` is called.

        Args:
            journal, number: The reservation's journal and its number there. Later lines about it
                are ignored.
            name: Name of the request for :meth:`correct`, unique in all processes.
        """
        with self._lock, mapping_errors(self._path), transaction(self._database):
            self._add_all()
            charge = self._end_reservation(journal, EndedRequest(number, UNKNOWN))
            if charge is None:
                return
            self._add_sums({_find_bucket(charge): settle(charge, UNKNOWN)})
            last = int(self._tell_time() // DAY_SECONDS) - _DEFERRED_DAYS
            self._database.execute("DELETE FROM deferred WHERE day < ?", (write_day(last),))
            *fields, cents = charge
            self._database.execute(
                "INSERT OR IGNORE INTO deferred VALUES (?, ?, ?, ?, ?, ?, ?)",
                (name, *fields, None if cents is None else str(cents)),
            )

    def correct(self, name: str, usage: ActualUsage) -> bool:
        """Replace the reservation of a deferred request by its actual usage, once.

        The sums change in the transaction that deletes the request, so that no crash can make it
        count twice.

        Returns:
            False if there is no deferred request of this name, or it was corrected before.
        """
        query = "SELECT 1 FROM deferred WHERE name = ?"
        with self._lock, mapping_errors(self._path):
            if self._database.execute(query, (name,)).fetchone() is None:
                return False  # without the lock of a transaction
            with transaction(self._database):
                row = self._database.execute(
                    "DELETE FROM deferred WHERE name = ? RETURNING"
                    " key, day, model, input_tokens, output_tokens, cents",
                    (name,),
                ).fetchone()
                if row is None:
                    return False
                charge = _read_charge(row)
                difference = subtract_spending(settle(charge, usage), settle(charge, UNKNOWN))
                self._add_sums({_find_bucket(charge): difference})
                return True

    # --- folding ---------------------------------------------------------------------------

    def _add_all(self) -> None:
        for path in survey_journals(self._journals):
            self._add_journal(path)

    def _add_journal(self, path: Path) -> None:
        name = path.name
        query = "SELECT folded FROM journals WHERE name = ?"
        start = (self._database.execute(query, (name,)).fetchone() or (0,))[0]
        try:
            if path.stat().st_size == start:
                return
            entries, end = read_entries(path, start)
        except FileNotFoundError:  # another process has written it off
            return
        started: dict[int, Charge] = {}
        sums: dict[SpendingBucket, KeySpending] = {}
        for entry in entries:
            if isinstance(entry, StartedRequest):
                started[entry.number] = entry.charge
            else:
                charge = started.pop(entry.number, None) or self._end_reservation(name, entry)
                if charge is not None and entry.usage is not None:
                    _add(sums, charge, settle(charge, entry.usage))
        for number, charge in started.items():
            self._insert_reservation(name, number, charge, None)
        self._add_sums(sums)
        self._database.execute(
            "INSERT INTO journals VALUES (?, ?) ON CONFLICT DO UPDATE SET folded = excluded.folded",
            (name, end),
        )

    def _end_reservation(self, journal: str, ended: EndedRequest) -> Charge | None:
        """Delete a reservation, correct the usage of its second, and return the charge."""
        row = self._database.execute(
            "DELETE FROM reservations WHERE journal = ? AND number = ? RETURNING"
            " key, day, model, input_tokens, output_tokens, cents, second",
            (journal, ended.number),
        ).fetchone()
        if row is None:
            return None
        charge, second = _read_charge(row), row[6]
        if second is not None:
            requests, tokens = _find_difference(charge, ended)
            self._database.execute(
                "UPDATE minutes SET requests = max(0, requests + ?), tokens = max(0, tokens + ?)"
                " WHERE key = ? AND second = ?",
                (requests, tokens, charge.key, second),
            )
        return charge

    def _end_reservations(self, journal: str) -> None:
        """Count the requests of a dead process as perhaps sent."""
        rows = self._database.execute(
            "DELETE FROM reservations WHERE journal = ? RETURNING"
            " key, day, model, input_tokens, output_tokens, cents",
            (journal,),
        ).fetchall()
        sums: dict[SpendingBucket, KeySpending] = {}
        for row in rows:
            charge = _read_charge(row)
            _add(sums, charge, settle(charge, UNKNOWN))
        self._add_sums(sums)

    def _delete_gone_journals(self) -> None:
        """Delete rows of deleted journals, whose names are never reused."""
        names = self._database.execute("SELECT name FROM journals").fetchall()
        deleted = [(name,) for (name,) in names if not (self._journals / name).exists()]
        self._database.executemany("DELETE FROM journals WHERE name = ?", deleted)

    def _add_sums(self, sums: Mapping[SpendingBucket, KeySpending]) -> None:
        for bucket, more in sums.items():
            query = f"SELECT {_COLUMNS} FROM spending WHERE key = ? AND day = ? AND model = ?"
            row = self._database.execute(query, bucket).fetchone()
            total = add_spending(_read_spending(row), more) if row else more
            values = [f"{each:f}" if isinstance(each, Decimal) else each for each in total]
            self._database.execute(
                f"INSERT OR REPLACE INTO spending (key, day, model, {_COLUMNS})"
                f" VALUES ({_PLACEHOLDERS})",
                (*bucket, *values),
            )


def _find_bucket(charge: Charge) -> SpendingBucket:
    return SpendingBucket(charge.key, charge.day, charge.model)


def _add(sums: dict[SpendingBucket, KeySpending], charge: Charge, more: KeySpending) -> None:
    bucket = _find_bucket(charge)
    sums[bucket] = add_spending(sums[bucket], more) if bucket in sums else more


def _find_difference(charge: Charge, ended: EndedRequest) -> tuple[int, int]:
    """Return by how much to change the requests and tokens of a second when a request has ended."""
    reserved = charge.input_tokens + charge.output_tokens
    if ended.usage is None:
        return -1, -reserved
    spending = settle(charge, ended.usage)
    known = spending.input_tokens + spending.output_tokens
    unknown = spending.perhaps_input_tokens + spending.perhaps_output_tokens
    return 0, known + unknown - reserved


def _read_charge(row: tuple[str, str, str, int, int, str | None]) -> Charge:
    key, day, model, input_tokens, output_tokens, cents = row[:6]
    return Charge(
        key, day, model, input_tokens, output_tokens, None if cents is None else Decimal(cents)
    )


def _read_spending(row: Iterable[object]) -> KeySpending:
    """Return a row of sums; which columns are decimals is known from an empty value."""
    kinds = (type(each) for each in KeySpending())
    values = [
        Decimal(str(value)) if kind is Decimal else value
        for kind, value in zip(kinds, row, strict=True)
    ]
    return KeySpending(*values)  # type: ignore[arg-type]  # as in the schema
