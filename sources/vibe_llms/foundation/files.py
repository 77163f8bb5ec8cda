"""Files at paths that people give: reading always ends, and writing is atomic.

Opening a pipe waits for a process at its other end, and a device such as ``/dev/zero`` has no end.
Both can be at a path where a file is expected, by mistake or by intent. Every error names its file,
which errors of an open descriptor do not do by themselves.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path

_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# In a shared folder, the draft must not be a link that another user has created.
_DRAFTING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AT_ONCE | getattr(os, "O_NOFOLLOW", 0)
_BLOCK_BYTES = 1 << 16
_STDOUT = 1

_DEFAULT_REMEDY = "Check that the disk has space and that the folder may be written to."
_REMEDIES = {
    errno.ENOSPC: "Free space on that disk, and try again.",
    errno.EDQUOT: "Delete files of yours there, or request a larger quota.",
    errno.EROFS: "Use another path; this disk is read-only.",
    errno.EMFILE: "Too many open files. Raise the limit: `ulimit -n 4096`.",
    errno.ENFILE: "Close programs that have many files open.",
    errno.ENXIO: "Start the process at its other end first.",
    errno.ENOENT: "Check the path, each folder of it.",
    errno.ENOTDIR: "A file is where a folder should be: move it away.",
    errno.EISDIR: "A folder is where a file should be: move it away.",
    errno.EINVAL: "Restore the file.",
    errno.EACCES: "Check its owner, and that you may read and write it.",
    errno.EPERM: "Check its owner, and that you may read and write it.",
}
_REMEDIES_OF_NAMED = {
    errno.EINVAL: "Name a file.",
    errno.EISDIR: "Name a file.",
    errno.ENOTDIR: "Check the path, each folder of it.",
}


def advise(error: OSError, *, is_named: bool = False) -> str:
    """Return how to fix an error of the operating system, as a sentence.

    Args:
        is_named: Whether the user has named the file, and can name another.
    """
    remedies = _REMEDIES | _REMEDIES_OF_NAMED if is_named else _REMEDIES
    return remedies.get(error.errno or 0, _DEFAULT_REMEDY)


def is_full(error: BaseException | None) -> bool:
    """Return whether an error means a full disk or an exhausted quota; also of a database."""
    while error is not None:
        if (
            getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            or getattr(error, "sqlstate", None) == "53100"  # of PostgreSQL
            or getattr(error, "sqlite_errorname", None) == "SQLITE_FULL"
        ):
            return True
        error = error.__cause__
    return False


@contextmanager
def naming(path: Path | str, draft: str | None = None) -> Iterator[None]:
    """Add this file's name to errors that name no file, or only its draft."""
    try:
        yield
    except OSError as error:
        name_file(error, path, draft)
        raise


def name_file(error: OSError, path: Path | str, draft: str | None = None) -> None:
    """Do the same as :func:`naming` for one error, without the cost of a context."""
    if error.errno is not None and error.filename in (None, draft):  # our own errors have no number
        error.filename = os.fspath(path)


def open_handle(path: Path | str, flags: int, mode: int = 0o777) -> FileIO:
    """Open a file as ``os.open`` does; return the object that owns the descriptor.

    An interrupt (Ctrl-C) may occur between any two steps of Python code, also after ``os.open`` has
    returned a number and before a variable holds it. Such a number is lost, and with it the lock on
    the file. Here opening and owning are one step of C code, and the owner closes the descriptor
    with its last reference.
    """
    try:
        return next(map(FileIO, map(os.open, (path,), (flags,), (mode,))))
    except IsADirectoryError as error:
        if isinstance(error.filename, int):  # refused by FileIO, which then owns nothing
            os.close(error.filename)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path)) from None


def open_regular(path: str, flags: int = os.O_RDONLY) -> FileIO:
    """Open an existing file of finite length.

    Raises:
        OSError: It cannot be opened, or is a folder, a pipe or a device.
    """
    file = open_handle(path, flags | _AT_ONCE)
    try:
        ensure_regular(os.fstat(file.fileno()), path)
    except BaseException:
        file.close()
        raise
    return file


def read_along(path: str) -> BufferedReader:
    """Open an existing file of finite length, for reading in pieces. Raises OSError."""
    return BufferedReader(open_regular(path))


def ensure_regular(found: os.stat_result, path: str) -> None:
    """Raise OSError for anything but a file of finite length: a folder, a pipe or a device."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "It is a pipe or a device, not a file", path)


def read_regular(path: str) -> bytes:
    """Read a whole file of finite length. Raises OSError as :func:`open_regular`."""
    with open_regular(path) as file:
        return file.readall()


def read_file(path: Path | str, limit_bytes: int = 20_000_000) -> bytes:
    """Read from a path that a person has named: a file, or a pipe that a program writes to.

    Raises:
        OSError: It cannot be read, exceeds the limit, or is a pipe without a writer.
    """
    data = read_beginning(path, limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"It has more than {limit_bytes} bytes", os.fspath(path))
    return data


def read_secret(path: Path | str) -> str:
    """Read a secret text, without the blanks around it.

    Raises:
        ValueError: It cannot be read; says why, without any part of the text.
    """
    try:
        found = Path(path).expanduser()
        # Editors end a file with a line end, which is not part of a key.
        text = read_file(found).decode().strip()
        warn_of_readers(found)
        return text
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        # Without its cause: a decoding error has the bytes of the file.
        raise ValueError(f"{path} cannot be read: {reason}.") from None


_warned: set[str] = set()


def warn_of_readers(path: Path | str) -> None:
    """Warn, once a process, of a file with a secret that all users of this machine can read."""
    shown = os.fspath(path)
    if os.name == "nt" or shown in _warned:
        return
    with suppress(OSError):
        mode = Path(shown).stat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
            import logging  # needed after an error only

            _warned.add(shown)
            logging.getLogger("vibe_llms.foundation.files").warning(
                "%s holds a secret, and all users of this machine can read it. Fix: chmod 600 %s",
                shown,
                shown,
            )


def read_beginning(path: Path | str, size_bytes: int) -> bytes:
    """Read the first bytes at a path that a person has named. Raises OSError."""
    shown = os.fspath(path)
    with open_handle(shown, os.O_RDONLY | _AT_ONCE) as file:
        descriptor = file.fileno()
        mode = os.fstat(descriptor).st_mode
        data = _read_first(descriptor, stat.S_ISFIFO(mode), shown)
        while len(data) < size_bytes:
            more = os.read(descriptor, min(_BLOCK_BYTES, size_bytes - len(data)))
            if not more:
                break
            data += more
        return bytes(data)


def _read_first(descriptor: int, is_pipe: bool, shown: str) -> bytearray:
    """Return the data in a pipe, after checking that it has a writer."""
    data = b""
    if is_pipe:
        try:
            data = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            pass  # its writer is still at work
        else:
            if not data:
                raise OSError(errno.ENXIO, "The pipe has no writer", shown)
    # Opened without waiting, to detect a missing writer; reading from it may wait.
    if _AT_ONCE and hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return bytearray(data)


def replace_file(path: Path | str, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file atomically, or create it; after a failure the old file is unchanged.

    The data are on disk when this returns. The target of a link is replaced, and the link stays.

    Args:
        mode: The permissions of the new file; by default those of the old one, or those that the
            user's umask leaves.

    Raises:
        OSError: It cannot be written, or is a folder; it names the path.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".vibe-{os.urandom(4).hex()}.draft")
    if mode is None:
        with suppress(FileNotFoundError):
            mode = target.stat().st_mode & 0o777
    with naming(path, str(draft)):
        # If a mode is given, others must not read the draft before it is set.
        try:
            with open_handle(draft, _DRAFTING, 0o666 if mode is None else 0o600) as file:
                if mode is not None:
                    draft.chmod(mode)
                _pour(file.fileno(), data)
                os.fsync(file.fileno())
            draft.replace(target)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
    with suppress(OSError):  # some file systems refuse; the file is in its place in any case
        synchronize_folder(str(target.parent))


def synchronize_folder(path: str) -> None:
    """Return when the entries of a folder are on disk. Raises OSError."""
    if os.name == "nt":  # which cannot open folders, and keeps entries in order itself
        return
    opened: list[int] = []
    try:
        # One step, as in `open_handle`, which does not open folders.
        opened.extend(map(os.open, (path,), (os.O_RDONLY,)))
        os.fsync(opened[0])
    finally:
        for descriptor in opened:
            os.close(descriptor)


def write_file(path: Path | str, data: bytes) -> None:
    """Write to a path that a person has named: replace a file, write into a pipe or a device.

    Raises:
        OSError: It cannot be written, or is a folder, or a pipe without a reader; it names the
        path.
    """
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return replace_file(path, data)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if stat.S_ISREG(found.st_mode) and not _is_stdout(found):
        return replace_file(path, data)
    with naming(path), _open_stream(path, found) as file:
        _pour(file.fileno(), data)
    return None


def _open_stream(path: Path | str, found: os.stat_result) -> FileIO:
    """Open a pipe or a device for writing, without waiting for its other end."""
    if _is_stdout(found):  # such as /dev/stdout: another descriptor would start at its beginning
        return next(map(FileIO, map(os.dup, (_STDOUT,))))
    try:
        file = open_handle(path, os.O_WRONLY | _AT_ONCE)
    except OSError as error:
        if error.errno == errno.ENXIO and stat.S_ISFIFO(found.st_mode):
            raise OSError(errno.ENXIO, "The pipe has no reader", os.fspath(path)) from error
        raise
    if _AT_ONCE and hasattr(os, "set_blocking"):
        os.set_blocking(file.fileno(), True)
    return file


def _is_stdout(found: os.stat_result) -> bool:
    try:
        return os.path.samestat(found, os.fstat(_STDOUT))
    except OSError:  # it was closed
        return False


def _pour(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
