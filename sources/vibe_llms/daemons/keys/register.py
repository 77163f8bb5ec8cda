"""File of keys: their owners and limits.

Users may edit it; changes apply to the next request in every process, because each checks whether
the file has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

import attrs

from vibe_llms.daemons.keys.texts import is_identity
from vibe_llms.exceptions import StoreError, UnknownNameError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.files import advise, replace_file
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.logs.disk import Disk, make_folders
from vibe_llms.logs.locks import locked
from vibe_llms.tables.annotations import Amount, Count, Strings
from vibe_llms.tables.documents import parse_document, read_bytes
from vibe_llms.tables.kinds import Kind

_FILE: Final = "keys.toml"

LIMITS: Final = ("expires", "models", "requests_per_minute", "tokens_per_minute", "cents_per_day")
"""Fields of a key that limit its use."""

MOST_BYTES: Final = 4_000_000
"""Size of the largest file, about 20,000 keys."""

_RECENT_NS: Final = 100_000_000
"""Age below which a file may change again without a new modification time."""

_HEADER: Final = b"""\
# Keys of clients, by their public parts. `vibe keys` writes this file; you may change it, too.
"""

_MOMENT = Kind(
    "a moment with its zone, such as 2026-12-31T00:00:00Z",
    lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    lambda value: value.astimezone(UTC),
)
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
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    cents_per_day: Amount | None = None
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
        """Read the file; return the keys. Blocks on the disk.

        Raises:
            ConfigurationError: The file has mistakes; the error lists every mistake.
        """
        with self._lock:
            signature = self._read_signature()
            keys = read_keys(str(self.path)) if signature is not None else {}
            self._keys = keys
            # A recent modification time does not prove that nothing was written since.
            is_reliable = signature is None or not _is_recent(signature[1], self.read_time())
            self._signature = signature if is_reliable else _UNKNOWN
            return keys

    def add(self, identity: str, key: Key) -> None:
        """Add a key to the file.

        Raises:
            ConfigurationError: The file has mistakes; it was not changed.
            StoreError: A valid key has this name, or the file cannot be written.
        """
        with self._edit() as (keys, document):
            for other_id, other in keys.items():
                if other.name == key.name and other.revoked is None:
                    raise StoreError(
                        path=str(self.path),
                        detail=f"A key named {key.name!r} already exists: {other_id}.",
                        remedy=f"Choose another name, or revoke it: vibe keys revoke {other_id}",
                    )
            document[identity] = _write_key(key)

    def revoke(self, word: str) -> tuple[str, Key]:
        """Revoke a key; return its public part and the key.

        Args:
            word: Public part or name of the key.

        Raises:
            ConfigurationError: The file has mistakes; it was not changed.
            UnknownNameError: The key is unknown.
            StoreError: The file cannot be written.
        """
        with self._edit() as (keys, document):
            identity = find_key(keys, word)
            if keys[identity].revoked is None:
                now = datetime.fromtimestamp(int(self.read_time()), UTC)
                document[identity]["revoked"] = now
                keys[identity] = attrs.evolve(keys[identity], revoked=now)
            return identity, keys[identity]

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
        with self._edit() as (keys, document):
            identity = find_key(keys, word)
            keys[identity] = attrs.evolve(keys[identity], **limits)  # type: ignore[arg-type]
            written = _write_key(keys[identity])
            table = document[identity]
            for name in limits:
                if name in written:
                    table[name] = written[name]
                else:
                    table.pop(name, None)
            return identity, keys[identity]

    @contextmanager
    def _edit(self) -> Iterator[tuple[dict[str, Key], Any]]:
        """Yield the keys, and the document to change."""
        import tomlkit  # not needed by daemons

        try:
            make_folders(Disk(), str(self.directory))
            with locked(f"{self.path}.lock"):
                exists = self.path.exists()
                keys = read_keys(str(self.path)) if exists else {}
                text = self.path.read_bytes() if exists else _HEADER
                document = tomlkit.parse(text.decode())
                yield keys, document
                self._replace(tomlkit.dumps(document).encode())
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                path=str(self.path),
                detail=f"Cannot write {error.filename or self.path}: {error.strerror}.",
                remedy=advise(error),
            ) from error

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


def read_keys(path: str) -> dict[str, Key]:
    """Read a file of keys. Raises ConfigurationError with all mistakes."""
    document = parse_document(read_bytes(path, MOST_BYTES), path)
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
