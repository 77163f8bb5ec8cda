"""Result journal as a file with one line per item, which is also the output.

A line is written in full before its item is yielded, and never changed. After a kill the file has
all yielded items, and only inputs in progress are processed again. The last line of an item counts:
an item that failed and was retried has two lines until the batch is done.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from io import FileIO
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from vibe_llms.batches.item_lines import decode_head, encode
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.journals import DoneItem, refuse_input
from vibe_llms.exceptions import Finding, RequestError, StoreError
from vibe_llms.foundation.portal import finish
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, replacing, write_new_file
from vibe_llms.logs.lines import read_at
from vibe_llms.logs.log import Log

_BEGINNING = b'{"batch":"'
"""Beginning of every line; a file that begins otherwise is not a journal."""


_SYNC_SECONDS: Final = 1.0
"""Interval between flushes to the disk. A loss of power loses the lines of one interval; the death
of the process loses none."""
_GROUP_BYTES: Final = 1_048_576
"""Size of the lines that are joined for one write; bounds the memory for the joined copy."""


async def open_file_journal(stack: AsyncExitStack, path: Path, batch: str) -> FileJournal:
    """Open a journal until the stack exits, and periodically flush it to the disk.

    Raises:
        StoreError: As :class:`FileJournal`.
        RequestError: As :class:`FileJournal`.
    """
    journals: list[FileJournal] = []
    try:  # in a thread, since the file may be long
        await finish(asyncio.to_thread(lambda: journals.append(FileJournal(path, batch))))
    finally:
        for journal in journals:
            stack.callback(journal.close)
    # The stack exits in reverse order: the periodic flush stops before the journal is closed.
    synchronizing = asyncio.ensure_future(_synchronize(journals[0]))
    stack.push_async_callback(_cancel, synchronizing)
    return journals[0]


async def _synchronize(journal: FileJournal) -> None:
    while True:
        await asyncio.sleep(_SYNC_SECONDS)
        await journal.secure()


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


_Pending: TypeAlias = tuple[BatchItem[Any], bytes, "asyncio.Future[None]"]


def _take_group(pending: Sequence[_Pending]) -> list[_Pending]:
    """Return the first lines, as many as are written at once."""
    size = 0
    for count, each in enumerate(pending, 1):
        size += len(each[1])
        if size > _GROUP_BYTES:
            return list(pending[:count])
    return list(pending)


class FileJournal:
    """Lines of one batch in one file, written by one process at a time.

    Uses about 170 bytes of memory for each item of earlier runs, and 16 for each new one.

    Args:
        path: The file. It is created if missing.
        batch: Digest of the settings of this batch.

    Raises:
        StoreError: Another process writes to the file, or it is not a batch journal, or cannot be
            written.
        RequestError: It is the journal of a batch with other settings.
    """

    def __init__(self, path: Path, batch: str) -> None:
        self.path = path
        self._batch = batch
        self._disk = Disk()
        self._entries: dict[str | int, DoneItem] = {}
        # Alternating values for each line: index of the input, and offset of the line. One array,
        # so that an interrupt leaves both values or neither.
        self._offsets = array("q")
        self._stale: set[int] = set()  # offsets of superseded lines
        lock = _open(path)
        try:
            self._ensure_journal(lock.fileno())
            # Read first, and only then open for repair: lines of another batch stay untouched.
            self._read_entries(Log(str(path), self._disk, reading=True, file=lock))
            self._log = Log(str(path), self._disk, lock=lock, file=lock)
        except BaseException:
            locks.release(lock)
            raise
        self._synchronized = self._log.end
        self._is_closed = False
        self._pending: list[_Pending] = []

    def find(self, key: str | int, input_digest: str) -> DoneItem | None:
        """Return the entry of an item; ``None`` if it was not done.

        Raises:
            RequestError: The item was done for another input.
        """
        entry = self._entries.get(key)
        if entry is not None and entry.input_digest != input_digest:
            raise refuse_input(str(self.path), key, "or name another file")
        return entry

    async def put(
        self, item: BatchItem[Any], input_digest: str, reserved: int = 0
    ) -> BatchItem[Any]:
        """Write the line of an item, together with those of the same turn of the event loop.

        Raises:
            StoreError: The line could not be written; the lines before it are intact.
        """
        item, line = encode(item, self._batch, input_digest)
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self._write_pending)
        written = loop.create_future()
        self._pending.append((item, line, written))
        await written
        return item

    def _write_pending(self) -> None:
        while self._pending:
            group = _take_group(self._pending)
            try:
                self.write([each[:2] for each in group])
            except StoreError:  # the disk may be full, but each line was paid for
                for each in group:  # a shorter line may still fit
                    self._write_one(*each)
            for _, _, written in group:
                if not written.done():
                    written.set_result(None)
            del self._pending[: len(group)]  # an interrupt leaves them to the next write

    def _write_one(self, item: BatchItem[Any], line: bytes, written: asyncio.Future[None]) -> None:
        try:
            self.write([(item, line)])
        except StoreError as error:
            if not written.done():
                written.set_exception(error)

    def write(self, written: Sequence[tuple[BatchItem[Any], bytes]]) -> None:
        """Write lines at once. After this returns, they survive the death of this process.

        Raises:
            StoreError: The lines could not be written; the file is unchanged, as after an
                interrupt.
        """
        offset = self._log.end.size
        try:
            self._log.append(b"".join([line for _, line in written]), len(written))
        except OSError as error:
            raise self._explain(error) from error
        for item, line in written:
            self._record_offset(item.index if item.id is None else item.id, item.index, offset)
            offset += len(line)

    def _record_offset(self, key: str | int, index: int, offset: int) -> None:
        """Record the position of an item's line; an earlier one is stale."""
        if (earlier := self._entries.get(key)) is not None:
            self._stale.add(earlier.offset)
        self._offsets.extend((index, offset))

    def read(self, entry: DoneItem) -> bytes:
        """Return the line of an item."""
        return self._log.read_line(entry.offset)

    @property
    def stored(self) -> int:
        """Number of items done in earlier runs."""
        return len(self._entries)

    def walk(self) -> Iterator[bytes]:
        """Yield all lines, including superseded lines of retried items."""
        for offset in self._offsets[1::2]:
            yield self._log.read_line(offset)

    async def secure(self) -> None:
        """Synchronize in a thread, even if cancelled. Raises StoreError."""
        await finish(asyncio.to_thread(self.synchronize))

    def synchronize(self) -> None:
        """Flush the written lines to the disk."""
        end = self._log.end
        if end != self._synchronized:
            self._log.synchronize()
            self._synchronized = end

    async def finish(self) -> None:
        """Settle the file in a thread. Raises StoreError."""
        # A thread cannot be stopped: a cancelled task waits until the file is complete.
        await finish(asyncio.to_thread(self.settle))

    def settle(self) -> None:
        """Reduce the file to one line per item, in the order of the inputs.

        If the file has another form, replace it atomically: a crash leaves either the old or the
        new file.

        Raises:
            StoreError: The file cannot be written.
        """
        places = self._choose_lines()
        if places is None:
            return
        try:
            with replacing(self._disk, str(self.path)) as draft:
                write_new_file(self._disk, draft, b"")
                self._copy(places, draft)
        except OSError as error:
            raise self._explain(error) from error

    def close(self) -> None:
        """Flush all lines to the disk, and release the file. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._write_pending()
            self.synchronize()
        finally:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Torn lines that were set aside; their inputs are processed again."""
        return self._log.notices

    def _ensure_journal(self, descriptor: int) -> None:
        beginning = read_at(descriptor, 0, len(_BEGINNING))
        if not _BEGINNING.startswith(beginning):
            raise StoreError(
                path=str(self.path),
                detail=f"{self.path} does not hold the results of a batch.",
                remedy="Name another file; this one was not changed.",
            )

    def _read_entries(self, log: Log) -> None:
        for number, (offset, line) in enumerate(log.walk(), 1):
            self._read_entry(number, offset, line)

    def _read_entry(self, number: int, offset: int, line: bytes) -> None:
        try:
            head = decode_head(line)
        except StoreError as error:
            raise StoreError(
                path=f"{self.path}:{number}",
                detail=f"{self.path}:{number}: {error.detail}",
                remedy="Remove the line, and the input is processed again; or name another file.",
            ) from error
        if head.batch != self._batch:
            raise RequestError(
                path=f"{self.path}:{number}",
                detail=f"{self.path} has the results of a batch with other settings "
                "(model, controls, instructions, prompt, schema or function).",
                remedy="Use the same settings to continue it, or name another file.",
            )
        self._record_offset(head.key, head.index, offset)
        self._entries[head.key] = DoneItem(offset, head.input, head.has_failed)

    def _choose_lines(self) -> list[tuple[int, int]] | None:
        """Return the bounds of the lines to keep, in order; None if all stay unchanged."""
        indices, starts = self._offsets[::2], self._offsets[1::2]
        ends = starts[1:]
        ends.append(self._log.end.size)
        remaining = [number for number, start in enumerate(starts) if start not in self._stale]
        ordered = sorted(remaining, key=indices.__getitem__)
        if not self._stale and ordered == remaining:
            return None
        return [(starts[number], ends[number]) for number in ordered]

    def _copy(self, places: list[tuple[int, int]], draft: str) -> None:
        descriptor = self._log.descriptor
        with Path(draft).open("r+b") as file:
            for start, end in places:
                file.write(read_at(descriptor, start, end - start))
            file.flush()
            self._disk.synchronize(file.fileno())

    def _explain(self, error: OSError) -> StoreError:
        return StoreError(
            path=str(self.path),
            detail=f"Cannot write {self.path}: {error.strerror or error}.",
            remedy="Its contents are intact; free space, and run the same command to continue.",
        )


def _open(path: Path) -> FileIO:
    """Open and lock the file; create it if it is missing. Raises StoreError."""
    try:
        if not path.exists():
            # Not exclusively: the lock decides between processes that create it at the same moment.
            locks.make_lock(str(path))
        elif not path.is_file():
            raise StoreError(
                path=str(path),
                detail=f"Cannot resume: {path} is not a regular file.",
                remedy="Name a file.",
            )
        return _lock(path)
    except StoreError:  # a subclass of OSError
        raise
    except OSError as error:
        raise StoreError(
            path=str(path),
            detail=f"Cannot open {path}: {error.strerror or error}.",
            remedy="Name a writable file in an existing folder.",
        ) from error


def _lock(path: Path) -> FileIO:
    try:
        return locks.acquire(str(path), wait_seconds=0)
    except StoreError as error:
        raise StoreError(
            path=str(path),
            detail=f"Another batch is writing to {path}.",
            remedy="Wait until it is done, or name another file.",
        ) from error
