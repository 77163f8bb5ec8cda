"""Spending by key, model and day over all processes, as sums in SQLite.

Journals are added with each byte counted once, because the offset is written in the same
transaction. Bounded keys are admitted in such a transaction, so that two processes cannot both use
the last part of a budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from vibe_llms.daemons.keys.bounds import DAY_SECONDS, Slot, find_refusal, select_window
from vibe_llms.daemons.keys.charges import (
    NOTHING,
    UNKNOWN,
    Charge,
    KeySpending,
    add_cents,
    add_spending,
    settle,
)
from vibe_llms.daemons.keys.database import open_database, telling, transaction
from vibe_llms.daemons.keys.journal import (
    FOLDER,
    Begun,
    DeadJournal,
    EndedRequest,
    read_entries,
    survey_journals,
)
from vibe_llms.daemons.keys.register import Key
from vibe_llms.exceptions import AccessError

_FILE: Final = "spending.sqlite"
_COLUMNS: Final = ", ".join(KeySpending._fields)
_PLACES: Final = ", ".join("?" * (3 + len(KeySpending._fields)))


class Bin(NamedTuple):
    """Key of a sum."""

    key: str
    day: str
    model: str


class Stake(NamedTuple):
    """A request of a bounded key that waits for admission."""

    key: Key
    charge: Charge
    journal: str
    number: int


class KeyAccount(NamedTuple):
    """Spending of keys, and requests under way.

    Attributes:
        spent: By key, day and model.
        under_way: Requests of live processes, and their reservations.
    """

    spent: Mapping[Bin, KeySpending]
    under_way: Mapping[Bin, KeySpending]


class KeyLedger:
    """The sums, and requests under way. Thread-safe if used by one thread at a time.

    Args:
        directory: Folder of the authorizer, shared by all processes.
        read_clock: Monotonic seconds, shared by all processes of a machine.
        tell_time: Seconds since 1970.

    Raises:
        StoreError: The database cannot be used; also raised by all methods.
    """

    def __init__(
        self, directory: Path, *, read_clock: Callable[[], float], tell_time: Callable[[], float]
    ) -> None:
        self._path = directory / _FILE
        self._journals = directory / FOLDER
        self._read_clock, self._tell_time = read_clock, tell_time
        self._lock = threading.Lock()
        self._database = open_database(self._path)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def fold(self) -> None:
        """Add all journals to the sums; those of dead processes completely."""
        with self._lock, telling(self._path):
            dead = [each for path in survey_journals(self._journals) if (each := _seize(path))]
            try:
                with transaction(self._database):
                    self._fold_all()
                    for path, _ in dead:
                        self._write_off(path.name)
                    self._forget_gone()
                # Delete a journal only after its sums are committed.
                for _, journal in dead:
                    journal.remove()
            finally:
                for _, journal in dead:
                    journal.release()

    def survey(self) -> KeyAccount:
        """Return the spending up to now."""
        self.fold()
        spent: dict[Bin, KeySpending] = {}
        under_way: dict[Bin, KeySpending] = {}
        with self._lock, telling(self._path):
            query = f"SELECT key, day, model, {_COLUMNS} FROM spending ORDER BY key, day, model"
            for key, day, model, *sums in self._database.execute(query):
                spent[Bin(key, day, model)] = _read_spending(sums)
            rows = self._database.execute(
                "SELECT key, day, model, input_tokens, output_tokens, cents FROM reservations"
            )
            for row in rows:
                charge = _read_charge(row)
                place = Bin(charge.key, charge.day, charge.model)
                held = settle(charge, UNKNOWN)
                under_way[place] = add_spending(under_way.get(place, KeySpending()), held)
        return KeyAccount(spent, under_way)

    # --- admission -------------------------------------------------------------------------

    def admit(self, stakes: Sequence[Stake]) -> list[AccessError | None]:
        """Admit or refuse requests, in order; reserve the charges of admitted ones."""
        with self._lock, telling(self._path), transaction(self._database):
            # Ended requests have used less or more than their reservation.
            self._fold_all()
            return [self._try(stake) for stake in stakes]

    def _try(self, stake: Stake) -> AccessError | None:
        key, charge = stake.key, stake.charge
        now, second = self._read_clock(), None
        window: list[Slot] = []
        if key.requests_per_minute is not None or key.tokens_per_minute is not None:
            second, window = int(now), self._read_window(charge.key, now)
        spent = self._sum_day(charge) if key.cents_per_day is not None else NOTHING
        day_left = DAY_SECONDS - self._tell_time() % DAY_SECONDS
        refusal = find_refusal(key, charge, window, now, spent, day_left)
        if refusal is None:
            self._set_aside(stake.journal, stake.number, charge, second)
            if second is not None:
                self._count(charge.key, second, 1, charge.input_tokens + charge.output_tokens)
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
                self._count(key, *slot)
        return window

    def _count(self, key: str, second: int, requests: int, tokens: int) -> None:
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

    def _set_aside(self, journal: str, number: int, charge: Charge, second: int | None) -> None:
        *rest, cents = charge
        text = None if cents is None else str(cents)
        self._database.execute(
            "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (journal, number, *rest, text, second),
        )

    # --- folding ---------------------------------------------------------------------------

    def _fold_all(self) -> None:
        for path in survey_journals(self._journals):
            self._fold(path)

    def _fold(self, path: Path) -> None:
        name = path.name
        query = "SELECT folded FROM journals WHERE name = ?"
        start = (self._database.execute(query, (name,)).fetchone() or (0,))[0]
        try:
            if path.stat().st_size == start:
                return
            entries, end = read_entries(path, start)
        except FileNotFoundError:  # another process has written it off; its name is never reused
            return
        begun: dict[int, Charge] = {}
        sums: dict[Bin, KeySpending] = {}
        for entry in entries:
            if isinstance(entry, Begun):
                begun[entry.number] = entry.charge
            else:
                charge = begun.pop(entry.number, None) or self._take(name, entry)
                if charge is not None and entry.used is not None:
                    _add(sums, charge, settle(charge, entry.used))
        for number, charge in begun.items():
            self._set_aside(name, number, charge, None)
        self._add_sums(sums)
        self._database.execute(
            "INSERT INTO journals VALUES (?, ?) ON CONFLICT DO UPDATE SET folded = excluded.folded",
            (name, end),
        )

    def _take(self, journal: str, ended: EndedRequest) -> Charge | None:
        """Release an earlier reservation, and correct its minute."""
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

    def _write_off(self, journal: str) -> None:
        """Count the requests of a dead process as perhaps sent."""
        rows = self._database.execute(
            "DELETE FROM reservations WHERE journal = ? RETURNING"
            " key, day, model, input_tokens, output_tokens, cents",
            (journal,),
        ).fetchall()
        sums: dict[Bin, KeySpending] = {}
        for row in rows:
            charge = _read_charge(row)
            _add(sums, charge, settle(charge, UNKNOWN))
        self._add_sums(sums)

    def _forget_gone(self) -> None:
        """Delete rows of deleted journals, whose names are never reused."""
        names = self._database.execute("SELECT name FROM journals").fetchall()
        gone = [each for each in names if not (self._journals / each[0]).exists()]
        self._database.executemany("DELETE FROM journals WHERE name = ?", gone)

    def _add_sums(self, sums: Mapping[Bin, KeySpending]) -> None:
        for place, more in sums.items():
            query = f"SELECT {_COLUMNS} FROM spending WHERE key = ? AND day = ? AND model = ?"
            row = self._database.execute(query, place).fetchone()
            total = add_spending(_read_spending(row), more) if row else more
            values = [f"{each:f}" if isinstance(each, Decimal) else each for each in total]
            self._database.execute(
                f"INSERT OR REPLACE INTO spending (key, day, model, {_COLUMNS}) VALUES ({_PLACES})",
                (*place, *values),
            )


def _seize(path: Path) -> tuple[Path, DeadJournal] | None:
    journal = DeadJournal.seize(path)
    return None if journal is None else (path, journal)


def _add(sums: dict[Bin, KeySpending], charge: Charge, more: KeySpending) -> None:
    place = Bin(charge.key, charge.day, charge.model)
    sums[place] = add_spending(sums[place], more) if place in sums else more


def _find_difference(charge: Charge, ended: EndedRequest) -> tuple[int, int]:
    """Return the correction of a minute when a request has ended."""
    reserved = charge.input_tokens + charge.output_tokens
    if ended.used is None:
        return -1, -reserved
    fixed = settle(charge, ended.used)
    known = fixed.input_tokens + fixed.output_tokens
    return 0, known + fixed.perhaps_input_tokens + fixed.perhaps_output_tokens - reserved


def _read_charge(row: tuple[str, str, str, int, int, str | None]) -> Charge:
    key, day, model, input_tokens, output_tokens, cents = row[:6]
    return Charge(
        key, day, model, input_tokens, output_tokens, None if cents is None else Decimal(cents)
    )


def _read_spending(row: Iterable[object]) -> KeySpending:
    kinds = (type(each) for each in KeySpending())
    values = [
        Decimal(str(value)) if kind is Decimal else value
        for kind, value in zip(kinds, row, strict=True)
    ]
    return KeySpending(*values)  # type: ignore[arg-type]  # the schema says of what kind each is
