"""Prefix cache of conversations: messages that were read for an earlier request are not read again.

An agent sends its whole conversation at each turn, each time a little longer. Requests of a
conversation begin with equal messages, and so with equal canisters. As the canisters keep their
ids, their cached translation for a vendor can be found again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import AnyCanister

MIN_MESSAGES: Final = 16
"""Minimum messages to cache: reading fewer again costs less than caching."""

CHANGEABLE_MESSAGES: Final = 4
"""Number of last messages that may change: clients move markers of prompt caches there."""

_MAX_FORKS: Final = 16
"""Maximum conversations of a client that begin with the same two messages."""

_CacheKey: TypeAlias = tuple[str, str, int]
"""Key of cached conversations: the client, the protocol, and a hash of the first messages."""

_CANISTER_BYTES: Final = 1_300
"""Estimated memory of a cached canister, without texts and with the overhead of its message."""


class ReaderState(Protocol):
    """The part of a dialect's reader that is cached; see :class:`.reading.ConversationReader`."""

    canisters: list[AnyCanister]

    def fork(self) -> Self:
        """Return an independent reader that continues from the state of this reader."""


@frozen
class PrefixStage:
    """A saved state of a reader, which is never changed.

    Attributes:
        count: Number of messages that the reader has read.
        reader: The reader.
    """

    count: int
    reader: ReaderState


@frozen
class _Source:
    """Bytes of a request from which its messages are decoded if they are compared.

    Attributes:
        head: Encoded context of the messages.
        body: The request as JSON.
        field: The field with the messages.
    """

    head: bytes
    body: bytes
    field: str

    def encode(self, counts: Sequence[int]) -> tuple[bytes, tuple[int, ...]]:
        """Return the encoded messages, and the length of so many of them."""
        try:
            items: list[Any] = msgspec.json.decode(self.body)[self.field]
            data = self.head + _encode(items)
        except (*UNREADABLE, KeyError, TypeError, OverflowError):
            return b"", ()  # never found, as after a repair or with integers of over 64 bits
        return data, tuple(len(data) - len(_encode(items[count:])) for count in counts)


@define(eq=False)
class _Prefix:
    """The beginning of a conversation that was read.

    Most are never compared, as no other conversation of the client begins with the same two
    messages. So the messages of a new conversation are not encoded until then.

    Attributes:
        key: Key of the prefix in the cache.
        stages: The states of the reader, latest first: after all messages, then before the last
            ones.
        sizes: For each stage, the length of its messages when encoded.
        data: The encoded messages; see :func:`_encode`.
        source: Bytes from which ``sizes`` and ``data`` are made; ``None`` if these are known.
        size_bytes: Approximate size of the prefix in memory.
    """

    key: _CacheKey
    stages: tuple[PrefixStage, ...]
    sizes: tuple[int, ...]
    data: bytes
    source: _Source | None
    size_bytes: int

    def find_stage(self, conversation: bytes) -> PrefixStage | None:
        """Return the last stage from which the reading of a conversation can continue."""
        source = self.source
        if source is not None:
            self.data, self.sizes = source.encode([stage.count for stage in self.stages])
            self.source = None  # last, for other threads
        for stage, size in zip(self.stages, self.sizes, strict=False):
            if conversation.startswith(self.data[:size]):
                return stage
        return None


class _CacheUse(NamedTuple):
    """Use of the cache by one lookup.

    Attributes:
        new: The prefix to add; ``None`` if nothing new was read.
        found: The cached prefix from which the reading continued; ``None`` without one.
    """

    new: _Prefix | None
    found: _Prefix | None


class PrefixCache:
    """LRU cache of read conversations, limited in bytes.

    Requests may be read in threads. Threads only look conversations up;
    :meth:`ClientPrefixes.commit` adds new ones, in the thread of the event loop.

    Args:
        limit: Maximum bytes of all clients together.
        share: Maximum bytes of one client.

    Attributes:
        size: The bytes in use, approximately.
    """

    def __init__(self, limit: int = 64_000_000, share: int = 32_000_000) -> None:
        self.size = 0
        self._limit, self._share = limit, share
        self._prefixes: OrderedDict[_Prefix, None] = OrderedDict()
        self._by_key: dict[_CacheKey, tuple[_Prefix, ...]] = {}
        self._sizes: dict[str, int] = {}

    def open(self, client: str, body: bytes = b"") -> ClientPrefixes:
        """Return the part of the cache that belongs to one client, for one request.

        Args:
            body: The request as JSON, if its messages are those that are looked up.
        """
        return ClientPrefixes(self, client, body)

    def has(self, key: _CacheKey) -> bool:
        """Return whether conversations with a key are cached."""
        return key in self._by_key

    def find(
        self, key: _CacheKey, conversation: bytes
    ) -> tuple[_Prefix, PrefixStage] | tuple[None, None]:
        """Return the longest cached beginning of a conversation. Thread-safe."""
        found: tuple[_Prefix, PrefixStage] | None = None
        for each in self._by_key.get(key, ()):
            stage = each.find_stage(conversation)
            if stage is not None and (found is None or stage.count > found[1].count):
                found = each, stage
        return found or (None, None)

    def add(self, prefix: _Prefix, previous: _Prefix | None) -> None:
        """Add the beginning of a conversation; it replaces a shorter beginning."""
        client = prefix.key[0]
        if previous is not None:
            self._remove(previous)
        if prefix.size_bytes > self._share:
            return
        prefixes = (*self._by_key.get(prefix.key, ()), prefix)
        self._by_key[prefix.key] = prefixes
        self._prefixes[prefix] = None
        self._change_size(client, prefix.size_bytes)
        if len(prefixes) > _MAX_FORKS:
            self._remove(prefixes[0])
        while self._sizes[client] > self._share:
            self._remove(next(each for each in self._prefixes if each.key[0] == client))
        while self.size > self._limit:
            self._remove(next(iter(self._prefixes)))

    def touch(self, prefix: _Prefix) -> None:
        """Mark a beginning as recently used."""
        if prefix in self._prefixes:
            self._prefixes.move_to_end(prefix)

    def _remove(self, prefix: _Prefix) -> None:
        if prefix not in self._prefixes:  # another request has removed it already
            return
        del self._prefixes[prefix]
        prefixes = tuple(each for each in self._by_key[prefix.key] if each is not prefix)
        if prefixes:
            self._by_key[prefix.key] = prefixes
        else:
            del self._by_key[prefix.key]
        self._change_size(prefix.key[0], -prefix.size_bytes)

    def _change_size(self, client: str, size_bytes: int) -> None:
        self.size += size_bytes
        size = self._sizes.get(client, 0) + size_bytes
        if size:
            self._sizes[client] = size
        else:
            self._sizes.pop(client, None)


@define(eq=False)
class ClientPrefixes:
    """The part of a cache that belongs to one client, whose messages no other client can find.

    It serves one request: :meth:`commit` caches the messages of that request.
    """

    _cache: PrefixCache
    _client: str
    _body: bytes
    _uses: list[_CacheUse] = attrs.field(factory=list, init=False)

    def look_up(
        self, protocol: str, context: object, items: list[Any], field: str
    ) -> PrefixLookup | None:
        """Look for the beginning of a conversation; return ``None`` if it cannot be cached.

        Args:
            context: Other parts of the request that affect how its messages are read, as plain
                data.
            items: The messages.
            field: The field of the request with the messages.
        """
        try:
            head = msgspec.msgpack.encode(context)
            key = (self._client, protocol, hash(head + _encode(items[:2])))
            if self._body and not self._cache.has(key):
                source = _Source(head, self._body, field)
                return PrefixLookup(key, items, b"", source, None, None, self._uses)
            conversation = head + _encode(items)
        except OverflowError:  # an integer of more than 64 bits, which JSON may have
            return None
        previous, stage = self._cache.find(key, conversation)
        return PrefixLookup(key, items, conversation, None, previous, stage, self._uses)

    def commit(self) -> None:
        """Cache the messages that were read. Not thread-safe."""
        for use in self._uses:
            if use.new is not None:
                self._cache.add(use.new, use.found)
            elif use.found is not None:
                self._cache.touch(use.found)
        self._uses.clear()


@define(eq=False)
class PrefixLookup:
    """The result of a search for the beginning of one request's conversation.

    Attributes:
        stage: The cached stage; ``None`` if nothing is cached.
    """

    _key: _CacheKey
    _items: list[Any]
    _conversation: bytes
    _source: _Source | None
    _previous: _Prefix | None
    stage: PrefixStage | None
    _uses: list[_CacheUse]
    _new: list[tuple[PrefixStage, int]] = attrs.field(factory=list, init=False)

    def record(self, count: int, reader: ReaderState) -> None:
        """Record a state of the reader for the cache; it must not be changed later.

        Args:
            count: Number of messages that it has read.
        """
        size = 0
        if self._source is None:
            size = len(self._conversation) - len(_encode(self._items[count:]))
        self._new.insert(0, (PrefixStage(count, reader), size))

    def finish(self) -> None:
        """Pass the recorded states on, to be cached by :meth:`ClientPrefixes.commit`."""
        if not self._new:  # the same request again
            self._uses.append(_CacheUse(new=None, found=self._previous))
            return
        (last, size), *others = self._new
        if not others and self._previous is not None:
            # Keep an earlier stage, in case the last messages change.
            end = last.count - CHANGEABLE_MESSAGES
            earlier = zip(self._previous.stages, self._previous.sizes, strict=True)
            others = [each for each in earlier if each[0].count <= end][:1]
        stages, sizes = zip((last, size), *others, strict=True)
        data = self._conversation[:size]
        memory = _estimate_memory(data if self._source is None else self._source.body)
        prefix = _Prefix(
            key=self._key,
            stages=stages,
            sizes=sizes,
            data=data,
            source=self._source,
            size_bytes=memory + _CANISTER_BYTES * len(last.reader.canisters),
        )
        self._uses.append(_CacheUse(new=prefix, found=self._previous))


def _estimate_memory(data: bytes) -> int:
    """Return the memory of messages: once as bytes, and as texts, which ASCII makes smaller."""
    return (2 if data.isascii() else 5) * len(data)


def _encode(items: list[Any]) -> bytes:
    """Return messages as MessagePack, one after the other.

    No encoded message is the beginning of another one. Encoding takes a fourth of the time of JSON.

    Raises:
        OverflowError: An integer has more than 64 bits.
    """
    data = msgspec.msgpack.encode(items)
    return data[_measure_list_header(len(items)) :]


def _measure_list_header(count: int) -> int:
    """Return the bytes that MessagePack writes before the items of a list: their number."""
    if count < 16:
        return 1
    return 3 if count < 65_536 else 5
