"""Writing a file: all of it or nothing, and never through a link."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Final

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import Place
from vibe_llms.invocables.shipped.opening import describe_kind

_DRAFTING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS: Final = 0o777
"""What is kept of a file's mode: not what lets it act as somebody else."""


def encode(text: str, limit_bytes: int) -> bytes:
    """Returns a text in UTF-8.

    Raises:
        Refusal: It cannot be, or is too large.
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


def ensure_writable(place: Place) -> os.stat_result | None:
    """Returns what is there now, if anything is.

    Raises:
        Refusal: It may not be written, or is no file.
    """
    if not place.grant.is_writable:
        raise Refusal(f"{place.shown} is in a read-only directory.")
    found = place.inspect()
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        kind = describe_kind(found.st_mode) or "something special"
        raise Refusal(f"{place.shown} is not a file ({kind}).")
    # A file that may not be written is not replaced either, though its directory would let us.
    if not os.access(place.name, os.W_OK, dir_fd=place.directory):
        raise Refusal(f"Cannot write {place.shown}: permission denied.")
    return found


def replace_file(
    place: Place, data: bytes, before: os.stat_result | None, context: InvocationContext
) -> None:
    """Puts a whole new file in the place of another, or of nothing.

    Args:
        before: What was there when it was decided what to write.

    Raises:
        Refusal: It changed meanwhile, or nobody waits any more; nothing was written then.
    """
    # In the same directory, so that it can take the other's place in one step.
    draft = f".{secrets.token_hex(8)}.draft"
    try:
        # The usual mode of new files: the user's umask takes from it what they do not want.
        descriptor = os.open(draft, _DRAFTING, 0o666, dir_fd=place.directory)
    except OSError as error:
        raise Refusal(f"Cannot write {place.shown}: {error.strerror}.") from error
    try:
        try:
            _fill(descriptor, data, before)
        finally:
            os.close(descriptor)
        # What was written since it was read is somebody's work, and would be lost in silence.
        if _identify(place.inspect()) != _identify(before):
            raise Refusal(f"{place.shown} was changed in the meantime; read it again.")
        if context.cancelled:
            raise Refusal("The call was cancelled: nothing was written.")
        os.replace(draft, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except OSError as error:
        raise Refusal(f"Cannot write {place.shown}: {error.strerror}.") from error
    finally:
        # Where all went well it is not there any more: it has the file's name.
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=place.directory)


def _fill(descriptor: int, data: bytes, before: os.stat_result | None) -> None:
    view = memoryview(data)
    while view:
        # The system may take less at once than it is given.
        view = view[os.write(descriptor, view) :]
    if before is not None:
        # A script stays one that can be executed.
        os.fchmod(descriptor, before.st_mode & _PERMISSIONS)
    # Before it takes the place: else a power failure could leave an empty file there.
    os.fsync(descriptor)


def _identify(found: os.stat_result | None) -> tuple[int, ...]:
    if found is None:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
