"""Prefix cache of conversations: messages that were read for an earlier request are not read again.

An agent sends its whole conversation at each turn, each time a little longer. Requests of a
conversation begin with equal messages, and so with equal canisters. As the canisters keep their
ids, their cached translation for a vendor can be found again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import define, frozen
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
        size: The length of these messages when encoded.
        reader: The reader.
    """

    count: int
    size: int
    reader: ReaderState


@frozen(eq=False)
class _Prefix:
    """The beginning of a conversation that was read.

    Attributes:
        key: Key of the prefix in the cache.
        data: The encoded messages; see :func:`_encode`.
        stages: The states of the reader, latest first: after all messages, then before the last
            ones.
        size_bytes: Approximate size of the prefix in memory.
    """

    key: _CacheKey
    data: bytes
    stages: tuple[PrefixStage, ...]
    size_bytes: int

    def find_stage(self, conversation: bytes) -> PrefixStage | None:
        """Return the last stage from which the reading of a conversation can continue."""
        for stage in self.stages:
            if conversation.startswith(self.data[: stage.size]):
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

    def open(self, client: str, *, is_ascii: bool = False) -> ClientPrefixes:
        """Return the part of the cache that belongs to one client, for one request.

        Args:
            is_ascii: Whether all texts of the request are ASCII, which take less memory.
        """
        return ClientPrefixes(self, client, is_ascii)

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
    _is_ascii: bool
    _uses: list[_CacheUse] = attrs.field(factory=list, init=False)

    def look_up(self, protocol: str, context: object, items: list[Any]) -> PrefixLookup | None:
        """Look for the beginning of a conversation; return ``None`` if it cannot be cached.

        Args:
            context: Other parts of the request that affect how its messages are read, as plain
                data.
            items: The messages.
        """
        try:
            head = msgspec.msgpack.encode(context)
            conversation = head + _encode(items)
        except OverflowError:  # an integer of more than 64 bits, which JSON may have
            return None
        key = (self._client, protocol, hash(head + _encode(items[:2])))
        previous, stage = self._cache.find(key, conversation)
        return PrefixLookup(key, conversation, items, self._is_ascii, previous, stage, self._uses)

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
    _conversation: bytes
    _items: list[Any]
    _is_ascii: bool
    _previous: _Prefix | None
    stage: PrefixStage | None
    _uses: list[_CacheUse]
    _new: list[PrefixStage] = attrs.field(factory=list, init=False)

    def record(self, count: int, reader: ReaderState) -> None:
        """Record a state of the reader for the cache; it must not be changed later.

        Args:
            count: Number of messages that it has read."""
        size = len(self._conversation) - len(_encode(self._items[count:]))
        self._new.insert(0, PrefixStage(count, size, reader))

    def finish(self) -> None:
        """Pass the recorded states on, to be cached by :meth:`ClientPrefixes.commit`."""
        if not self._new:  # the same request again
            self._uses.append(_CacheUse(new=None, found=self._previous))
            return
        last, *others = self._new
        if not others and self._previous is not None:
            # Keep an earlier stage, in case the last messages change.
            end = last.count - CHANGEABLE_MESSAGES
            others = [each for each in self._previous.stages if each.count <= end][:1]
        data = self._conversation[: last.size]
        factor = 2 if self._is_ascii else 5  # for the data, and the texts as strings
        size_bytes = factor * len(data) + _CANISTER_BYTES * len(last.reader.canisters)
        prefix = _Prefix(self._key, data, (last, *others), size_bytes)
        self._uses.append(_CacheUse(new=prefix, found=self._previous))


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
