"""Files at paths that users specify: reading always ends, and writing is atomic.

Opening a pipe waits for a process at its other end, and a device such as ``/dev/zero`` has no end.
Both can be at a path where a file is expected, by mistake or by intent. Every error names its file;
those of an open file descriptor would not.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path

_NON_BLOCKING = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
# In a shared folder, the draft must not be a link that another user has created.
_DRAFT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NON_BLOCKING | getattr(os, "O_NOFOLLOW", 0)
_BLOCK_BYTES = 1 << 16
PIPE_BYTES = 200_000_000
"""Maximum of a pipe from which media or lines are read."""

_UNSIZED_BYTES = 20_000_000
"""Maximum of a device or another pipe, whatever the limit of a file is: it may have no end."""

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
_REMEDIES_FOR_NAMED_FILES = {
    errno.EINVAL: "Name a file.",
    errno.EISDIR: "Name a file.",
    errno.ENOTDIR: "Check the path, each folder of it.",
}


def advise(error: OSError, *, is_named: bool = False) -> str:
    """Return how to fix an error of the operating system, as a sentence.

    Args:
        is_named: Whether the user has named the file, and can name another.
    """
    remedies = _REMEDIES | _REMEDIES_FOR_NAMED_FILES if is_named else _REMEDIES
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
    """Add a file's name to the errors in the block that name no file, or only its draft.

    Args:
        draft: The temporary file whose name is replaced by the file's.
    """
    try:
        yield
    except OSError as error:
        name_file(error, path, draft)
        raise


def name_file(error: OSError, path: Path | str, draft: str | None = None) -> None:
    """Do the same as :func:`naming` for one error, without the cost of a context manager."""
    if error.errno is not None and error.filename in (None, draft):  # our own errors have no number
        error.filename = os.fspath(path)


def open_handle(path: Path | str, flags: int, mode: int = 0o777) -> FileIO:
    """Open a file as ``os.open`` does; return the object that owns the descriptor.

    An interrupt (Ctrl-C) may occur between any two steps of Python code, also after ``os.open`` has
    returned a descriptor and before a variable holds it. Such a descriptor would never be closed,
    nor the lock on its file released. Here both steps, opening the file and making the object, are
    one step of C code; the object closes the descriptor with its last reference.
    """
    try:
        return next(map(FileIO, map(os.open, (path,), (flags,), (mode,))))
    except IsADirectoryError as error:
        if isinstance(error.filename, int):  # raised by FileIO, which then does not own it
            os.close(error.filename)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path)) from None


def open_regular(path: str, flags: int = os.O_RDONLY) -> FileIO:
    """Open an existing file of finite length.

    Raises:
        OSError: It cannot be opened, or is a folder, a pipe or a device.
    """
    return open_measured(path, flags)[0]


def open_measured(path: str, flags: int = os.O_RDONLY) -> tuple[FileIO, os.stat_result]:
    """Do the same as :func:`open_regular`; return the status of the file, too."""
    file = open_handle(path, flags | _NON_BLOCKING)
    try:
        status = os.fstat(file.fileno())
        ensure_regular(status, path)
    except BaseException:
        file.close()
        raise
    return file, status


def open_reader(path: str) -> BufferedReader:
    """Open an existing file of finite length, for reading in pieces. Raises OSError."""
    return BufferedReader(open_regular(path))


def ensure_regular(status: os.stat_result, path: str) -> None:
    """Raise OSError for anything but a file of finite length: a folder, a pipe or a device."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "It is a pipe or a device, not a file", path)


def read_regular(path: str, limit_bytes: int | None = None) -> bytes:
    """Read a whole file of finite length. Raises OSError as :func:`open_regular`.

    Args:
        limit_bytes: Raise OSError for a larger file; ``None`` for any size.
    """
    with open_regular(path) as file:
        if limit_bytes is None:
            return file.readall()
        return _ensure_size(file.read(limit_bytes + 1), limit_bytes, path)


def read_file(
    path: Path | str, limit_bytes: int = 20_000_000, *, pipe_bytes: int = _UNSIZED_BYTES
) -> bytes:
    """Read from a path that the user specified: a file, or a pipe that a program writes to.

    Args:
        pipe_bytes: Limit of a pipe, if that is lower than the limit of a file.

    Raises:
        OSError: It cannot be read, exceeds the limit, or is a pipe without a writer.
    """
    data = read_beginning(path, limit_bytes + 1, pipe_bytes=pipe_bytes)
    return _ensure_size(data, limit_bytes, os.fspath(path))


def _ensure_size(data: bytes, limit_bytes: int, path: str) -> bytes:
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"It has more than {limit_bytes:,} bytes", path)
    return data


def expand_home(path: Path | str) -> Path:
    """Return a path with the home folder in place of ``~``, or of ``~name``.

    As in a shell, ``~name`` of an unknown user stays: it is the name of a file that is missing.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path.expanduser raises RuntimeError


def resolve_links(path: Path | str) -> Path:
    """Return the absolute path behind symbolic links; that of a loop of links stays."""
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError before Python 3.13


def read_secret(path: Path | str) -> str:
    """Read a secret text, without the blanks around it.

    Raises:
        ValueError: It cannot be read; says why, without any part of the text.
    """
    try:
        full_path = expand_home(path)
        # Editors end a file with a line end, which is not part of a key.
        text = read_file(full_path).decode().strip()
        warn_of_readers(full_path)
        return text
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        # Not chained to its cause: a decoding error includes the bytes of the file.
        raise ValueError(f"{path} cannot be read: {reason}.") from None


_warned_paths: set[str] = set()


def warn_of_readers(path: Path | str) -> None:
    """Warn if all users of this machine can read a file with a secret; once per file."""
    name = os.fspath(path)
    if os.name == "nt" or name in _warned_paths:
        return
    with suppress(OSError):
        mode = Path(name).stat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
            import logging  # rarely needed

            _warned_paths.add(name)
            logging.getLogger("vibe_llms.foundation.files").warning(
                "%s holds a secret, and all users of this machine can read it. Fix: chmod 600 %s",
                name,
                name,
            )


def read_beginning(path: Path | str, size_bytes: int, *, pipe_bytes: int = _UNSIZED_BYTES) -> bytes:
    """Read the first bytes at a path that the user specified.

    Args:
        pipe_bytes: Limit of a pipe.

    Raises:
        OSError: It cannot be read, is a pipe without a writer, or a pipe or device without an end.
    """
    name = os.fspath(path)
    with open_handle(name, os.O_RDONLY | _NON_BLOCKING) as file:
        descriptor = file.fileno()
        mode = os.fstat(descriptor).st_mode
        is_pipe = stat.S_ISFIFO(mode)
        data = _read_first(descriptor, is_pipe, name)
        limit_bytes = pipe_bytes if is_pipe else _UNSIZED_BYTES
        while len(data) < size_bytes:
            if len(data) > limit_bytes and not stat.S_ISREG(mode):
                kind = "pipe" if is_pipe else "device"
                detail = f"It is a {kind} with more than {limit_bytes:,} bytes; name a file"
                raise OSError(errno.EFBIG, detail, name)
            more = os.read(descriptor, min(_BLOCK_BYTES, size_bytes - len(data)))
            if not more:
                break
            data += more
        return bytes(data)


def _read_first(descriptor: int, is_pipe: bool, name: str) -> bytearray:
    """Return the data that a pipe already has, after checking that it has a writer.

    From then on, reading from the descriptor waits for data.
    """
    data = b""
    if is_pipe:
        try:
            data = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            pass  # it has a writer, which has not written yet
        else:
            if not data:
                raise OSError(errno.ENXIO, "The pipe has no writer", name)
    # It was opened without waiting only to detect a missing writer.
    if _NON_BLOCKING and hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return bytearray(data)


def replace_file(path: Path | str, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file atomically, or create it; after a failure the old file is unchanged.

    The data are on disk when this returns. If the path is a link, its target is replaced.

    Args:
        mode: The permissions of the new file; by default those of the old one, or for a new file
            those that the user's umask leaves.

    Raises:
        OSError: It cannot be written, or is a folder; it names the path.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".vibe-{os.urandom(4).hex()}.draft")
    if mode is None:
        with suppress(FileNotFoundError):
            mode = target.stat().st_mode & 0o777
    with naming(path, str(draft)):
        try:
            # If there is a mode, other users must not read the draft before it is set.
            with open_handle(draft, _DRAFT_FLAGS, 0o666 if mode is None else 0o600) as file:
                if mode is not None:
                    draft.chmod(mode)
                write_all(file.fileno(), data)
                os.fsync(file.fileno())
            draft.replace(target)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
    with suppress(OSError):  # some file systems cannot; the file is replaced in any case
        synchronize_folder(str(target.parent))


def synchronize_folder(path: str) -> None:
    """Wait until the entries of a folder are on disk. Raises OSError."""
    if os.name == "nt":  # which cannot open folders, and keeps entries in order itself
        return
    descriptors: list[int] = []
    try:
        # Open and remember in one step, as in `open_handle`, which cannot open folders.
        descriptors.extend(map(os.open, (path,), (os.O_RDONLY,)))
        os.fsync(descriptors[0])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def write_file(path: Path | str, data: bytes) -> None:
    """Write to a path that the user specified: replace a file, write into a pipe or a device.

    Raises:
        OSError: It cannot be written, or is a folder, or a pipe without a reader; it names the
            path.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return replace_file(path, data)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if stat.S_ISREG(status.st_mode) and not _is_stdout(status):
        return replace_file(path, data)
    with naming(path), _open_stream(path, status) as file:
        write_all(file.fileno(), data)
    return None


def _open_stream(path: Path | str, status: os.stat_result) -> FileIO:
    """Open a pipe or a device for writing, without waiting for its other end."""
    if _is_stdout(
        status
    ):  # such as /dev/stdout: opened anew, it would be overwritten from its start
        return next(map(FileIO, map(os.dup, (_STDOUT,))))
    try:
        file = open_handle(path, os.O_WRONLY | _NON_BLOCKING)
    except OSError as error:
        if error.errno == errno.ENXIO and stat.S_ISFIFO(status.st_mode):
            raise OSError(errno.ENXIO, "The pipe has no reader", os.fspath(path)) from error
        raise
    if _NON_BLOCKING and hasattr(os, "set_blocking"):
        os.set_blocking(file.fileno(), True)
    return file


def _is_stdout(status: os.stat_result) -> bool:
    try:
        return os.path.samestat(status, os.fstat(_STDOUT))
    except OSError:  # standard output was closed
        return False


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
