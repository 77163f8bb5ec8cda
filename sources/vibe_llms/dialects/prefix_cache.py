"""Prefix cache of conversations: what was read of earlier requests is not read again.

An agent sends its whole conversation at each turn, each time a little longer. Its requests begin
with the same bytes, and so with the same canisters: these keep their ids, and what was written of
them for a vendor can be found again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, Protocol, Self, TypeAlias

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import AnyCanister

SHORTEST: Final = 16
"""With fewer messages, reading all of them again costs less than caching."""

TAIL: Final = 4
"""Last messages that may change: clients move marks there, such as those of cached prompts."""

_KEPT: Final = 16
"""Most conversations that begin with the same two messages, for each asker."""

_Place: TypeAlias = tuple[str, str, int]
"""Where a conversation is cached: its asker, its protocol, and a hash of its first messages."""

_CANISTER_BYTES: Final = 1_300
"""Memory of a canister besides its texts, with its message's share of the cache."""


class ReaderState(Protocol):
    """A dialect's reader, as far as it is cached; see :class:`.reading.ConversationReader`."""

    canisters: list[AnyCanister]

    def fork(self) -> Self:
        """Return a reader that goes on from here by itself."""


@frozen
class PrefixStage:
    """A state of a reader that is never changed.

    Attributes:
        count: How many messages it has read.
        size: The length of their JSON, without a bracket or comma after it.
    """

    count: int
    size: int
    reader: ReaderState


@frozen(eq=False)
class _Prefix:
    """The beginning of a conversation, read.

    Attributes:
        place: Where it is cached.
        data: The JSON of its messages, without a closing bracket.
        stages: After all messages, and before the last of them.
        weight: Its approximate size in memory.
    """

    place: _Place
    data: bytes
    stages: tuple[PrefixStage, ...]
    weight: int

    def find_stage(self, whole: bytes) -> PrefixStage | None:
        """Return the last stage that a conversation goes on from."""
        for stage in self.stages:
            size = stage.size
            if whole[size : size + 1] in _ENDS and whole.startswith(self.data[:size]):
                return stage
        return None


_ENDS: Final = (b",", b"]")


class PrefixCache:
    """LRU cache of read conversations, limited in bytes.

    Requests may be read in threads that are interrupted anywhere. So a thread only looks; what it
    has read is added by :meth:`AskerPrefixes.commit`, in the thread of the event loop.

    Args:
        limit: The most bytes of all askers together.
        share: The most bytes of one asker.

    Attributes:
        size: The bytes in use, approximately.
    """

    def __init__(self, limit: int = 64_000_000, share: int = 32_000_000) -> None:
        self.size = 0
        self._limit, self._share = limit, share
        self._prefixes: OrderedDict[_Prefix, None] = OrderedDict()
        self._places: dict[_Place, tuple[_Prefix, ...]] = {}
        self._sizes: dict[str, int] = {}

    def open(self, asker: str) -> AskerPrefixes:
        """Return the part of the cache that belongs to one asker, for one request."""
        return AskerPrefixes(self, asker)

    def find(self, place: _Place, whole: bytes) -> tuple[_Prefix, PrefixStage] | tuple[None, None]:
        """Return the longest cached beginning of a conversation. Thread-safe."""
        found: tuple[_Prefix, PrefixStage] | None = None
        for each in self._places.get(place, ()):
            stage = each.find_stage(whole)
            if stage is not None and (found is None or stage.count > found[1].count):
                found = each, stage
        return found or (None, None)

    def put(self, new: _Prefix, before: _Prefix | None) -> None:
        """Add the beginning of a conversation; it replaces a shorter one of the same."""
        asker = new.place[0]
        if before is not None:
            self._drop(before)
        if new.weight > self._share:
            return
        here = (*self._places.get(new.place, ()), new)
        self._places[new.place] = here
        self._prefixes[new] = None
        self._add(asker, new.weight)
        if len(here) > _KEPT:
            self._drop(here[0])
        while self._sizes[asker] > self._share:
            self._drop(next(each for each in self._prefixes if each.place[0] == asker))
        while self.size > self._limit:
            self._drop(next(iter(self._prefixes)))

    def touch(self, prefix: _Prefix) -> None:
        """Note the use of a beginning."""
        if prefix in self._prefixes:
            self._prefixes.move_to_end(prefix)

    def _drop(self, prefix: _Prefix) -> None:
        if prefix not in self._prefixes:  # another request was faster
            return
        del self._prefixes[prefix]
        here = tuple(each for each in self._places[prefix.place] if each is not prefix)
        if here:
            self._places[prefix.place] = here
        else:
            del self._places[prefix.place]
        self._add(prefix.place[0], -prefix.weight)

    def _add(self, asker: str, weight: int) -> None:
        self.size += weight
        size = self._sizes.get(asker, 0) + weight
        if size:
            self._sizes[asker] = size
        else:
            self._sizes.pop(asker, None)


@define(eq=False)
class AskerPrefixes:
    """The part of a cache that belongs to one asker: no other one can find what it sent.

    For one request: what is read of it is cached by :meth:`commit`.
    """

    _cache: PrefixCache
    _asker: str
    _uses: list[tuple[_Prefix | None, _Prefix | None]] = attrs.field(factory=list, init=False)

    def look_up(self, protocol: str, head: object, items: list[Any]) -> PrefixLookup:
        """Look for the beginning of a conversation.

        Args:
            head: Other parts of the request that affect the reading of its messages, as plain data.
            items: The messages.
        """
        start = msgspec.json.encode([head, *items[:2]])
        place = (self._asker, protocol, hash(start))
        whole = msgspec.json.encode([head, *items])
        before, stage = self._cache.find(place, whole)
        return PrefixLookup(place, whole, items, before, stage, self._uses)

    def commit(self) -> None:
        """Cache what was read; not thread-safe."""
        for new, before in self._uses:
            if new is not None:
                self._cache.put(new, before)
            elif before is not None:
                self._cache.touch(before)
        self._uses.clear()


@define(eq=False)
class PrefixLookup:
    """The search for the beginning of one request's conversation.

    Attributes:
        stage: What is cached of it; ``None`` without any.
    """

    _place: _Place
    _whole: bytes
    _items: list[Any]
    _before: _Prefix | None
    stage: PrefixStage | None
    _uses: list[tuple[_Prefix | None, _Prefix | None]]
    _new: list[PrefixStage] = attrs.field(factory=list, init=False)

    def note(self, count: int, reader: ReaderState) -> None:
        """Note the reader after so many messages; it must not change."""
        rest = self._items[count:]
        size = len(self._whole) - (len(msgspec.json.encode(rest)) if rest else 1)
        self._new.insert(0, PrefixStage(count, size, reader))

    def keep(self) -> None:
        """Have what was noted cached."""
        if not self._new:  # the same request again
            self._uses.append((None, self._before))
            return
        last, *others = self._new
        if not others and self._before is not None:  # an earlier one, for changed last messages
            others = [each for each in self._before.stages if each.count <= last.count - TAIL][:1]
        data = self._whole[: last.size]
        factor = 2 if data.isascii() else 5  # the JSON itself, and the texts
        weight = factor * len(data) + _CANISTER_BYTES * len(last.reader.canisters)
        prefix = _Prefix(self._place, data, (last, *others), weight)
        self._uses.append((prefix, self._before))
