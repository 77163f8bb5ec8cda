"""Atomic writing of a file, never through a link."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Final

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import GrantedPath
from vibe_llms.invocables.shipped.opening import describe_kind

_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS: Final = 0o777
"""Preserved bits of a file's mode, without set-user-ID and set-group-ID."""


def encode(text: str, limit_bytes: int) -> bytes:
    """Return a text in UTF-8.

    Raises:
        Refusal: The text cannot be encoded, or is too large.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(
            "The text contains an invalid character: half of a surrogate pair."
        ) from error
    if len(data) > limit_bytes:
        raise Refusal(f"The text has {len(data)} bytes; the limit is {limit_bytes}.")
    return data


def ensure_writable(target: GrantedPath) -> os.stat_result | None:
    """Return the status of the existing file, if any.

    Raises:
        Refusal: The target must not be written, or is not a regular file.
    """
    if not target.grant.is_writable:
        raise Refusal(f"{target.shown} is in a read-only directory.")
    status = target.inspect()
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = describe_kind(status.st_mode) or "something special"
        raise Refusal(f"{target.shown} is not a file ({kind}).")
    # The permissions of the directory would allow replacing a read-only file, but it is refused.
    if not os.access(target.name, os.W_OK, dir_fd=target.directory):
        raise Refusal(f"Cannot write {target.shown}: permission denied.")
    return status


def replace_file(
    target: GrantedPath, data: bytes, before: os.stat_result | None, context: InvocationContext
) -> None:
    """Write a new file, which replaces an existing one.

    Args:
        before: The status of the file from which the new text was derived; ``None`` for a new file.

    Raises:
        Refusal: The file has changed since then, or the call was cancelled; nothing was written.
    """
    # A temporary file in the same directory, so that the rename is atomic.
    draft = f".{secrets.token_hex(8)}.draft"
    try:
        # The usual mode of new files, to which the user's umask applies.
        descriptor = os.open(draft, _CREATE_FLAGS, 0o666, dir_fd=target.directory)
    except OSError as error:
        raise Refusal(f"Cannot write {target.shown}: {error.strerror}.") from error
    try:
        try:
            _write_all(descriptor, data, before)
        finally:
            os.close(descriptor)
        # Otherwise changes since then would be lost silently.
        if _identify(target.inspect()) != _identify(before):
            raise Refusal(f"{target.shown} was changed in the meantime; read it again.")
        if context.cancelled:
            raise Refusal("The call was cancelled: nothing was written.")
        os.replace(draft, target.name, src_dir_fd=target.directory, dst_dir_fd=target.directory)
    except OSError as error:
        raise Refusal(f"Cannot write {target.shown}: {error.strerror}.") from error
    finally:
        # After success the temporary file does not exist, because it was renamed.
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=target.directory)


def _write_all(descriptor: int, data: bytes, before: os.stat_result | None) -> None:
    view = memoryview(data)
    while view:
        # os.write may write only a part.
        view = view[os.write(descriptor, view) :]
    if before is not None:
        # Keep the mode, so that a script stays executable.
        os.fchmod(descriptor, before.st_mode & _PERMISSIONS)
    # Before the rename, or a power failure could leave an empty file.
    os.fsync(descriptor)


def _identify(status: os.stat_result | None) -> tuple[int, ...]:
    """Return values that differ if the file has changed."""
    if status is None:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
