"""The file of the keys that were given out: who has them, and what each may do.

People may edit it, as any other file of settings; what it says holds from the next request on, in
every process. So that nobody need tell them, each looks whether it is still the same file.
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

_UNSETTLED_NS: Final = 100_000_000
"""A file written so shortly ago may be written again without its time showing that."""

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
    """What is known of a key.

    Attributes:
        name: Whose it is, for people and logs.
        digest: SHA-256 of its text, in hexadecimal digits.
        created: When it was made.
        expires: From when on it is no longer good; ``None`` for never.
        revoked: When it was taken back; ``None`` for not.
        models: Patterns of the names that it may ask for (``gpt-*``); none for all.
        requests_per_minute, tokens_per_minute: At most so many in any minute; ``None`` for any
            number. Of tokens, input and output count.
        cents_per_day: At most so many US cents on one day (UTC); ``None`` for any number.
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

    @cached_property
    def is_bounded(self) -> bool:
        """Whether what was used before decides about a request."""
        bounds = (self.requests_per_minute, self.tokens_per_minute, self.cents_per_day)
        return any(bound is not None for bound in bounds)

    @cached_property
    def expires_at(self) -> float:
        """``expires`` in seconds since 1970; infinite for never."""
        return float("inf") if self.expires is None else self.expires.timestamp()


@define(eq=False)
class Register:
    """The keys in a folder, as they are now.

    Attributes:
        directory: The folder.
        tell_time: The seconds since 1970.
        path: Of the file.
    """

    directory: Path
    tell_time: Callable[[], float] = time.time
    _keys: Mapping[str, Key] = attrs.field(factory=dict, init=False, repr=False)
    _stamp: object = attrs.field(default=None, init=False, repr=False)
    _door: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    path: Path = attrs.field(init=False)

    @path.default
    def _find_path(self) -> Path:
        return self.directory / _FILE

    def access_keys(self) -> Mapping[str, Key] | None:
        """Returns the keys by their public parts; ``None`` where the file has to be read anew."""
        return self._keys if self._stamp == self._read_stamp() else None

    def load(self) -> Mapping[str, Key]:
        """Reads the file; returns the keys. Blocks for as long as a disk takes.

        Raises:
            ConfigurationError: It does not hold; with all mistakes.
        """
        with self._door:
            stamp = self._read_stamp()
            keys = read_keys(str(self.path)) if stamp is not None else {}
            self._keys = keys
            # Only what was settled before it was read is known to be what was read.
            is_settled = stamp is None or _is_settled(stamp[1], self.tell_time())
            self._stamp = stamp if is_settled else _UNKNOWN
            return keys

    def add(self, identity: str, key: Key) -> None:
        """Writes a new key down.

        Raises:
            ConfigurationError: The file does not hold; nothing was changed.
            StoreError: A key of this name is there and good, or the file cannot be written.
        """
        with self._edit() as (keys, document):
            for other, each in keys.items():
                if each.name == key.name and each.revoked is None:
                    raise StoreError(
                        path=str(self.path),
                        detail=f"There is a key of the name {key.name!r} already: {other}.",
                        remedy=f"Choose another name, or take it back: vibe keys revoke {other}",
                    )
            document[identity] = _write_key(key)

    def revoke(self, word: str) -> tuple[str, Key]:
        """Takes a key back; returns its public part and the key. One that was taken back stays so.

        Args:
            word: Its public part, or its name.

        Raises:
            ConfigurationError: The file does not hold; nothing was changed.
            UnknownNameError: There is no such key.
            StoreError: The file cannot be written.
        """
        with self._edit() as (keys, document):
            identity = find_key(keys, word)
            if keys[identity].revoked is None:
                now = datetime.fromtimestamp(int(self.tell_time()), UTC)
                document[identity]["revoked"] = now
                keys[identity] = attrs.evolve(keys[identity], revoked=now)
            return identity, keys[identity]

    @contextmanager
    def _edit(self) -> Iterator[tuple[dict[str, Key], Any]]:
        """Gives the keys, and the document in which to change them."""
        import tomlkit  # which daemons do not need

        try:
            make_folders(Disk(), str(self.directory))
            with locked(f"{self.path}.lock"):
                is_there = self.path.exists()
                keys = read_keys(str(self.path)) if is_there else {}
                text = self.path.read_bytes() if is_there else _HEADER
                document = tomlkit.parse(text.decode())
                yield keys, document
                replace_file(self.path, tomlkit.dumps(document).encode(), mode=0o600)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                path=str(self.path),
                detail=f"{error.filename or self.path} cannot be written: {error.strerror}.",
                remedy=advise(error),
            ) from error

    def _read_stamp(self) -> tuple[int, ...] | None:
        """Returns what differs when the file was replaced or written to; ``None`` without one."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_ctime_ns


_UNKNOWN: Final = object()


def _is_settled(modified_ns: int, now: float) -> bool:
    return abs(now * 1e9 - modified_ns) > _UNSETTLED_NS


def read_keys(path: str) -> dict[str, Key]:
    """Reads a file of keys. Raises ConfigurationError with all mistakes."""
    document = parse_document(read_bytes(path), path)
    reader = document.produce_reader()
    keys = {}
    for identity, table in document.tree.items():
        if not is_identity(identity):
            reader.report((identity,), "It must be the public part of a key: eight letters.")
        elif (key := reader.read(Key, table, (identity,))) is not None:
            keys[identity] = key
    reader.finish()
    return keys


def find_key(keys: Mapping[str, Key], word: str) -> str:
    """Finds a key by its public part or its name; of several of a name, the one that is good.

    Raises:
        UnknownNameError: There is none.
    """
    if word in keys:
        return word
    named = [identity for identity, key in keys.items() if key.name == word]
    if not named:
        names = [key.name for key in keys.values()]
        raise UnknownNameError(
            kind="key",
            name=word,
            known=order_by_nearness(word, [*dict.fromkeys(names), *keys]),
            remedy="`vibe keys list` shows all of them.",
        )
    return next((each for each in named if keys[each].revoked is None), named[-1])


def _write_key(key: Key) -> dict[str, object]:
    """Returns the table of a key: what is not said is left out."""
    fields: dict[str, Any] = attrs.asdict(key, recurse=False)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value not in (None, ())
    }
