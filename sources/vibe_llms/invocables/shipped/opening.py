"""Open and read the target of a walk, if it is a regular file or a directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import READING, GrantedPath

BLOCK_BYTES: Final = 65_536
# Without O_NONBLOCK, opening a pipe would wait for a writer.
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def describe_kind(mode: int) -> str:
    """Return the type of a target in words; empty for a regular file or an unknown type."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "")


@contextmanager
def open_file(target: GrantedPath) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file for reading, without blocking or other side effects.

    Raises:
        Refusal: The file is missing, or not a regular file.
    """
    # Check the type first, because opening some devices has side effects.
    before = target.inspect()
    if before is None:
        raise Refusal(f"{target.shown} does not exist.")
    _ensure_regular(target, before.st_mode)
    try:
        descriptor = os.open(target.name, _OPEN_FLAGS, dir_fd=target.directory)
    except OSError as error:
        raise Refusal(f"Cannot open {target.shown}: {error.strerror}.") from error
    try:
        status = os.fstat(descriptor)
        _ensure_regular(target, status.st_mode)  # it may have been replaced in between
        yield descriptor, status
    finally:
        os.close(descriptor)


def _ensure_regular(target: GrantedPath, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = describe_kind(mode)
        remedy = " List it with list_files." if stat.S_ISDIR(mode) else ""
        raise Refusal(f"{target.shown} is not a file ({kind or 'something special'}).{remedy}")


@contextmanager
def open_directory(target: GrantedPath) -> Iterator[int]:
    """Open a directory for listing.

    Raises:
        Refusal: The directory is missing, or not a directory.
    """
    try:
        descriptor = os.open(target.name, READING, dir_fd=target.directory)
    except FileNotFoundError as error:
        raise Refusal(f"{target.shown} does not exist.") from error
    except NotADirectoryError as error:
        raise Refusal(f"{target.shown} is not a directory.") from error
    except OSError as error:
        raise Refusal(f"Cannot open {target.shown}: {error.strerror}.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_blocks(descriptor: int, context: InvocationContext) -> Iterator[bytes]:
    """Yield the content of a file in blocks, until its end or until the call is cancelled."""
    while not context.cancelled and (block := os.read(descriptor, BLOCK_BYTES)):
        yield block


def read_whole(
    target: GrantedPath, descriptor: int, limit_bytes: int, context: InvocationContext
) -> bytes:
    """Return the whole content of a file.

    Raises:
        Refusal: The file is larger than the limit.
    """
    blocks: list[bytes] = []
    size = 0
    for block in read_blocks(descriptor, context):
        size += len(block)
        if size > limit_bytes:
            raise Refusal(f"{target.shown} is larger than the limit of {limit_bytes} bytes.")
        blocks.append(block)
    return b"".join(blocks)
