"""What requests take, written down at once: one file a process, which the ledger reads.

A line is in the file before a request is sent, and another when it is over. They survive the end
of the process, however it ends, for some two microseconds each; a transaction of SQLite takes some
hundred. The file is locked for as long as somebody writes to it. One that nobody holds any longer
is read to its end: what was begun in it and never ended was perhaps sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias

from vibe_llms.daemons.keys.charges import Charge, Used, bound_cents, bound_tokens
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import advise
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, make_folders
from vibe_llms.logs.log import Log

FOLDER: Final = "journals"
_ENDING: Final = ".journal"


class Begun(NamedTuple):
    """A request for which something was set aside."""

    number: int
    charge: Charge


class EndedRequest(NamedTuple):
    """A request that is over; ``used`` is ``None`` where it was never sent."""

    number: int
    used: Used | None


Entry: TypeAlias = Begun | EndedRequest


class KeyJournal:
    """The journal of this process, open at its end. Not for several threads.

    Args:
        directory: Of all journals.
        disk: Performs every change.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._log = _open_log(directory, disk)
        self.name = Path(self._log.path).name
        self._last_number = 0
        self._open_count = 0
        self._is_retired = False
        self._is_closed = False
        self._owed = b""

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self._log.end.size

    def take_number(self) -> int:
        """Returns the number of a request; :meth:`end` or :meth:`drop_number` gives it back."""
        self._last_number += 1
        self._open_count += 1
        return self._last_number

    def drop_number(self) -> None:
        """Takes note that nothing was set aside under a number."""
        self._open_count -= 1
        self._close_if_done()

    def begin(self, charge: Charge) -> int:
        """Sets something aside; returns the number of the request.

        Raises:
            StoreError: It cannot be written down, and so the request must not be sent.
        """
        number = self._last_number + 1
        words = "\t".join(map(str, charge))
        self._append(f"+\t{number}\t{words}\n".encode())
        return self.take_number()

    def end(self, number: int, used: Used | None) -> None:
        """Writes down what a request has used; with ``None``, that nothing was sent.

        Raises:
            StoreError: It cannot be written down now. It will be before anything else is; and
                should this process end before, what was set aside counts.
        """
        words = "\t".join(map(str, used)) if used is not None else "-"
        line = f"=\t{number}\t{words}\n".encode()
        try:
            self._append(line)
        except StoreError:
            self._owed += line
            raise
        finally:
            self.drop_number()

    def retire(self) -> None:
        """Closes it as soon as all that was begun in it has ended."""
        self._is_retired = True
        self._close_if_done()

    def close(self) -> None:
        """Closes it at once: what has not ended counts as perhaps sent."""
        if self._is_closed:
            return
        if self._owed:
            with suppress(StoreError):  # one last time
                self._append(b"")
        self._is_closed = True
        self._log.close()

    def _close_if_done(self) -> None:
        if self._is_retired and self._open_count == 0:
            self.close()

    def _append(self, line: bytes) -> None:
        if self._is_closed:  # its descriptor may be another file's by now
            raise StoreError(path=self._log.path, detail=f"{self._log.path} is closed.")
        try:
            self._log.append(self._owed + line if self._owed else line)
        except OSError as error:
            raise StoreError(
                path=self._log.path,
                detail="What requests use cannot be written down: "
                f"{self._log.path}: {error.strerror}.",
                remedy=advise(error),
            ) from error
        self._owed = b""


class DeadJournal:
    """A journal that nobody writes to any longer, held so that nobody else takes it up."""

    def __init__(self, path: Path, lock: FileIO) -> None:
        self._path, self._lock = path, lock

    @classmethod
    def seize(cls, path: Path) -> Self | None:
        """Takes a journal over; ``None`` where somebody still writes to it, or it is gone."""
        try:
            return cls(path, locks.acquire(str(path), wait_seconds=0))
        except (StoreError, FileNotFoundError):
            return None

    def remove(self) -> None:
        """Removes the file."""
        self._path.unlink()

    def release(self) -> None:
        """Lets go of it."""
        locks.release(self._lock)


def _open_log(directory: Path, disk: Disk) -> Log:
    make_folders(disk, str(directory))
    while True:
        path = str(directory / f"{os.urandom(8).hex()}{_ENDING}")
        disk.create(path).close()
        try:
            lock = locks.acquire(path)
        except FileNotFoundError:
            continue  # somebody thought that its process had ended
        return Log(path, disk, lock=lock, file=lock)


def survey_journals(directory: Path) -> list[Path]:
    """Returns the paths of all journals."""
    return sorted(directory.glob(f"*{_ENDING}"))


def read_entries(path: Path, start: int) -> tuple[list[Entry], int]:
    """Reads what was written behind a point; returns the entries and where they end.

    Raises:
        FileNotFoundError: It was read to its end by others, and is gone.
        StoreError: It has a line that says nothing.
    """
    with path.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]  # the last line may be on its way
    return list(_parse(path, start, whole)), start + len(whole)


def _parse(path: Path, start: int, data: bytes) -> Iterator[Entry]:
    offset = start
    for line in data.splitlines(keepends=True):
        try:
            yield _parse_line(line.decode().rstrip("\n").split("\t"))
        except (ValueError, InvalidOperation) as error:
            raise StoreError(
                path=str(path),
                detail=f"{path} says nothing at byte {offset}: it was changed or is damaged.",
                remedy="Move it away; what it says of requests is then in no account.",
            ) from error
        offset += len(line)


def _parse_line(words: list[str]) -> Entry:
    match words:
        case ["+", number, key, day, model, input_tokens, output_tokens, cents]:
            charge = Charge(
                key,
                day,
                model,
                bound_tokens(int(input_tokens)),
                bound_tokens(int(output_tokens)),
                _parse_cents(cents),
            )
            return Begun(int(number), charge)
        case ["=", number, "-"]:
            return EndedRequest(int(number), None)
        case ["=", number, input_tokens, output_tokens, cents]:
            used = Used(
                _parse_count(input_tokens), _parse_count(output_tokens), _parse_cents(cents)
            )
            return EndedRequest(int(number), used)
    raise ValueError(words)


def _parse_count(word: str) -> int | None:
    return None if word == "None" else bound_tokens(int(word))


def _parse_cents(word: str) -> Decimal | None:
    return None if word == "None" else bound_cents(Decimal(word))
