"""One append-only file, while it is open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from typing import Final, Self

from vibe_llms.exceptions import Finding, StoreError
from vibe_llms.foundation.files import ensure_regular, name_file, naming, open_regular
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, write_new_file
from vibe_llms.logs.lines import find_line_start, find_torn_start, read_at
from vibe_llms.logs.tallies import Tally, advance_tally

_BLOCK_BYTES: Final = 1 << 20
_LINE_BYTES: Final = 1 << 16


class Log:
    """A file of lines, open at its end.

    Opening it to append moves a torn end into a separate file next to it. The writer excludes
    others by a lock: of the file itself, or of a file next to it if the log may be replaced.

    Args:
        path: Path of the file, which exists.
        disk: Disk that performs all changes.
        lock: The result of :func:`.locks.acquire`; :meth:`close` releases it. ``None`` if others
            are locked out already, or need not be.
        tally: The file that records how many lines were acknowledged; ``None`` for no record.
        reading: Change nothing, so that the disk may be full or read-only: a torn end is only
            reported.
        file: The open file, if it is its own lock. The caller closes it if this fails.
        keeps_tally: Leave the tally open, so that the log can be suspended.
        known: The size when it was last closed, and the ``acknowledged`` lines then. If the size is
            still the same, nothing was written since: neither its end nor the tally is read again.

    Attributes:
        descriptor: Descriptor of the open file.
        end: Lines appended since it was opened, and the file's size up to its last whole append.
        acknowledged: Lines according to the tally; ``None`` before the tally was read.
        notices: Reports of a torn end.

    Raises:
        OSError: The file cannot be opened or repaired.
    """

    def __init__(
        self,
        path: str,
        disk: Disk,
        *,
        lock: FileIO | None = None,
        tally: str | None = None,
        reading: bool = False,
        file: FileIO | None = None,
        keeps_tally: bool = False,
        known: Tally | None = None,
    ) -> None:
        self.path = path
        self.notices: tuple[Finding, ...] = ()
        self._disk = disk
        self._lock = lock
        self._tally = tally
        self._tally_file: FileIO | None = None
        self._keeps_tally = keeps_tally
        self.acknowledged: int | None = None
        self._file = _open(path, disk, reading) if file is None else file
        self.descriptor = self._file.fileno()
        try:
            self._begin(self._find_appends_end(reading, known))
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, path)
            if file is None:
                self._file.close()
            raise

    def _begin(self, start: int) -> None:
        self.end = Tally(0, start)  # replaced as a whole: an interrupt leaves the old or the new
        self._durable_end = self.end
        self._is_torn = False

    def _find_appends_end(self, reading: bool, known: Tally | None) -> int:
        """Return the end of the whole appends, after setting a torn end aside."""
        if known is not None and known.size == self._find_end():
            self.acknowledged = known.lines
            return known.size
        status = os.fstat(self.descriptor)
        ensure_regular(status, self.path)
        size = status.st_size
        start = find_torn_start(self.descriptor, size)
        if start < size:
            outcome = "is still there" if reading else self._set_aside(start, size)
            self.notices = (_describe_torn(self.path, outcome, size - start),)
        return start

    def _find_end(self) -> int | None:
        """Return the size of the file; costs a third of a full ``stat``."""
        try:
            return os.lseek(self.descriptor, 0, os.SEEK_END)
        except OSError:  # the file is a pipe
            return None

    def _set_aside(self, start: int, size: int) -> str:
        """Move the torn end into a file of its own.

        The copy is on the disk before the original is cut off; a crash between leaves both.
        """
        torn = read_at(self.descriptor, start, size - start)
        stem = self.path.removesuffix(".jsonl")
        number = 1
        while os.path.lexists(target := f"{stem}.torn-{number}"):
            number += 1
        write_new_file(self._disk, target, torn)
        self._disk.synchronize_folder(os.path.dirname(target) or ".")
        self._disk.truncate(self.descriptor, start)
        self._disk.synchronize(self.descriptor)
        return f"was set aside in {target}"

    # --- writing ---------------------------------------------------------------------------

    def append(self, data: bytes, lines: int = 1, *, durable: bool = False) -> None:
        """Append lines. When this returns, they survive the end of this process.

        Args:
            data: The lines; several as :func:`.lines.join_lines` makes them.
            lines: Number of the lines.
            durable: Wait for the disk, so that they also survive a loss of power.

        Raises:
            OSError: They could not be written. The file contains none of them, as after an
                interrupt.
        """
        try:
            if self._is_torn:
                self._undo_append()
            self._disk.write(self.descriptor, data)
            if durable:
                self._disk.synchronize(self.descriptor)
            self.end = Tally(self.end.lines + lines, self.end.size + len(data))
        except BaseException as error:  # also Ctrl-C: an append that is not acknowledged is undone
            self._is_torn = True
            with suppress(OSError):  # then the next append or the next writer undoes it
                self._undo_append()
            if isinstance(error, OSError):
                name_file(error, self.path)
            raise
        if durable:
            self._advance_tally(self.end)

    def _undo_append(self) -> None:
        self._disk.truncate(self.descriptor, self.end.size)
        self._is_torn = False

    def synchronize(self) -> None:
        """Wait until all lines survive a loss of power. Raises OSError."""
        end = self.end  # another thread may append during the wait
        with naming(self.path):
            self._disk.synchronize(self.descriptor)
        self._advance_tally(end)

    def _advance_tally(self, end: Tally) -> None:
        """Update the tally of acknowledged lines."""
        previous, self._durable_end = self._durable_end, end
        if self._tally is not None and end.lines > previous.lines:
            known, self.acknowledged = self.acknowledged, None  # unknown also after an interrupt
            file, self._tally_file = self._tally_file, None
            self.acknowledged, file = advance_tally(
                self._disk, self._tally, self.descriptor, previous, end, known, file
            )
            if self._keeps_tally:
                self._tally_file = file
            elif file is not None:
                file.close()

    @property
    def modified_ns(self) -> int:
        """Time of the last write."""
        return os.fstat(self.descriptor).st_mtime_ns

    # --- reading ---------------------------------------------------------------------------

    def read(self) -> bytes:
        """Read all lines."""
        with naming(self.path):
            return read_at(self.descriptor, 0, self.end.size)

    def read_from(self, offset: int) -> bytes | None:
        """Read the lines from an offset on; ``None`` if no line ends there."""
        size = self.end.size
        with naming(self.path):
            is_line = not offset or read_at(self.descriptor, offset - 1, 1) == b"\n"
            if offset > size or not is_line:
                return None
            return read_at(self.descriptor, offset, size - offset)

    def read_last(self) -> bytes:
        """Return the last line, including its end; empty if there is none."""
        size = self.end.size
        with naming(self.path):
            # The last byte is the end of the wanted line: search before it.
            start = find_line_start(self.descriptor, size - 1) if size else 0
            return read_at(self.descriptor, start, size - start)

    def read_line(self, offset: int) -> bytes:
        """Return the line that begins at a position, without its end.

        Raises:
            StoreError: There is no line at the position.
        """
        data = read_at(self.descriptor, offset, _LINE_BYTES)
        while (end := data.find(b"\n")) < 0:
            more = read_at(self.descriptor, offset + len(data), len(data))
            if not more:
                raise StoreError(
                    path=self.path, detail=f"{self.path} was truncated while it was open."
                )
            data += more
        return data[:end]

    def walk(self) -> Iterator[tuple[int, bytes]]:
        """Yield the start of each line, and the line without its end; holds one block in memory."""
        at, offset, rest = 0, 0, b""
        size = self.end.size
        while block := read_at(self.descriptor, at, min(_BLOCK_BYTES, size - at)):
            at += len(block)
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield offset, line
                offset += len(line) + 1

    # --- between appends -------------------------------------------------------------------

    def suspend(self) -> bool:
        """Release the lock, and leave the files open.

        Returns:
            ``False``, after closing all, if the tally is not open.
        """
        if self._tally_file is None or self._lock is None:
            self.close()
            return False
        locks.unlock(self._lock)
        return True

    def lock(self, wait_seconds: float) -> None:
        """Lock a suspended log; the caller checks that its files are still those at their paths.

        Raises:
            StoreError: Another process held the lock for longer than ``wait_seconds``.
        """
        assert self._lock is not None
        locks.acquire_again(self._lock, self.path, wait_seconds=wait_seconds)

    def resume(self, size: int | None) -> None:
        """Continue at the end of a suspended and locked log; the caller closes it on a failure.

        Args:
            size: The size when the caller last saw it; ``None`` if unknown. If it is still the
                same, nothing was written since: neither its end nor the tally is read again.
        """
        self.notices = ()
        try:
            if size == self.end.size == os.lseek(self.descriptor, 0, os.SEEK_END):
                return
            self.acknowledged = None
            self._begin(self._find_appends_end(False, None))
        except OSError as error:
            name_file(error, self.path)
            raise

    def close(self) -> None:
        """Close the file and release its lock. Does not wait for the disk."""
        try:
            if self._tally_file is not None:
                self._tally_file.close()
            # A file that is its own lock is closed once, together with the lock.
            if self._file is not self._lock:
                self._file.close()
        finally:
            if self._lock is not None:
                locks.release(self._lock)

    def close_inherited(self) -> None:
        """Close the files in a child process; the lock stays with its parent."""
        for file in (self._file, self._tally_file, self._lock):
            if file is not None:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _open(path: str, disk: Disk, reading: bool) -> FileIO:
    return open_regular(path) if reading else disk.open_to_append(path)  # may be read-only


def _describe_torn(path: str, outcome: str, size: int) -> Finding:
    return Finding(
        place=path,
        message=f"A crash tore the last write ({size} bytes, never acknowledged); it {outcome}.",
    )
