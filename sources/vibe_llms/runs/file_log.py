"""The log in a file beside the conversation's messages: one event a line."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import msgspec

from vibe_llms.conversations.contents import replace_media
from vibe_llms.conversations.stores import lines, locks
from vibe_llms.conversations.stores.disk import Disk
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.conversations.stores.media import detach
from vibe_llms.conversations.stores.tallies import Tally, find_loss, write_tally
from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.engine import (
    EngineEvent,
    GenerationFailedEvent,
    InvocationFinishedEvent,
)
from vibe_llms.exceptions import (
    CodecError,
    CorruptionError,
    Finding,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.files import naming, open_regular, read_regular
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import MediaContent
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.views import media_of
from vibe_llms.runs.log import LoggedEvent, describe_busy

RUNS = "runs.jsonl"
TALLY = "runs.tally"
LOCK = "runs.lock"

_Canister = TypeVar("_Canister", bound=AnyCanister)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    sequence: int
    timestamp: datetime
    run_id: str
    event: msgspec.Raw


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Line)


class FileLog:
    """Keeps the log of one conversation in its folder; see :class:`.log.RunLog`.

    Nothing is opened or made before it is claimed, read or written to.

    Args:
        folder: Of the conversation.
        contents: Where the bytes of media go; ``None`` leaves them in the lines.
        disk: Performs every change; tests replace it.
    """

    def __init__(
        self, folder: str, *, contents: ContentStore | None = None, disk: Disk | None = None
    ) -> None:
        self.path = f"{folder}/{RUNS}"
        self.notices: tuple[Finding, ...] = ()
        self._folder = folder
        self._contents = contents
        self._disk = Disk() if disk is None else disk
        self._lock: int | None = None
        self._descriptor: int | None = None
        self._end = Tally()  # replaced as a whole: an interrupt leaves the old or the new one
        self._synchronized = 0
        self._door = threading.Lock()  # a file is not closed while it is synchronized
        self._turnstile = asyncio.Lock()

    # --- writing ---------------------------------------------------------------------------

    @mapping_errors
    def claim(self) -> None:
        """Keeps other runs out, and puts right what a crash has left."""
        if self._lock is not None:
            raise describe_busy(f"{self._folder}/{LOCK}")
        self._lock = self._acquire_lock()
        try:
            self._descriptor = self._open()
            with naming(self.path):
                size = self._settle(self._descriptor)
            self._end = Tally(self._find_last(self._descriptor, size), size)
            self._refuse_loss()
        except BaseException:
            self.close()
            raise

    def _acquire_lock(self) -> int:
        path = f"{self._folder}/{LOCK}"
        while True:
            try:
                return locks.acquire(path, wait_seconds=0)
            except FileNotFoundError:
                try:
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
                except FileNotFoundError:
                    raise UnknownConversationError(
                        identity=Path(self._folder).name, path=self._folder
                    ) from None
            except StoreError as error:
                raise describe_busy(path) from error

    def _open(self) -> int:
        try:
            return self._disk.open_to_append(self.path)
        except FileNotFoundError:
            os.close(self._disk.create(self.path))
            self._disk.synchronize_folder(self._folder)
            return self._disk.open_to_append(self.path)

    def _settle(self, descriptor: int) -> int:
        """Sets aside what a crash has left of a last line; returns the size of the others."""
        size = os.fstat(descriptor).st_size
        start = lines.find_torn_start(descriptor, size)
        if start < size:
            notice = lines.set_torn_aside(self._disk, self._folder, descriptor, start, size, RUNS)
            self.notices += (notice,)
        return start

    def _find_last(self, descriptor: int, size: int) -> int:
        """Returns the number of the last event."""
        if not size:
            return 0
        return self._open_envelope(_read_last_line(descriptor, size), "last line").sequence

    def _refuse_loss(self) -> None:
        """What took effect and is forgotten would be executed again."""
        loss = self._find_loss(self._end.lines)
        if loss is not None:
            raise CorruptionError(path=self.path, detail=loss.message)

    def _find_loss(self, count: int) -> Finding | None:
        return find_loss(f"{self._folder}/{TALLY}", count, self.path)

    async def write(self, run_id: str, event: EngineEvent) -> int:
        """Appends an event; media go to the content store first."""
        if self._contents is not None and _has_media(event):
            event = await asyncio.to_thread(_detach, event, self._contents)
        return self.append(run_id, event)

    @mapping_errors
    def append(self, run_id: str, event: EngineEvent) -> int:
        """Appends an event; media keep their bytes."""
        if self._descriptor is None:
            raise StoreError(path=self.path, detail=f"{self.path} was not claimed for a run.")
        number = self._end.lines + 1
        line = _Line(number, access_now(), run_id, msgspec.Raw(encode_event(event)))
        data = _ENCODER.encode(line) + b"\n"
        with naming(self.path):
            try:
                self._disk.write(self._descriptor, data)
                self._end = Tally(number, self._end.size + len(data))
            except BaseException:  # also Ctrl-C: what is not acknowledged is taken back
                self._disk.truncate(self._descriptor, self._end.size)
                raise
        return number

    async def secure(self, sequence: int) -> None:
        """Waits for the disk."""
        async with self._turnstile:
            if self._synchronized < sequence:  # else it went along with a later one
                await asyncio.to_thread(self.synchronize)

    @mapping_errors
    def synchronize(self) -> None:
        """Returns when all that was written has reached the disk."""
        end = self._end
        with self._door, naming(self.path):
            if self._descriptor is not None:
                self._disk.synchronize(self._descriptor)
                self._synchronized = end.lines
                write_tally(self._disk, f"{self._folder}/{TALLY}", end)

    def close(self) -> None:
        """Lets others in."""
        with self._door:
            descriptor, self._descriptor = self._descriptor, None
            lock, self._lock = self._lock, None
        with suppress(OSError):
            if descriptor is not None:
                os.close(descriptor)
        if lock is not None:
            locks.release(lock)

    # --- reading ---------------------------------------------------------------------------

    @mapping_errors
    def read(self, *, after: int = 0) -> Sequence[LoggedEvent]:
        """Returns the events after a sequence number. Changes nothing."""
        try:
            whole = read_regular(self.path).split(b"\n")[:-1]  # the last is empty, or torn
        except FileNotFoundError:
            return []
        return [self._decode(line, number) for number, line in enumerate(whole[after:], after + 1)]

    @mapping_errors
    def examine(self) -> tuple[int, tuple[Finding, ...]]:
        """Proves each line; returns how many there are, and what is wrong. Changes nothing."""
        try:
            *whole, torn = read_regular(self.path).split(b"\n")
        except FileNotFoundError:
            whole, torn = [], b""
        findings: list[Finding] = []
        for number, line in enumerate(whole, 1):
            try:
                self._decode(line, number)
            except CorruptionError as error:
                findings.append(Finding(place=self.path, line=number, message=error.detail))
        if torn:
            fate = "is still there"
            findings.append(lines.describe_torn(self._folder, fate, len(torn), RUNS))
        loss = self._find_loss(len(whole))
        return len(whole), (*findings, *([loss] if loss else []))

    @mapping_errors
    def read_last(self) -> LoggedEvent | None:
        """Returns the last event. Changes nothing."""
        try:
            descriptor = open_regular(self.path)
        except FileNotFoundError:
            return None
        try:
            size = lines.find_torn_start(descriptor, os.fstat(descriptor).st_size)
            data = _read_last_line(descriptor, size) if size else b""
        finally:
            os.close(descriptor)
        return self._decode(data) if data else None

    def _decode(self, data: bytes, number: int = 0) -> LoggedEvent:
        what = "line" if number else "last line"
        line = self._open_envelope(data, what, number)
        try:
            event = decode_event(bytes(line.event))
        except CodecError as error:
            raise self._describe_damage(what, str(error), number) from error
        if number and line.sequence != number:
            detail = f"it says that it is number {line.sequence}"
            raise self._describe_damage(what, detail, number)
        return LoggedEvent(
            sequence=line.sequence,
            timestamp=line.timestamp.astimezone(UTC),
            run_id=line.run_id,
            event=cast(EngineEvent, event),
        )

    def _open_envelope(self, data: bytes, what: str, number: int = 0) -> _Line:
        try:
            return _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._describe_damage(what, str(error), number) from error

    def _describe_damage(self, what: str, detail: str, number: int = 0) -> CorruptionError:
        return CorruptionError(
            path=self.path,
            line=number,
            detail=f"The {what} does not read: {detail}.",
            remedy="Correct the file by hand; what was said is in messages.jsonl beside it.",
        )


def _read_last_line(descriptor: int, size: int) -> bytes:
    start = lines.find_line_start(descriptor, size - 1)
    return lines.read_at(descriptor, start, size - start)


def _has_media(event: EngineEvent) -> bool:
    match event:
        case InvocationFinishedEvent():
            return bool(media_of((event.result,)))
        case GenerationFailedEvent():
            return bool(media_of(event.canisters))
    return False


def _detach(event: EngineEvent, contents: ContentStore) -> Any:
    """Moves the bytes of media to the content store; they are there before a line names them."""

    def place(content: MediaContent, data: bytes) -> str:
        return contents.add(data, mime_type=content.mime_type, name=content.name)

    def put(canister: _Canister) -> _Canister:
        return replace_media(canister, lambda item: detach(item, place, contents.contains))

    if isinstance(event, InvocationFinishedEvent):
        return attrs.evolve(event, result=put(event.result))
    assert isinstance(event, GenerationFailedEvent)
    return attrs.evolve(event, canisters=tuple(map(put, event.canisters)))
