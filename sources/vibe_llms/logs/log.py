"""One file that only grows, while somebody has it open."""

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

    Opening it to append takes what a crash has torn off its end and sets it aside, in a file of
    its own beside it. Whoever does so keeps others out, by a lock: of the file itself, or of one
    beside it where the file may be replaced.

    Args:
        path: Of the file, which exists.
        disk: Performs every change.
        lock: What :func:`.locks.acquire` has returned; :meth:`close` gives it back. ``None``
            where others are kept out already, or need not be.
        tally: Where it is written down how many lines were acknowledged; ``None`` for nowhere.
        reading: Change nothing, so that a disk may be full or read-only: a torn end is merely
            reported.
        file: The open file, where that is its own lock. The caller closes it, if this fails.
        known: How large it was when it was closed last, and what was ``acknowledged`` then. Where
            it is as large by now, nobody has written since: neither its end nor the tally is
            looked at again.

    Attributes:
        descriptor: Of the open file.
        end: How many lines were appended since it was opened, and how large the file is, up to
            its last whole append.
        acknowledged: How many lines the tally says; ``None`` before it was looked at.
        notices: What was found torn.

    Raises:
        OSError: It cannot be opened or mended.
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
        known: Tally | None = None,
    ) -> None:
        self.path = path
        self.notices: tuple[Finding, ...] = ()
        self._disk = disk
        self._lock = lock
        self._tally = tally
        self.acknowledged: int | None = None
        self._file = _open(path, disk, reading) if file is None else file
        self.descriptor = self._file.fileno()
        try:
            start = self._settle(reading, known)
        except BaseException as error:
            if isinstance(error, OSError):
                name_file(error, path)
            if file is None:
                self._file.close()
            raise
        self.end = Tally(0, start)  # replaced as a whole: an interrupt leaves the old or the new
        self._certain = self.end
        self._is_torn = False

    def _settle(self, reading: bool, known: Tally | None) -> int:
        """Returns where the whole appends end, with what is torn behind them put right."""
        if known is not None and known.size == self._find_end():
            self.acknowledged = known.lines
            return known.size
        status = os.fstat(self.descriptor)
        ensure_regular(status, self.path)
        size = status.st_size
        start = find_torn_start(self.descriptor, size)
        if start < size:
            fate = "is still there" if reading else self._set_aside(start, size)
            self.notices = (_describe_torn(self.path, fate, size - start),)
        return start

    def _find_end(self) -> int | None:
        """Returns how large the file is, for a third of what all that is known of it costs."""
        try:
            return os.lseek(self.descriptor, 0, os.SEEK_END)
        except OSError:  # it is a pipe
            return None

    def _set_aside(self, start: int, size: int) -> str:
        """Moves the torn end into a file of its own.

        The copy is certain before the original is cut off; a crash between leaves both.
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

    def append(self, data: bytes, lines: int = 1, *, certain: bool = False) -> None:
        """Appends lines. When this returns, they survive the end of this process.

        Args:
            data: The lines, as :func:`.lines.join_lines` makes them where there are several.
            lines: How many there are.
            certain: Wait for the disk, so that they survive the loss of power, too.

        Raises:
            OSError: They could not be written. Nothing of them is in the file, as after an
                interrupt.
        """
        try:
            if self._is_torn:
                self._take_back()
            self._disk.write(self.descriptor, data)
            if certain:
                self._disk.synchronize(self.descriptor)
            self.end = Tally(self.end.lines + lines, self.end.size + len(data))
        except BaseException as error:  # also Ctrl-C: what is not acknowledged is taken back
            self._is_torn = True
            with suppress(OSError):  # then the next append, or whoever opens it next, does it
                self._take_back()
            if isinstance(error, OSError):
                name_file(error, self.path)
            raise
        if certain:
            self._note(self.end)

    def _take_back(self) -> None:
        self._disk.truncate(self.descriptor, self.end.size)
        self._is_torn = False

    def synchronize(self) -> None:
        """Returns when all that can be read survives the loss of power. Raises OSError."""
        end = self.end  # another thread may append meanwhile
        with naming(self.path):
            self._disk.synchronize(self.descriptor)
        self._note(end)

    def _note(self, end: Tally) -> None:
        """Writes down what is acknowledged by now."""
        former, self._certain = self._certain, end
        if self._tally is not None and end.lines > former.lines:
            known, self.acknowledged = self.acknowledged, None  # nor known after an interrupt
            self.acknowledged = advance_tally(
                self._disk, self._tally, self.descriptor, former, end, known
            )

    @property
    def modified_ns(self) -> int:
        """When it was last written to."""
        return os.fstat(self.descriptor).st_mtime_ns

    # --- reading ---------------------------------------------------------------------------

    def read(self) -> bytes:
        """Returns all lines."""
        with naming(self.path):
            return read_at(self.descriptor, 0, self.end.size)

    def read_last(self) -> bytes:
        """Returns the last line, its end included; nothing where there is none."""
        size = self.end.size
        with naming(self.path):
            # The last byte is the end of the line that is sought: the look begins before it.
            start = find_line_start(self.descriptor, size - 1) if size else 0
            return read_at(self.descriptor, start, size - start)

    def read_line(self, offset: int) -> bytes:
        """Returns the line that begins at a point, without its end.

        Raises:
            StoreError: There is none any more.
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
        """Yields where each line begins, and the line without its end; a block in memory."""
        at, offset, rest = 0, 0, b""
        size = self.end.size
        while block := read_at(self.descriptor, at, min(_BLOCK_BYTES, size - at)):
            at += len(block)
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield offset, line
                offset += len(line) + 1

    def close(self) -> None:
        """Closes the file, and lets others in. Does not wait for the disk."""
        try:
            # A file that is its own lock is closed once, together with the lock.
            if self._file is not self._lock:
                self._file.close()
        finally:
            if self._lock is not None:
                locks.release(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _open(path: str, disk: Disk, reading: bool) -> FileIO:
    return open_regular(path) if reading else disk.open_to_append(path)  # may be read-only


def _describe_torn(path: str, fate: str, size: int) -> Finding:
    return Finding(
        place=path,
        message=f"A crash tore the last write ({size} bytes, never acknowledged); it {fate}.",
    )
