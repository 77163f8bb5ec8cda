"""Standard input as a pipe, whose writer may still be writing."""

from __future__ import annotations

import asyncio
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Iterator
from math import inf
from typing import Final

import click

from vibe_llms.foundation.files import PIPE_BYTES
from vibe_llms.instruments.live_inputs import iterate

PATIENCE_SECONDS: Final = 1.0
"""A pipe that is still open after this time is read as it is written."""

_PIECE_BYTES: Final = 65_536


def read_input(limit_bytes: int) -> bytes:
    """Read standard input to its end; blocks.

    Raises:
        click.UsageError: It has more bytes than the limit.
    """
    found, size = [], 0
    for piece in _read_pieces():
        found.append(piece)
        size += len(piece)
        if size > limit_bytes:
            raise _refuse_size(limit_bytes)
    return b"".join(found)


async def read_pipe(*, waits: bool) -> bytes | AsyncIterator[bytes]:
    """Read standard input: its bytes, or an iterator if its writer does not end soon.

    Args:
        waits: Wait for its end.

    Raises:
        click.UsageError: It has more than ``PIPE_BYTES`` before its end, if that is waited for.
    """
    pieces = iterate(_read_pieces())
    found, size = list[bytes](), 0
    loop = asyncio.get_running_loop()
    end = inf if waits else loop.time() + PATIENCE_SECONDS
    while True:
        coming = asyncio.ensure_future(_advance(pieces))
        await asyncio.wait({coming}, timeout=None if waits else max(0, end - loop.time()))
        if not coming.done() or loop.time() >= end or (size > PIPE_BYTES and not waits):
            return _go_on(found, coming, pieces)
        if not (piece := coming.result()):
            return b"".join(found)
        found.append(piece)
        size += len(piece)
        if size > PIPE_BYTES and waits:
            raise _refuse_size(PIPE_BYTES)


async def decode(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the text of bytes in UTF-8; invalid bytes are replaced."""
    decoder = getincrementaldecoder("utf-8-sig")("replace")
    async for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _refuse_size(limit_bytes: int) -> click.UsageError:
    return click.UsageError(f"Standard input has more than {limit_bytes:,} bytes.")


def _read_pieces() -> Iterator[bytes]:
    """Yield the bytes as they are written; blocks."""
    buffer = sys.stdin.buffer
    # A stream that a test provides may have no `read1`.
    read = getattr(buffer, "read1", buffer.read)
    while piece := read(_PIECE_BYTES):
        yield piece


async def _advance(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces, b"")


async def _go_on(
    found: list[bytes], coming: asyncio.Future[bytes], pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    for piece in found:
        yield piece
    if last := await coming:
        yield last
        async for piece in pieces:
            yield piece
