"""Journal of one process: reservations and actual usage, written at once and read by the ledger.

A line is written before a request is sent, and another when it has ended. They survive the process
and take two microseconds each; a transaction of SQLite takes hundreds. The file is locked while a
process writes to it. A journal without a lock is read to its end: requests without an end were
perhaps sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias

from vibe_llms.daemons.keys.charges import ActualUsage, Charge, bound_cents, bound_tokens
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import advise
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, make_folders
from vibe_llms.logs.log import Log

FOLDER: Final = "journals"
_SUFFIX: Final = ".journal"


class StartedRequest(NamedTuple):
    """A request with a reservation."""

    number: int
    charge: Charge


class EndedRequest(NamedTuple):
    """A request that has ended; ``usage`` is ``None`` if it was not sent."""

    number: int
    usage: ActualUsage | None


Entry: TypeAlias = StartedRequest | EndedRequest


class KeyJournal:
    """Journal of this process, open for appending. Not thread-safe.

    Args:
        directory: Folder of all journals.
        disk: Performs every change.

    Raises:
        OSError: It cannot be created.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._log = _open_log(directory, disk)
        self.name = Path(self._log.path).name
        self._last_number = 0
        self._open_count = 0
        self._is_retired = False
        self._is_closed = False
        self._unwritten = b""

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self._log.end.size

    def allocate_number(self) -> int:
        """Return a number for a request; :meth:`end` or :meth:`free_number` frees it."""
        self._last_number += 1
        self._open_count += 1
        return self._last_number

    def free_number(self) -> None:
        """Free a number that has no reservation."""
        self._open_count -= 1
        self._close_if_done()

    def begin(self, charge: Charge) -> int:
        """Write a reservation; return the number of the request.

        Raises:
            StoreError: It cannot be written, so the request must not be sent.
        """
        number = self._last_number + 1
        fields = "\t".join(map(str, charge))
        self._append(f"+\t{number}\t{fields}\n".encode())
        return self.allocate_number()

    def end(self, number: int, usage: ActualUsage | None) -> None:
        """Write the usage of a request; ``None`` if nothing was sent.

        Raises:
            StoreError: It cannot be written now. It will be written before the next line; if the
                process ends before, the reservation counts.
        """
        fields = "-" if usage is None else "\t".join(map(str, usage))
        line = f"=\t{number}\t{fields}\n".encode()
        try:
            self._append(line)
        except StoreError:
            self._unwritten += line
            raise
        finally:
            self.free_number()

    def retire(self) -> None:
        """Close the journal once all its requests have ended."""
        self._is_retired = True
        self._close_if_done()

    def close(self) -> None:
        """Close the journal: requests under way count as perhaps sent."""
        if self._is_closed:
            return
        if self._unwritten:
            with suppress(StoreError):  # last attempt
                self._append(b"")
        self._is_closed = True
        self._log.close()

    def _close_if_done(self) -> None:
        if self._is_retired and self._open_count == 0:
            self.close()

    def _append(self, line: bytes) -> None:
        if self._is_closed:  # the descriptor may be reused
            raise StoreError(path=self._log.path, detail=f"{self._log.path} is closed.")
        try:
            self._log.append(self._unwritten + line if self._unwritten else line)
        except OSError as error:
            raise StoreError(
                path=self._log.path,
                detail=f"Cannot write the journal of keys: {self._log.path}: {error.strerror}.",
                remedy=advise(error),
            ) from error
        self._unwritten = b""


class DeadJournal:
    """Journal of a dead process, locked against other readers."""

    def __init__(self, path: Path, lock: FileIO) -> None:
        self._path, self._lock = path, lock

    @classmethod
    def lock(cls, path: Path) -> Self | None:
        """Lock a journal; return ``None`` if it is deleted, or in use by another process."""
        try:
            return cls(path, locks.acquire(str(path), wait_seconds=0))
        except (StoreError, FileNotFoundError):
            return None

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink()

    def release(self) -> None:
        """Release the lock."""
        locks.release(self._lock)


def _open_log(directory: Path, disk: Disk) -> Log:
    make_folders(disk, str(directory))
    while True:
        path = str(directory / f"{os.urandom(8).hex()}{_SUFFIX}")
        disk.create(path).close()
        try:
            lock = locks.acquire(path)
        except FileNotFoundError:
            continue  # another process locked and deleted the journal first
        return Log(path, disk, lock=lock, file=lock)


def survey_journals(directory: Path) -> list[Path]:
    """Return the paths of all journals."""
    return sorted(directory.glob(f"*{_SUFFIX}"))


def read_entries(path: Path, start: int) -> tuple[list[Entry], int]:
    """Return the entries after an offset, and their end.

    Raises:
        FileNotFoundError: Another process has read and deleted it.
        StoreError: A line is invalid.
    """
    with path.open("rb") as file:
        file.seek(start)
        data = file.read()
    complete_lines = data[: data.rfind(b"\n") + 1]  # the last line may be incomplete
    return list(_parse(path, start, complete_lines)), start + len(complete_lines)


def _parse(path: Path, start: int, data: bytes) -> Iterator[Entry]:
    offset = start
    for line in data.splitlines(keepends=True):
        try:
            yield _parse_line(line.decode().rstrip("\n").split("\t"))
        except (ValueError, InvalidOperation) as error:
            raise StoreError(
                path=str(path),
                detail=f"Invalid line in {path} at byte {offset}: it was changed or is damaged.",
                remedy="Move the file away; its requests are then not accounted for.",
            ) from error
        offset += len(line)


def _parse_line(fields: list[str]) -> Entry:
    match fields:
        case ["+", number, key, day, model, input_tokens, output_tokens, cents]:
            charge = Charge(
                key,
                day,
                model,
                bound_tokens(int(input_tokens)),
                bound_tokens(int(output_tokens)),
                _parse_cents(cents),
            )
            return StartedRequest(int(number), charge)
        case ["=", number, "-"]:
            return EndedRequest(int(number), None)
        case ["=", number, input_tokens, output_tokens, cents]:
            usage = ActualUsage(
                _parse_count(input_tokens), _parse_count(output_tokens), _parse_cents(cents)
            )
            return EndedRequest(int(number), usage)
    raise ValueError(fields)


def _parse_count(field: str) -> int | None:
    return None if field == "None" else bound_tokens(int(field))


def _parse_cents(field: str) -> Decimal | None:
    return None if field == "None" else bound_cents(Decimal(field))
