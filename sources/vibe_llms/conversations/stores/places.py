"""Places that keep bytes under their SHA-256 for a database, which knows what is where.

Who may add and who may collect is settled by the database: a place is told what to do and has no
locks. It belongs to one database, whose mark it has: a second one would remove what the first still
needs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import attrs

from vibe_llms.conversations.stores.content_directory import ContentDirectory
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import ConfigurationError, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import read_regular
from vibe_llms.logs.disk import write_new_file

FORMS: Final = (
    "file:///FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX, "
    "or, at another host, s3+https://HOST/BUCKET/PREFIX"
)

SCHEMES: Final = frozenset(
    f"{vendor}{way}" for vendor in ("s3", "gs", "az") for way in ("", "+https", "+http")
)
"""Schemes of object stores: a vendor's own service, or another server with its protocol."""

MARKER: Final = "vibe-owner"
"""The name under which a place says whose it is."""


class PlacedBytes(NamedTuple):
    """Bytes in a place.

    Attributes:
        content_id: Their name.
        size_bytes: How many.
        age_seconds: How long ago they were put there.
    """

    content_id: str
    size_bytes: int
    age_seconds: float


class ContentPlace(Protocol):
    """Keeps bytes; each method may be called from any thread, and raises StoreError."""

    @property
    def address(self) -> str:
        """The URL of the place, by which the database remembers where content is."""

    def put(self, content_id: str, data: bytes, *, mime_type: str, name: str | None) -> None:
        """Keeps data, which survive the end of any machine when this returns; may be repeated."""

    def has(self, content_id: str, size: int) -> bool:
        """Tells whether data of this size are there, without proving them."""

    def read(self, content_id: str) -> bytes:
        """Returns the data. Raises CorruptionError where they are not what their id says."""

    def remove(self, content_id: str) -> None:
        """Removes the data, where they are there."""

    def sweep(self) -> None:
        """Removes what crashes left half written; nobody adds meanwhile."""

    def claim(self, mark: str) -> str:
        """Marks the place, unless it is marked; returns its mark, which tells it from others."""

    def read_mark(self) -> str:
        """Returns its mark; empty where there is none."""

    def survey(self) -> Iterator[PlacedBytes]:
        """Yields what was put there since it was marked; what is older may be anybody's."""


def split_content(url: str) -> tuple[str, str]:
    """Takes ``content=`` out of the query of a database's URL; returns both, it empty if missing.

    Its value has its ``&`` and ``%`` quoted, as in any query.
    """
    whole, mark, query = url.partition("?")
    rest, address = list[str](), ""
    for each in query.split("&"):
        name, _, value = each.partition("=")
        if name == "content":
            address = unquote(value)
        else:
            rest.append(each)
    kept = "&".join(rest)
    return f"{whole}{mark if kept else ''}{kept}", address


@lru_cache(maxsize=64)
def produce_place(address: str) -> ContentPlace:
    """Returns the place that a URL names; opens nothing yet.

    Raises:
        ConfigurationError: It names none.
    """
    try:
        parts = urlsplit(address)
        is_plain = address.isprintable() and parts.port != 0
    except ValueError:  # of a host or a port that is none
        raise _refuse(address) from None
    if parts.username is not None or parts.password is not None:
        # Not a word of it is shown: it may be a key.
        message = "Keys do not belong into the URL of a place for content: set variables for them."
        raise ConfigurationError.at("store", message)
    # What would be left out of it would make one place of two.
    if not is_plain or "?" in address or "#" in address:
        raise _refuse(address)
    if parts.scheme == "file" and not parts.netloc and parts.path.strip("/"):
        return DirectoryPlace(address)
    # A server on the way may resolve steps up, into another bucket.
    steps = unquote(parts.path).split("/")
    if parts.scheme in SCHEMES and not {".", ".."} & {*steps}:
        from vibe_llms.conversations.stores.object_stores import locate
        from vibe_llms.conversations.stores.objects import ObjectPlace

        return ObjectPlace(address, locate(address))
    raise _refuse(address)


def _refuse(address: str) -> ConfigurationError:
    # Not what stands behind these, nor before @: it may be a key.
    shown = re.split("[?#]", address)[0].rpartition("@")[2]
    return ConfigurationError.at(
        "store",
        f"{shown!r} names no place for content: {FORMS}; with no '?' or '#', nor steps up.",
    )


@define(eq=False)
class DirectoryPlace:
    """A folder that all machines reach under the same path; see :class:`ContentPlace`."""

    address: str
    _directory: ContentDirectory = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._directory = ContentDirectory(unquote(urlsplit(self.address).path).rstrip("/"))

    @mapping_errors
    def put(self, content_id: str, data: bytes, *, mime_type: str, name: str | None) -> None:
        """Keeps the data."""
        self._access_root()
        self._directory.place(data, mime_type=mime_type, name=name)

    @mapping_errors
    def has(self, content_id: str, size: int) -> bool:
        """Tells whether the data are there."""
        return self._directory.is_whole(content_id, size)

    def read(self, content_id: str) -> bytes:
        """Returns the data, proven."""
        return self._directory.read(content_id)

    def remove(self, content_id: str) -> None:
        """Removes the data."""
        if self._directory.contains(content_id):
            self._directory.remove(content_id)

    def sweep(self) -> None:
        """Removes what crashes left."""
        self._directory.sweep()

    @mapping_errors
    def claim(self, mark: str) -> str:
        """Writes the mark into a file of its own, where there is none."""
        path, disk = self._access_root(), self._directory.disk
        with suppress(FileExistsError):
            write_new_file(disk, f"{path}/{MARKER}", mark.encode())
            disk.synchronize_folder(path)
        return self.read_mark()

    @mapping_errors
    def read_mark(self) -> str:
        """Reads the file that says whose the folder is."""
        try:
            return read_regular(f"{self._access_root()}/{MARKER}").decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    @mapping_errors
    def survey(self) -> Iterator[PlacedBytes]:
        """Looks at the time of each file."""
        marked = os.stat(f"{self._access_root()}/{MARKER}").st_mtime
        for content_id in self._directory.survey():
            age = self._directory.measure_age_seconds(content_id)
            if time.time() - age >= marked:
                size = self._directory.access_metadata(content_id).size_bytes
                yield PlacedBytes(content_id, size, age)

    def _access_root(self) -> str:
        root = self._directory.root
        if not os.path.isdir(root):  # made here, it would be this machine's alone
            raise StoreError(
                path=root,
                detail=f"{root}, where content goes, does not exist.",
                remedy="See that what the machines share is mounted, and make the folder in it.",
            )
        return root


def describe_missing(content_id: str, place: str) -> StoreError:
    """Says that content is not where the database says that it is."""
    return StoreError(
        path=place,
        detail=f"There is no content {content_id} in {place}, where it was put.",
        remedy="Restore it from a backup, or copy it back from another store: `vibe store copy`.",
    )
