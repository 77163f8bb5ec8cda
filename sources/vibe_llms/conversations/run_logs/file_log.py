"""Log in a file beside the conversation's messages: one event per line."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

import attrs

from vibe_llms.conversations.run_logs.log import LogDefaults, LoggedEvent, describe_busy
from vibe_llms.conversations.run_logs.log_lines import (
    Envelope,
    Flaw,
    open_envelope,
    read_envelope,
    read_head,
    read_lines,
    write_line,
)
from vibe_llms.conversations.run_logs.publishing import publish
from vibe_llms.conversations.run_logs.tailing import FileTail, find_offset_after
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.conversations.stores.layout import RUNS
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.conversations.stores.media import detach_media
from vibe_llms.events.engine import (
    GenerationFailedEvent,
    InvocationFinishedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import (
    CodecError,
    CorruptionError,
    Finding,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.portal import finish
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk, replace_file
from vibe_llms.logs.lines import join_lines, read_at
from vibe_llms.logs.log import Log
from vibe_llms.logs.tallies import Tally, find_loss, renew_tally
from vibe_llms.messages.identities import Moments
from vibe_llms.messages.views import media_of

TALLY = "runs.tally"
LOCK = "runs.lock"


class FileLog(LogDefaults):
    """Log of one conversation in the conversation's folder; see :class:`.log.RunLog`.

    Opens and creates nothing before it is claimed, read or written to.

    Args:
        folder: Folder of the conversation.
        contents: Store for the bytes of media; ``None`` leaves them in the lines.
        disk: Performs every change of files; tests replace it.
    """

    _moments: Moments  # clock of the lines written since the claim
    _count_at_claim: int  # number of events at the time of the claim
    _write_lock: asyncio.Lock  # serializes waiting for the disk
    _synchronized: int  # number of the last event synchronized since then

    def __init__(
        self, folder: str, *, contents: ContentStore | None = None, disk: Disk | None = None
    ) -> None:
        self.path = f"{folder}/{RUNS}"
        self.notices: tuple[Finding, ...] = ()
        self._folder = folder
        self._contents = contents
        self._disk = Disk() if disk is None else disk
        self._log: Log | None = None
        self._lock = threading.Lock()  # prevents closing the file during a synchronization

    @property
    def topic(self) -> str:
        """Path of the file."""
        return self.path

    # --- writing ---------------------------------------------------------------------------

    @mapping_errors
    def claim(self) -> None:
        """Claim the log until :meth:`close`; move an incomplete last line to another file."""
        if self._log is not None:
            raise describe_busy(f"{self._folder}/{LOCK}")
        self._log = log = self._open()
        self._moments, self._write_lock = Moments(), asyncio.Lock()
        self._synchronized = 0  # if events were lost since, their numbers are used again
        try:
            self.notices += log.notices
            # The last number counts all events, so earlier lines need not be read.
            last = log.read_last()
            self._count_at_claim = self._open_envelope(last, "last line").sequence if last else 0
            self._ensure_complete()
        except BaseException:
            self.close()
            raise

    @property
    def is_claimed(self) -> bool:
        """True if a living process has claimed the log."""
        try:
            locks.release(locks.acquire(f"{self._folder}/{LOCK}", shared=True, wait_seconds=0))
        except FileNotFoundError:  # it was never claimed
            return False
        except StoreError:
            return True
        return False

    def _acquire_lock(self) -> FileIO:
        path = f"{self._folder}/{LOCK}"
        while True:
            try:
                # A run may take hours, so a second one fails at once instead of waiting.
                return locks.acquire(path, wait_seconds=0)
            except FileNotFoundError:
                try:
                    locks.make_lock(path)
                # If the folder is missing, the conversation does not exist.
                except FileNotFoundError:
                    raise UnknownConversationError(
                        identity=Path(self._folder).name, path=self._folder
                    ) from None
            except StoreError as error:
                if self.is_claimed:  # if not, another process was only checking for a claim
                    raise describe_busy(path) from error

    def _open(self) -> Log:
        lock, tally = self._acquire_lock(), f"{self._folder}/{TALLY}"
        try:
            if not os.path.lexists(self.path):
                self._disk.create(self.path).close()
                # Otherwise a power failure could lose the file, although its lines were reported as
                # durable.
                self._disk.synchronize_folder(self._folder)
            return Log(self.path, self._disk, lock=lock, tally=tally)
        except BaseException:
            locks.release(lock)
            raise

    def _ensure_complete(self) -> None:
        """Raise CorruptionError if the log has lost events.

        Otherwise a run would repeat calls that it has executed already.
        """
        loss = self._find_loss(self._count_at_claim)
        if loss is not None:
            raise CorruptionError(path=self.path, detail=loss.message)

    def _find_loss(self, count: int) -> Finding | None:
        return find_loss(f"{self._folder}/{TALLY}", count, self.path)

    async def write(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events; move media to the content store first."""
        contents = self._contents
        if contents is None or not any(map(_has_media, events)):
            return self.append(run_id, *events)

        async def write() -> int:
            detached = [await asyncio.to_thread(detach_event, each, contents) for each in events]
            return self.append(run_id, *detached)

        return await finish(write())

    @mapping_errors
    def append(self, run_id: str, *events: LogEvent, durable: bool = False) -> int:
        """Append events; media keep their bytes."""
        log = self._log
        if log is None:
            raise StoreError(path=self.path, detail=f"{self.path} was not claimed for a run.")
        number = self._count_at_claim + log.end.lines
        lines = [
            write_line(place, self._moments.access(), run_id, event)
            for place, event in enumerate(events, number + 1)
        ]
        # A crash may leave only some of these lines, which is as valid as an earlier end.
        log.append(b"".join([line + b"\n" for line in lines]), len(lines))
        for event, line in zip(events, lines, strict=True):
            number += 1
            publish(self.path, number, event, line)
        return number

    @mapping_errors
    def adopt(self, lines: Sequence[bytes]) -> None:
        """Append lines of another log unchanged, in one piece; wait for the disk."""
        if self._log is None:
            raise StoreError(path=self.path, detail=f"{self.path} was not claimed for a run.")
        data = join_lines(b"".join([line + b"\n" for line in lines]), len(lines))
        self._log.append(data, len(lines), durable=True)

    @mapping_errors
    def replace(self, lines: Sequence[bytes], until: int) -> None:
        """Replace all lines up to a number, in a new file."""
        log = self._log
        if log is None:
            raise StoreError(path=self.path, detail=f"{self.path} was not claimed for a run.")
        behind = find_offset_after(
            log.descriptor, log.end.size, until, lambda data: read_head(data).sequence
        )
        rest = read_at(log.descriptor, behind, log.end.size - behind)
        data = b"".join([line + b"\n" for line in lines]) + rest
        replace_file(self._disk, self.path, data)
        # The tally has the number of the last event, not the number of lines in the new file, which
        # is lower: with that, later losses would not be detected.
        end = Tally(self._count_at_claim + log.end.lines, len(data))
        renew_tally(self._disk, f"{self._folder}/{TALLY}", end)
        self.close()  # the open file is the old one

    async def secure(self, sequence: int) -> None:
        """Wait for the disk."""
        async with self._write_lock:
            if self._synchronized < sequence:  # otherwise a later synchronization included it
                await asyncio.to_thread(self.synchronize)

    @mapping_errors
    def synchronize(self) -> None:
        """Wait until all written lines have reached the disk."""
        with self._lock:
            if self._log is not None:
                # Counted before: lines appended during the synchronization may not be included.
                number = self._count_at_claim + self._log.end.lines
                self._log.synchronize()
                self._synchronized = number

    def close(self) -> None:
        """Close the file and release the claim; may be called again."""
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            # Lines that were reported as durable are on the disk, so an error here is harmless.
            with suppress(OSError):
                log.close()

    # --- reading ---------------------------------------------------------------------------

    @mapping_errors
    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Return the events after a sequence number. Changes nothing."""
        events = self._read_after(after) if after else None
        if events is not None:
            return events
        # If a line is damaged, all lines must be read to find out its number.
        logged = []
        for each in read_lines(self._read_lines()[0]):
            if each.sequence <= after:
                continue
            if isinstance(each, Flaw):
                raise self._describe_damage("line", each.detail, each.line)
            logged.append(each)
        return logged

    def _read_after(self, after: int) -> list[LoggedEvent] | None:
        """Read the lines after a number, found by binary search; ``None`` if one is damaged."""
        tail, data = self.tail(after), list[bytes]()
        try:
            while lines := tail.read():
                data += [line.data for line in lines]
        except CorruptionError:
            return None
        results = [*read_lines(data, after)]
        logged = [each for each in results if not isinstance(each, Flaw)]
        return logged if len(logged) == len(results) else None

    def measure(self) -> tuple[object, int] | None:
        """Return the number of the file in its file system, and the size of the file."""
        try:
            status = os.stat(self.path)  # fast, as it is called often, for all logs
        except OSError:
            return None
        return (status.st_ino, status.st_size) if status.st_size else None

    def tail(self, after: int = 0) -> FileTail:
        """Return a reader of the events after a number, while the log may grow."""
        return FileTail(self.path, after)

    @mapping_errors
    def examine(self) -> tuple[int, tuple[Finding, ...]]:
        """Verify each line; return their number and the flaws. Changes nothing."""
        whole, torn = self._read_lines()
        findings: list[Finding] = []
        last = 0
        for each in read_lines(whole):
            if isinstance(each, Flaw):
                detail = self._describe_damage("line", each.detail).detail
                findings.append(Finding(place=self.path, line=each.line, message=detail))
                last += 1  # an unreadable line still counts as existing
            else:
                last = each.sequence
        loss = self._find_loss(last)
        return len(whole), (*findings, *torn, *([loss] if loss else []))

    def _read_lines(self) -> tuple[list[bytes], tuple[Finding, ...]]:
        """Return the complete lines, and a finding about an incomplete last line."""
        try:
            with Log(self.path, self._disk, reading=True) as log:
                return log.read().split(b"\n")[:-1], log.notices
        except FileNotFoundError:
            return [], ()

    @mapping_errors
    def read_last(self) -> LoggedEvent | None:
        """Return the last event. Changes nothing."""
        try:
            with Log(self.path, self._disk, reading=True) as log:
                data = log.read_last()
        except FileNotFoundError:
            return None
        return self._decode(data) if data else None

    def _decode(self, data: bytes) -> LoggedEvent:
        try:
            return open_envelope(self._open_envelope(data, "last line"))
        except CodecError as error:
            raise self._describe_damage("last line", str(error)) from error

    def _open_envelope(self, data: bytes, part: str) -> Envelope:
        try:
            return read_envelope(data)
        except UNREADABLE as error:
            raise self._describe_damage(part, str(error)) from error

    def _describe_damage(self, part: str, detail: str, number: int = 0) -> CorruptionError:
        return CorruptionError(
            path=self.path,
            line=number,
            detail=f"Cannot read the {part}: {detail}.",
            remedy="Correct the file by hand; the conversation is in messages.jsonl next to it.",
        )


def _has_media(event: LogEvent) -> bool:
    match event:
        case InvocationFinishedEvent():
            return bool(media_of((event.result,)))
        case GenerationFailedEvent():
            return bool(media_of(event.canisters))
    return False


def detach_event(event: LogEvent, contents: ContentStore) -> LogEvent:
    """Move the bytes of media to the content store before a line refers to them."""
    match event:
        case InvocationFinishedEvent() if _has_media(event):
            (result,) = detach_media([event.result], contents)
            return attrs.evolve(event, result=result)
        case GenerationFailedEvent() if _has_media(event):
            return attrs.evolve(event, canisters=tuple(detach_media(event.canisters, contents)))
    return event
