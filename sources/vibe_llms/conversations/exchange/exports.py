"""Export files of services: JSON, or a ZIP archive that contains it.

Exports may not fit into memory, so a document is read as a stream, one conversation at a time.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import attrs

from vibe_llms.exceptions import CodecError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.files import open_reader

CONVERSATION_BYTES: Final = 268_435_456
"""Maximum size of one conversation in a document."""
MEDIA_BYTES: Final = 268_435_456
"""Maximum size of one picture or file in an archive."""

_BEGINNING_BYTES = 1_048_576
_CHUNK_BYTES = 1_048_576
_DOCUMENT = re.compile(r"(?:.*/)?conversations(?:[-_]\d+)?\.json", re.DOTALL)
_BACKSLASH = ord("\\")
_STRUCTURE = re.compile(rb'"(?:[^"\\]*")?|[\[\]{}]')
"""A bracket, a complete string without escapes, or the opening quotation mark of another string."""
# Encryption raises a RuntimeError, an unknown compression a NotImplementedError.
_DAMAGE_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)
_SEPARATORS = re.compile(rb"[\s,]*")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@frozen
class Export:
    """Opened export of a service.

    Attributes:
        path: Path of the file.
        archive: The archive, if the file is one.
    """

    path: Path
    archive: zipfile.ZipFile | None = None

    def read_beginning(self) -> bytes:
        """Return the beginning of the document; empty if the archive has none."""
        for name in self._survey_documents():
            with self._open(name) as file:
                return file.read(_BEGINNING_BYTES)
        return b""

    def read_tables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the objects of the document's list, or its only object, each with its path.

        Raises:
            CodecError: The document is not JSON, is truncated, or has other contents.
        """
        names = self._survey_documents()
        if not names:
            raise CodecError(
                detail="conversations.json is missing in the archive.",
                remedy="Pass the archive as you received it.",
            )
        for name in names:
            prefix = f"{name}: " if self.archive is not None else ""
            with self._open(name) as file:
                chunks = iter(lambda file=file: file.read(_CHUNK_BYTES), b"")  # type: ignore[misc]
                for place, piece in split_objects(chunks, prefix):
                    yield place, decode_table(piece, place)

    def find_media(self, identity: str) -> tuple[str, bytes] | None:
        """Return the name and the bytes of media by the service's key; ``None`` if there are none.

        Raises:
            CodecError: The media exceed the size limit.
        """
        if self.archive is None or not identity:
            return None
        for name in self.archive.namelist():
            file_name = name.rpartition("/")[2]
            if file_name.startswith(identity):
                rest = file_name.removeprefix(identity).lstrip("-_")
                return file_name if rest[:1] in ("", ".") else rest, self._read_bounded(name)
        return None

    def _read_bounded(self, name: str) -> bytes:
        with self._open(name) as file:
            data = file.read(MEDIA_BYTES + 1)
        if len(data) > MEDIA_BYTES:
            raise CodecError(
                path=name, detail=f"The file is larger than {MEDIA_BYTES:,} bytes (MEDIA_BYTES)."
            )
        return data

    def _survey_documents(self) -> list[str]:
        if self.archive is None:
            return [str(self.path)]
        return sorted(name for name in self.archive.namelist() if _DOCUMENT.fullmatch(name))

    def _open(self, name: str) -> IO[bytes]:
        return open_file(self.path) if self.archive is None else self.archive.open(name)


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading. Raises OSError, also for folders, pipes and devices."""
    return open_reader(str(path))


@contextmanager
def open_export(path: Path) -> Iterator[Export]:
    """Open an export file or archive.

    Raises:
        CodecError: The archive is damaged or encrypted.
    """
    with open_file(path) as file:
        is_archive = zipfile.is_zipfile(file)
    if not is_archive:
        yield Export(path)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            yield Export(path, archive)
    except _DAMAGE_ERRORS as error:
        # A RecursionError is a RuntimeError, but not the fault of the archive.
        if isinstance(error, RecursionError):
            raise
        raise CodecError(
            path="the archive",
            detail=f"Cannot read the file: {error}.",
            remedy="Unpack it, and import its conversations.json.",
        ) from error


def split_objects(chunks: Iterable[bytes], prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """Split JSON into the objects of its list, or its only object; yield each with its path.

    Raises:
        CodecError: The document has other contents, is truncated, or an object is too long.
    """
    splitter = _Splitter(prefix)
    for chunk in chunks:
        yield from splitter.feed(chunk)
    splitter.finish()


@define
class _Splitter:
    """Scanner that finds the end of each object without parsing it.

    Attributes:
        prefix: The beginning of all places.
        buffer: Bytes that are not yielded yet.
        position: The position in the buffer up to which it was scanned.
        depth: The number of open brackets of the object; 0 between objects.
        is_in_string: Whether the position is inside a string.
        is_list: Whether the document is a list; ``None`` before its beginning.
        is_over: Whether the document is complete.
        count: The number of objects so far.
    """

    prefix: str
    buffer: bytearray = attrs.field(factory=bytearray)
    position: int = 0
    depth: int = 0
    is_in_string: bool = False
    is_list: bool | None = None
    is_over: bool = False
    count: int = 0

    @property
    def place(self) -> str:
        return f"{self.prefix}$[{self.count}]" if self.is_list else f"{self.prefix}$"

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        self.buffer += chunk
        while self._begin_object() and self._end_object():
            yield self.place, bytes(self.buffer[: self.position])
            del self.buffer[: self.position]
            self.position, self.count = 0, self.count + 1
            self.is_over = not self.is_list

    def finish(self) -> None:
        if not self.is_over:
            raise CodecError(
                path=self.place,
                detail="The document is truncated here.",
                remedy="Download or unpack it again.",
            )

    def _begin_object(self) -> bool:
        """Advance into the next object, unless inside one; return false if more data is needed."""
        while not self.depth:
            # Some programs write a UTF-8 byte order mark before a text.
            if self.is_list is None and self.buffer.startswith(b"\xef\xbb\xbf"):
                del self.buffer[:3]
            separators = _SEPARATORS.match(self.buffer)
            assert separators is not None  # it also matches an empty text
            del self.buffer[: separators.end()]
            if not self.buffer:
                return False
            mark = self.buffer[:1]
            if mark == b"{" and not self.is_over:
                self.is_list = bool(self.is_list)
                self.depth = self.position = 1
            elif mark == b"[" and self.is_list is None:
                self.is_list = True
                del self.buffer[:1]
            elif mark == b"]" and self.is_list and not self.is_over:
                self.is_over = True
                del self.buffer[:1]
            else:
                raise CodecError(
                    path=self.place,
                    detail=f"A conversation must begin with {{, not {bytes(mark)!r}.",
                )
        return True

    def _end_object(self) -> bool:
        """Advance to the end of the object; return whether it is complete."""
        while self.depth:
            if self.is_in_string:
                end = self.buffer.find(b'"', self.position)
                if end < 0:
                    # The scanned part is not scanned again with the next chunk.
                    self.position = len(self.buffer)
                    return self._check_size()
                self.position = end + 1
                if self._is_escaped(end):
                    continue
                self.is_in_string = False
                continue
            mark = _STRUCTURE.search(self.buffer, self.position)
            if mark is None:
                self.position = len(self.buffer)
                return self._check_size()
            self.position = mark.end()
            if mark.group() == b'"':
                self.is_in_string = True
            # A longer match is a complete string, whose brackets have no meaning.
            elif len(mark.group()) == 1:
                self.depth += 1 if mark.group() in b"[{" else -1
        return True

    def _is_escaped(self, place: int) -> bool:
        """Return whether an odd number of backslashes precedes a place."""
        first = place
        # It ends at the opening quotation mark of the string at the latest.
        while self.buffer[first - 1] == _BACKSLASH:
            first -= 1
        return (place - first) % 2 == 1

    def _check_size(self) -> bool:
        """Return false, as more data is needed; raise an error if the object is too large."""
        if len(self.buffer) > CONVERSATION_BYTES:
            raise CodecError(
                path=self.place,
                detail=f"The conversation is larger than {CONVERSATION_BYTES:,} bytes "
                "(CONVERSATION_BYTES).",
                remedy="Remove it from the document, and import the others.",
            )
        return False


def decode_table(piece: bytes, place: str) -> dict[str, Any]:
    """Decode a JSON object; replace lone surrogates.

    Raises:
        CodecError: It is not JSON.
    """
    try:
        text = piece.decode("utf-8")
        table = json.loads(text)
        # Our texts must not contain lone surrogates, such as half of an emoji: replace them.
        if _SURROGATE.search(piece):
            text = json.dumps(table, ensure_ascii=False)
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            table = json.loads(text)
    except RecursionError as error:
        raise CodecError(path=place, detail="The document nests too deeply.") from error
    except ValueError as error:
        raise CodecError(path=place, detail=f"Invalid JSON: {error}.") from error
    if not isinstance(table, dict):
        raise CodecError(path=place, detail="It is not a JSON object.")
    return table
