"""The runs of a store, for whoever asks again and again where they stand.

It is all in memory, and made anew of the logs by whoever starts anew: there is nothing to be kept
in step with them. Of each log its size is looked at; what is new in it is read, and nothing twice.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

import attrs

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import CodecError, CorruptionError, StoreError, UnknownConversationError
from vibe_llms.runs.lines import open_envelope, read_envelope
from vibe_llms.runs.log import LogTail
from vibe_llms.runs.owners import read_subject
from vibe_llms.runs.places import measure_log, produce_log, require_logs
from vibe_llms.runs.summaries import RunFold, RunState, RunSummary
from vibe_llms.runs.surveying import (
    STATES,
    fold_log,
    is_asked_again,
    require_run,
    summarize_run,
    survey_states,
)
from vibe_llms.values import define

_FOLDS: Final = 1_000
"""Of how many runs it is kept where they stand; of all others it is read again when asked for."""

_FRESH_SECONDS: Final = 1.0
"""How old may be what is known of runs in which only other processes say or do something."""


@define(eq=False)
class _Entry:
    """What is known of a run without having read it.

    Attributes:
        stamp: Of its log, when it was looked at.
        updated: When the last event was written.
        possible: In which states it may be, by the last event.
        is_part: Whether it is part of another; ``None`` as long as nobody wanted to know.
        owner: On whose behalf it is; the same.
    """

    identity: str
    stamp: object
    updated: datetime
    possible: frozenset[RunState]
    is_part: bool | None = None
    owner: str | None = None

    @property
    def place(self) -> tuple[datetime, str]:
        """By what runs are in order."""
        return self.updated, self.identity


@define(eq=False)
class _Folding:
    """A log as far as it was read."""

    fold: RunFold
    tail: LogTail
    stamp: object = None
    lock: threading.Lock = attrs.field(factory=threading.Lock)


class RunIndex:
    """Knows where the runs of a store stand; for any thread. All does file work.

    Args:
        store: Has the runs.

    Raises:
        StoreError: The store keeps no logs of runs.
    """

    def __init__(self, store: ConversationStore) -> None:
        require_logs(store)
        self.store = store
        self._foldings: OrderedDict[str, _Folding] = OrderedDict()
        self._entries: dict[str, _Entry] = {}
        self._order: list[tuple[datetime, str]] = []
        self._dirty: set[str] = set()
        self._looked = float("-inf")
        self._lock = threading.RLock()

    # --- one run -----------------------------------------------------------------------------

    def read_summary(self, identity: str) -> RunSummary:
        """Returns where a run stands; see :func:`.surveying.read_summary`."""
        return require_run(self.store, identity, self._summarize(identity))

    def _summarize(self, identity: str) -> RunSummary | None:
        return summarize_run(self.store, identity, self._fold)

    def _fold(
        self, store: ConversationStore, identity: str
    ) -> tuple[RunSummary | None, tuple[str, ...]]:
        """Reads a log on from where it was read last; see :func:`.surveying.fold_log`."""
        stamp = measure_log(store, identity)
        with self._lock:
            known = self._foldings.get(identity)
            if known is None or not _goes_on(known.stamp, stamp):
                log = produce_log(store, identity)
                known = self._foldings[identity] = _Folding(RunFold(identity), log.tail())
            self._foldings.move_to_end(identity)
            if len(self._foldings) > _FOLDS:
                self._foldings.popitem(last=False)
        with known.lock:
            fold = known.fold
            try:
                while (known.stamp != stamp or stamp is None) and (lines := known.tail.read()):
                    for line in lines:
                        fold.feed(open_envelope(read_envelope(line.data)))
                known.stamp = stamp
            except (CodecError, CorruptionError):
                with self._lock:
                    self._foldings.pop(identity, None)
                return fold_log(store, identity)  # which says what is wrong with it, and where
            return (None if fold.is_empty else fold.summarize()), fold.visits

    # --- all of them -------------------------------------------------------------------------

    def touch(self, identity: str) -> None:
        """Has a run looked at before it is next listed."""
        with self._lock:
            self._dirty.add(identity)

    def refresh(self, also: Iterable[str] = (), *, all_of_them: bool = False) -> None:
        """Takes over what has become of the runs.

        Args:
            also: Runs that are looked at in any case.
            all_of_them: Whether all others are, too; else if that was a second ago.
        """
        with self._lock:
            names = {*self._dirty, *also}
            self._dirty.clear()
            if all_of_them or time.monotonic() > self._looked + _FRESH_SECONDS:
                self._looked = time.monotonic()
                names = {*self.store.survey()}
                for gone in self._entries.keys() - names:
                    self._remove(gone)
            for identity in names:
                self._look(identity)

    def _look(self, identity: str) -> None:
        known = self._entries.get(identity)
        stamp = measure_log(self.store, identity)
        if known is not None and known.stamp == stamp and stamp is not None:
            return
        if known is not None:
            self._remove(identity)
        with suppress(StoreError):  # deleted meanwhile, or damaged
            last = None if stamp is None else produce_log(self.store, identity).read_last()
            if last is not None:
                entry = _Entry(identity, stamp, last.timestamp, survey_states(last.event))
                if known is not None and _goes_on(known.stamp, stamp):
                    entry.is_part, entry.owner = known.is_part, known.owner
                self._entries[identity] = entry
                insort(self._order, entry.place)

    def _remove(self, identity: str) -> None:
        place = self._entries.pop(identity).place
        del self._order[bisect_left(self._order, place)]

    def survey(
        self,
        *,
        states: Collection[RunState] = STATES,
        owner: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> list[RunSummary]:
        """Returns where runs stand, the one in which something happened last first.

        What is read are the logs of those that are returned, and of those that might have been.
        Parts of others, such as the visits of a flow, are none.

        Args:
            states: In which of them they are to be.
            owner: On whose behalf; ``None`` for all.
            after: The id of the run behind which to begin.
            limit: How many at most.

        Raises:
            UnknownConversationError: There is no run ``after`` which to begin.
        """
        wanted, found = frozenset(states), list[RunSummary]()
        with self._lock:
            order = self._order
            end = len(order)
            if after:
                behind = self._entries.get(after)
                if behind is None or not self._is_of(behind, owner):
                    raise UnknownConversationError(identity=after)
                end = bisect_left(order, behind.place)
            entries = [self._entries[identity] for _, identity in order[:end]]
        for entry in reversed(entries):
            if limit is not None and len(found) >= limit:
                break
            with suppress(StoreError):
                if self._may_be(entry, wanted) and self._is_of(entry, owner):
                    summary = self._summarize(entry.identity)
                    if summary is not None and summary.state in wanted:
                        found.append(summary)
        return found

    def _may_be(self, entry: _Entry, wanted: frozenset[RunState]) -> bool:
        possible = entry.possible
        # Most have come to rest: whether somebody has asked again while they worked is read once.
        if wanted & possible == {"queued"}:
            log = produce_log(self.store, entry.identity)
            if not is_asked_again(log, possible):
                entry.possible = possible = possible - {"queued"}
        return bool(wanted & possible)

    def _is_of(self, entry: _Entry, owner: str | None) -> bool:
        if entry.is_part is None:
            entry.is_part = is_part(self.store.read_metadata(entry.identity).tags)
        if entry.is_part or owner is None:
            return not entry.is_part
        if entry.owner is None:
            entry.owner = read_subject(self.store, entry.identity) or ""
        return entry.owner == owner


def _goes_on(known: object, stamp: object) -> bool:
    """Tells whether a log is the one that it was, and may have grown."""
    if not (isinstance(known, tuple) and isinstance(stamp, tuple)):
        return False
    is_same: bool = known[0] == stamp[0] and known[1] <= stamp[1]
    return is_same
