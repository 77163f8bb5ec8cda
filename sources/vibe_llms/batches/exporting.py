"""Export of a batch's results to a file: lines of JSON, or Parquet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from vibe_llms.batches.item_lines import JournalLine, LineCounts
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.messages.canisters import INPUT_BUCKETS, OUTPUT_BUCKETS

if TYPE_CHECKING:
    from vibe_llms.batches.batch_specs import BatchRunner

PARQUET: Final = ".parquet"
_MAGIC: Final = b"PAR1"
"""Beginning of a Parquet file."""
_GROUP: Final = 10_000
"""Number of rows that are written as one group; so many are in memory at once."""

_BUCKETS: Final = (*INPUT_BUCKETS, *OUTPUT_BUCKETS)
_NO_COUNTS: Final = LineCounts()
_decode = msgspec.json.Decoder(JournalLine).decode


async def write_results(runner: BatchRunner, batch: str, path: Path) -> int:
    """Write the available results of a batch, in the order of the inputs; return their number.

    The file is replaced atomically.

    Raises:
        StoreError: The file cannot be written.
        DependencyError: pyarrow is not installed.
    """
    count = 0
    with replacing(path) as temporary, open_writer(temporary, path.suffix) as writer:
        group: list[bytes] = []
        outcomes = runner.follow(batch, ordered=True, waits=False)
        async with aclosing(outcomes):
            async for line, _ in outcomes:
                group.append(line)
                count += 1
                if len(group) == _GROUP:
                    await asyncio.to_thread(writer.write, group)
                    group = []
        await asyncio.to_thread(writer.write, group)
    return count


def ensure_form(path: Path) -> None:
    """Check that a file with this name can be written, before any request is paid for.

    Raises:
        DependencyError: The file is a Parquet table, and pyarrow is not installed.
    """
    if path.suffix.lower() == PARQUET:
        _import_arrow()


def ensure_own_file(path: Path, settings: str) -> None:
    """Refuse to overwrite a file that does not have results of this batch.

    Args:
        settings: The digest of the batch's settings, with which its lines begin.

    Raises:
        StoreError: The path has a different file.
        DependencyError: pyarrow is not installed.
    """
    ensure_form(path)
    beginning = _MAGIC if path.suffix.lower() == PARQUET else f'{{"batch":"{settings}"'.encode()
    if not path.is_file():  # reading a pipe may block forever
        return
    try:
        with path.open("rb") as file:
            found = file.read(len(beginning))
    except OSError:  # the error is reported when it is written
        return
    if found and found != beginning:
        raise StoreError(
            path=str(path),
            detail=f"{path} does not hold results of this batch.",
            remedy="Name another file; this one was not changed.",
        )


def convert_lines(lines: Iterable[bytes], path: Path, source: str) -> None:
    """Write lines of a batch in the format of the path's suffix.

    Args:
        source: Origin of the lines, for the error message about an invalid line.

    Raises:
        StoreError: The file cannot be written, or a line cannot be read.
        DependencyError: pyarrow is not installed.
    """
    with replacing(path) as temporary, open_writer(temporary, path.suffix) as writer:
        group: list[bytes] = []
        for number, line in enumerate(lines, 1):
            _check(line, f"{source}:{number}")
            group.append(line)
            if len(group) == _GROUP:
                writer.write(group)
                group = []
        writer.write(group)


def _check(line: bytes, place: str) -> None:
    """Refuse a line that does not belong to a batch. Raises StoreError."""
    try:
        _decode(line)
    except UNREADABLE as error:
        raise StoreError(
            path=place,
            detail=f"{place}: the line is not of a batch: {error}.",
            remedy="Name a file that `vibe batch --output` wrote; if it was interrupted, run the "
            "same command again to repair it.",
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it at the end. Raises StoreError."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(
                path=str(path),
                detail=f"Cannot write {path}: {error.strerror or error}.",
                remedy="Name a file in a folder that exists and has space.",
            ) from error
        raise


@contextmanager
def open_writer(path: Path, suffix: str) -> Iterator[_Lines | _Table]:
    """Open the writer of lines for the format of a suffix."""
    if suffix.lower() == PARQUET:
        with _Table(path) as table:
            yield table
    else:
        with path.open("xb") as file:
            os.chmod(file.fileno(), 0o600)  # noqa: PTH101  # as a journal is
            yield _Lines(file)
            file.flush()
            os.fsync(file.fileno())


class _Lines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, lines: list[bytes]) -> None:
        self._file.write(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))


def _import_arrow() -> tuple[Any, Any]:
    with needing("parquet", "pyarrow", "A Parquet file"):
        import pyarrow
        from pyarrow import parquet
    return pyarrow, parquet


class _Table:
    """Parquet rows: fields and counts as columns, vectors as lists, all other values as JSON."""

    def __init__(self, path: Path) -> None:
        pyarrow, parquet = _import_arrow()
        self._arrow = pyarrow
        self._schema = pyarrow.schema(
            [
                ("index", pyarrow.int64()),
                *((name, pyarrow.string()) for name in ("id", "text", "value", "error")),
                ("vector", pyarrow.list_(pyarrow.float32())),
                ("failed", pyarrow.bool_()),
                *((name, pyarrow.string()) for name in ("provider", "model", "response_id")),
                ("stop_reason", pyarrow.string()),
                *((name, pyarrow.int64()) for name in _BUCKETS),
                ("losses", pyarrow.list_(pyarrow.string())),
                ("seconds", pyarrow.float64()),
            ]
        )
        self._writer = parquet.ParquetWriter(path, self._schema)

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *details: object) -> None:
        self._writer.close()

    def write(self, lines: list[bytes]) -> None:
        rows = [_flatten(_decode(line)) for line in lines]
        self._writer.write_table(self._arrow.Table.from_pylist(rows, schema=self._schema))


def _flatten(line: JournalLine) -> dict[str, Any]:
    error = None if line.error == msgspec.Raw(b"null") else bytes(line.error).decode()
    usage, origin = line.usage or _NO_COUNTS, line.origin or {}
    is_vector = line.text is None and line.origin is not None and isinstance(line.value, list)
    has_value = line.value is not msgspec.UNSET and line.value is not None and not is_vector
    return {
        "index": line.index,
        "id": line.id,
        "text": line.text,
        "value": msgspec.json.encode(line.value).decode() if has_value else None,
        "vector": line.value if is_vector else None,
        "error": error,
        "failed": error is not None,
        **{name: origin.get(name) for name in ("provider", "model", "response_id", "stop_reason")},
        **{name: getattr(usage, name) for name in _BUCKETS},
        "losses": [] if isinstance(line.losses, msgspec.UnsetType) else list(line.losses),
        "seconds": line.seconds,
    }
