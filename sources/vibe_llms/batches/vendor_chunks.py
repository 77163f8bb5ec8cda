"""Log of chunks at a vendor's batches: intents, written before anything is sent.

The log is a file beside the output, removed when all is answered. An intent has the items of one
chunk; a second line has the vendor's name of it, and a third ends it. An intent alone is resolved
by asking the vendor before anything is sent again.
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
    """End of a chunk."""

    READ = "read"
    REFUSED = "refused"
    ABSENT = "absent"
    LOST = "lost"


class ChunkItem(msgspec.Struct, array_like=True, gc=False):
    """Request of a chunk.

    Attributes:
        index: The place of its input, from 0.
        id: The name of its input, where it has one.
        digest: Of its input.
        had_failed: Whether the output had it as failed when it was submitted.
        losses: Of its translation, a line each.
    """

    index: int
    id: str | None
    digest: str
    had_failed: bool = False
    losses: tuple[str, ...] = ()

    @property
    def key(self) -> str | int:
        """What the input is known by: its name, or else its place."""
        return self.index if self.id is None else self.id


class Chunk(msgspec.Struct, kw_only=True):
    """Requests that are submitted together, and their state.

    Attributes:
        chunk: Our name for it.
        batch: The digest of the settings under which its items are asked.
        at: When it was about to be submitted, in seconds since 1970.
        sent: When it was about to be submitted again, the last time; 0 where it was not.
        items: What is asked; the name of each at the vendor has its place here.
        format: Of this line.
        vendor: The vendor's name for it; empty as long as nobody heard of that.
        end: Why nothing more is expected; empty as long as something is.
    """

    chunk: str
    batch: str
    at: float
    items: tuple[ChunkItem, ...]
    format: int = FORMAT
    sent: float = 0.0
    vendor: str = ""
    end: str = ""

    def find_place(self, name: str) -> int | None:
        """Return which item has a name at the vendor; ``None`` where none has."""
        chunk, _, place = name.rpartition("-")
        if chunk != self.chunk or not (place.isascii() and place.isdigit()):
            return None
        return int(place) if int(place) < len(self.items) else None


class _Note(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Change of a chunk's state."""

    chunk: str
    sent: float = 0.0
    vendor: str = ""
    end: str = ""


class ChunkLog:
    """Log of the chunks of one output. The lock of the output covers it.

    Args:
        output: Where the items go.
        batch: The digest of the settings.

    Attributes:
        batch: The digest of the settings.
        chunks: All that were ever submitted and not yet forgotten, by our names.

    Raises:
        StoreError: The file cannot be read.
        RequestError: It is of a batch with other settings.
    """

    def __init__(self, output: Path, batch: str) -> None:
        self.path = find_path(output)
        self.chunks: dict[str, Chunk] = {}
        self.batch = batch
        self._disk = Disk()
        self._log: Log | None = None
        try:
            if self.path.exists():
                self._log = Log(str(self.path), self._disk)
                self._read(self._log)
        except StoreError:  # is an OSError, too
            self.close()
            raise
        except OSError as error:
            raise self._explain(error) from error
        except BaseException:
            self.close()
            raise

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found torn, and was set aside: it was not submitted."""
        return () if self._log is None else self._log.notices

    @property
    def open_chunks(self) -> list[Chunk]:
        """Those of which something is expected."""
        return [chunk for chunk in self.chunks.values() if not chunk.end]

    @property
    def vendor_names(self) -> frozenset[str]:
        """The vendor's names of all that were heard of."""
        return frozenset(chunk.vendor for chunk in self.chunks.values() if chunk.vendor)

    async def intend(self, chunk: Chunk) -> None:
        """Write down what is about to be submitted, and waits for the disk. Raises StoreError."""
        await self._write(chunk)
        self.chunks[chunk.chunk] = chunk

    async def send_again(self, chunk: Chunk, moment: float) -> None:
        """Write down that a chunk is about to be submitted once more. Raises StoreError."""
        await self._write(_Note(chunk=chunk.chunk, sent=moment))
        chunk.sent = moment

    async def name(self, chunk: Chunk, vendor: str) -> None:
        """Write down under which name the vendor has it. Raises StoreError."""
        await self._write(_Note(chunk=chunk.chunk, vendor=vendor))
        chunk.vendor = vendor

    async def end(self, chunk: Chunk, end: ChunkEnd) -> None:
        """Write down that nothing more is expected. Raises StoreError."""
        await self._write(_Note(chunk=chunk.chunk, end=end))
        chunk.end = end

    def forget(self) -> None:
        """Remove the file, when nothing is expected any more. Raises StoreError."""
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
                self._take(line)
            except (*UNREADABLE, KeyError, ValueError) as error:
                raise StoreError(
                    path=f"{self.path}:{number}",
                    detail=f"{self.path}:{number}: the line is not of a vendor's batch: {error}.",
                    remedy="Its requests may be billed: check the vendor's list of batches, then "
                    "remove the line.",
                ) from error
        if any(chunk.batch != self.batch for chunk in self.open_chunks):
            raise RequestError(
                path=str(self.path),
                detail=f"{self.path} has batches with other settings "
                "(model, controls, instructions, prompt or schema).",
                remedy="Use the same settings to continue them, or name another output.",
            )

    def _take(self, line: bytes) -> None:
        note = _decode_note(line)
        if note.chunk not in self.chunks:
            chunk = _decode_chunk(line)
            if chunk.format != FORMAT:
                raise ValueError(f"its format is {chunk.format}, but only {FORMAT} is supported")
            self.chunks[chunk.chunk] = chunk
            return
        known = self.chunks[note.chunk]
        known.sent = note.sent or known.sent
        known.vendor, known.end = note.vendor or known.vendor, note.end or known.end

    async def _write(self, line: Chunk | _Note) -> None:
        data = _encode(line) + b"\n"
        # To the end, whoever is cancelled: what was begun is on the disk or is not in the file.
        await finish(asyncio.to_thread(self._append, data))

    def _append(self, data: bytes) -> None:
        try:
            if self._log is None:
                write_new_file(self._disk, str(self.path), b"")
                self._disk.synchronize_folder(str(self.path.parent))
                self._log = Log(str(self.path), self._disk)
            self._log.append(data, certain=True)
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
_decode_note: Final = msgspec.json.Decoder(_Note).decode


def name_item(chunk: str, place: int) -> str:
    """Return how the vendor knows the request at a place of a chunk."""
    return f"{chunk}-{place}"


def find_path(output: Path) -> Path:
    """Return where the chunks of an output are written down."""
    return output.with_name(f"{output.name}{SUFFIX}")


def refuse_open_chunks(output: Path | None) -> None:
    """Refuse to ask directly what may be under way at a vendor.

    Raises:
        RequestError: There are chunks of this output.
    """
    if output is not None and (path := find_path(output)).exists():
        raise RequestError(
            path=str(path),
            detail=f"Inputs of {output} are in batches at the vendor, listed in {path.name}.",
            remedy="Continue with --channel vendor until these are read; asking them here would "
            "bill them twice.",
        )
