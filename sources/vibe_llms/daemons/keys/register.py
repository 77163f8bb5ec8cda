"""File of keys: their owners and limits.

Users may edit it; changes apply to the next request in every process, because each checks whether
the file has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import attrs
import tomli

from vibe_llms.daemons.keys.editing import append_table, change_table, split_tables
from vibe_llms.daemons.keys.texts import is_identity
from vibe_llms.exceptions import RequestError, Stage, StoreError, UnknownNameError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.files import advise, replace_file
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.logs.disk import Disk, make_folders
from vibe_llms.logs.locks import locked
from vibe_llms.tables.annotations import Strings
from vibe_llms.tables.documents import parse_document, read_bytes
from vibe_llms.tables.kinds import Kind, bound
from vibe_llms.tables.reading import read_table

_T = TypeVar("_T")

_FILE: Final = "keys.toml"

LIMITS: Final = ("expires", "models", "requests_per_minute", "tokens_per_minute", "cents_per_day")
"""Fields of a key that limit its use."""

MOST_COUNT: Final = 2**53
"""Largest limit: the largest number that a page and JSON read exactly."""

MOST_BYTES: Final = 4_000_000
"""Size of the largest file, about 20,000 keys."""

_RECENT_NS: Final = 100_000_000
"""Age below which a file may change again without a new modification time."""

_HEADER: Final = b"""\
# Keys of clients, by their public parts. `vibe keys` writes this file; you may change it, too.
"""


def _convert_moment(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # near the years 1 and 9999
        raise ValueError("Its year is out of range in UTC.") from None


_MOMENT = Kind(
    "a moment with its zone, such as 2026-12-31T00:00:00Z",
    lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    _convert_moment,
)
_COUNT = bound("a whole number of at least 1, and at most 2^53", 1, MOST_COUNT)
_AMOUNT = bound("a whole number of at least 0, and at most 2^53", 0, MOST_COUNT)
_DIGEST = Kind(
    "a SHA-256 in hexadecimal digits",
    lambda value: (
        isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")
    ),
    is_shown=False,
)


@frozen(kw_only=True)
class Key:
    """A key.

    Attributes:
        name: Owner, for people and logs.
        digest: SHA-256 of its text, in hexadecimal.
        created: Time of creation.
        expires: Time of expiry; ``None`` for never.
        revoked: Time of revocation; ``None`` if it is valid.
        models: Patterns of allowed models (``gpt-*``); none for all.
        requests_per_minute, tokens_per_minute: Limits in any minute; ``None`` for no limit. Input
            and output tokens count.
        cents_per_day: Limit in US cents for one day (UTC); ``None`` for no limit.
        operator: Whether its holder may operate the daemon; see :class:`.Grant`.
    """

    name: str
    digest: Annotated[str, _DIGEST] = attrs.field(repr=False)
    created: Annotated[datetime, _MOMENT]
    expires: Annotated[datetime, _MOMENT] | None = None
    revoked: Annotated[datetime, _MOMENT] | None = None
    models: Strings = ()
    requests_per_minute: Annotated[int, _COUNT] | None = None
    tokens_per_minute: Annotated[int, _COUNT] | None = None
    cents_per_day: Annotated[int, _AMOUNT] | None = None
    operator: bool = False

    @cached_property
    def is_bounded(self) -> bool:
        """True if the key has limits on use."""
        bounds = (self.requests_per_minute, self.tokens_per_minute, self.cents_per_day)
        return any(bound is not None for bound in bounds)

    @cached_property
    def expires_at(self) -> float:
        """``expires`` in seconds since 1970; infinite for never."""
        return float("inf") if self.expires is None else self.expires.timestamp()


@define(eq=False)
class Register:
    """The current keys in a folder.

    Attributes:
        directory: The folder.
        read_time: Returns seconds since 1970.
        path: The file.
    """

    directory: Path
    read_time: Callable[[], float] = time.time
    _keys: Mapping[str, Key] = attrs.field(factory=dict, init=False, repr=False)
    _tables: dict[str, tuple[str, Key]] = attrs.field(factory=dict, init=False, repr=False)
    _signature: object = attrs.field(default=None, init=False, repr=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    path: Path = attrs.field(init=False)

    @path.default
    def _find_path(self) -> Path:
        return self.directory / _FILE

    def access_keys(self) -> Mapping[str, Key] | None:
        """Return the keys by public part; ``None`` if the file must be read again."""
        return self._keys if self._signature == self._read_signature() else None

    def load(self) -> Mapping[str, Key]:
        """Read the file if it has changed; return the keys. Blocks on the disk.

        Raises:
            ConfigurationError: The file has mistakes; the error lists every mistake.
        """
        with self._lock:
            if (known := self.access_keys()) is not None:
                return known  # another thread has read it meanwhile
            signature = self._read_signature()
            keys = {} if signature is None else self._parse(read_bytes(self.path, MOST_BYTES))
            self._keys = keys
            # A recent modification time does not prove that nothing was written since.
            is_reliable = signature is None or not _is_recent(signature[1], self.read_time())
            self._signature = signature if is_reliable else _UNKNOWN
            return keys

    def add(self, identity: str, key: Key) -> None:
        """Add a key to the file.

        Raises:
            ConfigurationError: The file has mistakes; it was not changed.
            RequestError: A valid key has this name.
            StoreError: The file cannot be written.
        """

        def change(text: str, keys: Mapping[str, Key]) -> tuple[str, None]:
            for other_id, other in keys.items():
                if other.name == key.name and other.revoked is None:
                    raise RequestError(
                        path="name",
                        detail=f"A key named {key.name!r} already exists: {other_id}.",
                        remedy=f"Choose another name, or revoke it: vibe keys revoke {other_id}",
                        stage=Stage.FRAME,
                    )
            return append_table(text, identity, _write_key(key)), None

        self._edit(change)

    def revoke(self, word: str) -> tuple[str, Key]:
        """Revoke a key; return its public part and the key.

        Args:
            word: Public part or name of the key.

        Raises:
            ConfigurationError: The file has mistakes; it was not changed.
            UnknownNameError: The key is unknown.
            StoreError: The file cannot be written.
        """

        def change(text: str, keys: Mapping[str, Key]) -> tuple[str, tuple[str, Key]]:
            identity = find_key(keys, word)
            key = keys[identity]
            if key.revoked is not None:
                return text, (identity, key)
            now = datetime.fromtimestamp(int(self.read_time()), UTC)
            changed = change_table(text, identity, {"revoked": now})
            return changed, (identity, attrs.evolve(key, revoked=now))

        return self._edit(change)

    def limit(self, word: str, limits: Mapping[str, object]) -> tuple[str, Key]:
        """Change limits of a key; return its public part and the key.

        Args:
            word: Public part or name of the key.
            limits: Valid values of the fields :data:`LIMITS`; ``None`` and ``()`` remove a limit.

        Raises:
            ConfigurationError: The file has mistakes; it was not changed.
            UnknownNameError: The key is unknown.
            StoreError: The file cannot be written.
        """

        def change(text: str, keys: Mapping[str, Key]) -> tuple[str, tuple[str, Key]]:
            identity = find_key(keys, word)
            key = attrs.evolve(keys[identity], **limits)  # type: ignore[arg-type]
            written = _write_key(key)
            fields = {name: written.get(name) for name in limits}
            return change_table(text, identity, fields), (identity, key)

        return self._edit(change)

    def _edit(self, change: Callable[[str, Mapping[str, Key]], tuple[str, _T]]) -> _T:
        """Change the text of the file, once more if a user has written it meanwhile.

        Args:
            change: Returns the new text and the result, given the text and its keys.
        """
        try:
            make_folders(Disk(), str(self.directory))
            with locked(f"{self.path}.lock"):
                while True:
                    signature = self._read_signature()
                    self._ensure_writable()
                    data = _HEADER if signature is None else read_bytes(self.path, MOST_BYTES)
                    keys = self._parse(data)
                    text = data.decode()
                    changed, result = change(text, keys)
                    if self._read_signature() != signature:
                        continue
                    if changed != text:
                        self._replace(changed.encode())
                    return result
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                path=str(self.path),
                detail=f"Cannot write {error.filename or self.path}: {error.strerror}.",
                remedy=advise(error),
            ) from error

    def _parse(self, data: bytes) -> Mapping[str, Key]:
        """Return the keys of a file. Raises ConfigurationError.

        Tables that were read before are not parsed again. Each other one is parsed alone, so that
        no long call of the parser, which is not interrupted, stops the other threads.
        """
        known, tables, keys = self._tables, dict[str, tuple[str, Key]](), dict[str, Key]()
        try:
            parts = split_tables(data.decode())
        except UnicodeDecodeError:
            return read_keys_in(data, str(self.path))
        for text in parts:
            found = known.get(text) or _read_table(text)
            if found is None or found[0] in keys:
                return read_keys_in(data, str(self.path))  # unusual, or with mistakes
            tables[text] = found
            keys[found[0]] = found[1]
        self._tables = tables
        return keys

    def _ensure_writable(self) -> None:
        """Refuse a file whose owner has made it read-only: it would be replaced. Raises."""
        with suppress(FileNotFoundError):
            if not self.path.stat().st_mode & 0o222:
                raise StoreError(
                    path=str(self.path),
                    detail=f"The file of keys is read-only: {self.path}.",
                    remedy=f"To change keys, make it writable: chmod u+w {self.path}",
                )

    def _replace(self, data: bytes) -> None:
        """Replace the file; refuse a size at which no process could read it. Raises StoreError."""
        if len(data) > MOST_BYTES:
            raise StoreError(
                path=str(self.path),
                detail=f"The file of keys would have {len(data)} bytes, and may have {MOST_BYTES}.",
                remedy="Use fewer or shorter patterns of models, or delete revoked keys from it.",
            )
        replace_file(self.path, data, mode=0o600)

    def _read_signature(self) -> tuple[int, ...] | None:
        """Return values that change when the file is written; ``None`` without a file."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns


_UNKNOWN: Final = object()
"""Equals no signature, so that the file is read again."""


def _is_recent(modified_ns: int, now: float) -> bool:
    return abs(now * 1e9 - modified_ns) <= _RECENT_NS


def read_keys_in(data: bytes, path: str) -> dict[str, Key]:
    """Read the content of a file of keys. Raises ConfigurationError with all mistakes."""
    document = parse_document(data, path)
    reader = document.produce_reader()
    keys = {}
    for identity, table in document.tree.items():
        if not is_identity(identity):
            reader.report((identity,), "It must be the public part of a key: eight letters.")
            continue
        key = reader.read(Key, table, (identity,))
        if key is not None:
            keys[identity] = key
    reader.finish()
    return keys


def _read_table(text: str) -> tuple[str, Key] | None:
    """Read the table of one key; return ``None`` for anything else, and for mistakes."""
    try:
        ((identity, table),) = tomli.loads(text).items()
        key = read_table(Key, table, "")
    except (RecursionError, ValueError):
        return None
    return (identity, key) if is_identity(identity) else None


def find_key(keys: Mapping[str, Key], word: str) -> str:
    """Find a key by its public part or name; of several keys with a name, prefer the valid one.

    Raises:
        UnknownNameError: The key is unknown.
    """
    if word in keys:
        return word
    matching = [identity for identity, key in keys.items() if key.name == word]
    if not matching:
        names = [key.name for key in keys.values()]
        raise UnknownNameError(
            kind="key",
            name=word,
            known=order_by_nearness(word, [*dict.fromkeys(names), *keys]),
            remedy="`vibe keys list` lists the keys.",
        )
    valid = (identity for identity in matching if keys[identity].revoked is None)
    return next(valid, matching[-1])


def _write_key(key: Key) -> dict[str, object]:
    """Return the table of a key, without unset fields."""
    fields: dict[str, Any] = attrs.asdict(key, recurse=False)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value is not False and value not in (None, ())
    }
