"""Write-ahead log of the chunks that are submitted as a vendor's batches.

The log is a file beside the output. A chunk has up to three lines: its intent with the list of its
items, which is written before the chunk is submitted; the vendor's name for the chunk; and its end.
If an intent has no second line, the vendor is asked for the chunk before it is submitted again. The
file is removed when all chunks have ended.
"""

from __future__ import annotations

import asyncio
import enum
from pathlib import Path
from typing import Final

import msgspec

from vibe_llms.exceptions import Finding, RequestError, StoreError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.portal import finish
from vibe_llms.logs.disk import Disk, write_new_file
from vibe_llms.logs.log import Log

SUFFIX: Final = ".chunks"
FORMAT: Final = 1


class ChunkEnd(enum.StrEnum):
    """Ends of a chunk.

    Attributes:
        READ: Its results were read.
        REFUSED: The vendor refused it.
        ABSENT: The vendor does not have the chunk: its items are submitted again in another chunk.
        LOST: The vendor had the chunk, but the results were deleted or cannot be read: the items
            failed.
    """

    READ = "read"
    REFUSED = "refused"
    ABSENT = "absent"
    LOST = "lost"


class ChunkItem(msgspec.Struct, array_like=True, gc=False):
    """Request of a chunk.

    Attributes:
        index: Place of its input, from 0.
        id: Name of the input, if it has one.
        digest: Digest of its input.
        had_failed: Whether the output listed the item as failed when it was submitted.
        losses: Losses of its translation, a line each.
    """

    index: int
    id: str | None
    digest: str
    had_failed: bool = False
    losses: tuple[str, ...] = ()

    @property
    def key(self) -> str | int:
        """Key of the input: its name, or its place if it has none."""
        return self.index if self.id is None else self.id


class Chunk(msgspec.Struct, kw_only=True):
    """Requests that are submitted together, and their state.

    Attributes:
        chunk: Own name of the chunk.
        batch: Digest of the settings under which its items are processed, by its name in the file.
        at: Time just before it was submitted, in seconds since 1970.
        sent: Time just before the chunk was last resubmitted; 0 if it was not.
        items: Requests of the chunk. A request's name at the vendor contains its index in this
            list.
        format: Format version of this line.
        vendor: The vendor's name for the chunk; empty until it is known.
        end: Reason why it has ended; empty while results are expected.
    """

    chunk: str
    batch: str
    at: float
    items: tuple[ChunkItem, ...]
    format: int = FORMAT
    sent: float = 0.0
    vendor: str = ""
    end: str = ""

    def find_index(self, name: str) -> int | None:
        """Return the place of the item with a name at the vendor, or ``None``."""
        chunk, _, place = name.rpartition("-")
        if chunk != self.chunk or not (place.isascii() and place.isdigit()):
            return None
        return int(place) if int(place) < len(self.items) else None


class _Change(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Change of a chunk's state."""

    chunk: str
    sent: float = 0.0
    vendor: str = ""
    end: str = ""


class ChunkLog:
    """Log of the chunks of one output. The lock of the output covers it.

    Args:
        output: File to which the items are written.
        settings_digest: The digest of the settings.

    Attributes:
        settings_digest: The digest of the settings.
        chunks: All submitted chunks that were not removed yet, by their own names.

    Raises:
        StoreError: The file cannot be read.
        RequestError: The file belongs to a batch with other settings.
    """

    def __init__(self, output: Path, settings_digest: str) -> None:
        self.path = find_path(output)
        self.chunks: dict[str, Chunk] = {}
        self.settings_digest = settings_digest
        self._disk = Disk()
        self._log: Log | None = None
        try:
            if self.path.exists():
                self._log = Log(str(self.path), self._disk)
                self._read(self._log)
        except StoreError:  # a subclass of OSError
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._explain(error) from error
        except BaseException:
            self.close()
            raise

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Torn lines that were set aside; their chunks were not submitted."""
        return () if self._log is None else self._log.notices

    @property
    def open_chunks(self) -> list[Chunk]:
        """Chunks whose results are expected."""
        return [chunk for chunk in self.chunks.values() if not chunk.end]

    @property
    def vendor_names(self) -> frozenset[str]:
        """Known vendor names of the chunks."""
        return frozenset(chunk.vendor for chunk in self.chunks.values() if chunk.vendor)

    async def intend(self, chunk: Chunk) -> None:
        """Write an intent and wait until it is on the disk. Raises StoreError."""
        await self._write(chunk)
        self.chunks[chunk.chunk] = chunk

    async def send_again(self, chunk: Chunk, timestamp: float) -> None:
        """Record that a chunk is about to be resubmitted. Raises StoreError."""
        await self._write(_Change(chunk=chunk.chunk, sent=timestamp))
        chunk.sent = timestamp

    async def name(self, chunk: Chunk, vendor: str) -> None:
        """Record the vendor's name for a chunk. Raises StoreError."""
        await self._write(_Change(chunk=chunk.chunk, vendor=vendor))
        chunk.vendor = vendor

    async def end(self, chunk: Chunk, end: ChunkEnd) -> None:
        """Record the end of a chunk. Raises StoreError."""
        await self._write(_Change(chunk=chunk.chunk, end=end))
        chunk.end = end

    def forget(self) -> None:
        """Remove the file when all chunks have ended. Raises StoreError."""
        if self._log is None or self.open_chunks:
            return
        self.close()
        try:
            self._disk.remove(str(self.path))
        except OSError as error:
            raise self._explain(error) from error
        self.chunks.clear()

    def close(self) -> None:
        """Close the file. May be called again."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _read(self, log: Log) -> None:
        for number, (_, line) in enumerate(log.walk(), 1):
            try:
                self._apply_line(line)
            except (*UNREADABLE, KeyError, ValueError) as error:
                raise StoreError(
                    path=f"{self.path}:{number}",
                    detail=f"{self.path}:{number}: the line is not of a vendor's batch: {error}.",
                    remedy="Its requests may be billed: check the vendor's list of batches, then "
                    "remove the line.",
                ) from error
        if any(chunk.batch != self.settings_digest for chunk in self.open_chunks):
            raise RequestError(
                path=str(self.path),
                detail=f"{self.path} has batches with other settings "
                "(model, controls, instructions, prompt or schema).",
                remedy="Use the same settings to continue them, or name another output.",
            )

    def _apply_line(self, line: bytes) -> None:
        change = _decode_change(line)
        if change.chunk not in self.chunks:
            chunk = _decode_chunk(line)
            if chunk.format != FORMAT:
                raise ValueError(f"its format is {chunk.format}, but only {FORMAT} is supported")
            self.chunks[chunk.chunk] = chunk
            return
        chunk = self.chunks[change.chunk]
        chunk.sent = change.sent or chunk.sent
        chunk.vendor = change.vendor or chunk.vendor
        chunk.end = change.end or chunk.end

    async def _write(self, line: Chunk | _Change) -> None:
        data = _encode(line) + b"\n"
        # Finish even when the task is cancelled: a write is either on the disk or not in the file.
        await finish(asyncio.to_thread(self._append, data))

    def _append(self, data: bytes) -> None:
        try:
            if self._log is None:
                write_new_file(self._disk, str(self.path), b"")
                self._disk.synchronize_folder(str(self.path.parent))
                self._log = Log(str(self.path), self._disk)
            self._log.append(data, durable=True)
        except OSError as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError) -> StoreError:
        return StoreError(
            path=str(self.path),
            detail=f"Cannot use {self.path}: {error.strerror or error}.",
            remedy="Its contents are intact; free space, and run the same command to continue.",
        )


_encode: Final = msgspec.json.Encoder().encode
_decode_chunk: Final = msgspec.json.Decoder(Chunk).decode
_decode_change: Final = msgspec.json.Decoder(_Change).decode


def name_item(chunk: str, place: int) -> str:
    """Return the name at the vendor of the request at a place of a chunk."""
    return f"{chunk}-{place}"


def find_path(output: Path) -> Path:
    """Return the path of an output's chunk log."""
    return output.with_name(f"{output.name}{SUFFIX}")


def refuse_open_chunks(output: Path | None) -> None:
    """Refuse direct processing of inputs that a vendor may be processing.

    Raises:
        RequestError: This output has a chunk log.
    """
    if output is not None and (path := find_path(output)).exists():
        raise RequestError(
            path=str(path),
            detail=f"Inputs of {output} are in batches at the vendor, listed in {path.name}.",
            remedy="Continue with --channel vendor until these are read; processing them here "
            "would bill them twice.",
        )
