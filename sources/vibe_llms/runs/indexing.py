"""The runs of a store, for whoever asks again and again where they stand.

It is all in memory, and made anew of the logs by whoever starts anew: there is nothing to be kept
in step with them. Of each log its size is looked at; what is new in it is read, and nothing twice.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Final, TypeAlias

import attrs

from vibe_llms.conversations.run_logs.lines import open_envelope, read_envelope
from vibe_llms.conversations.run_logs.log import LogTail
from vibe_llms.conversations.stores.defaults import require_logs
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import CodecError, CorruptionError, StoreError, UnknownConversationError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.owners import read_subject
from vibe_llms.runs.summaries import RunFold, RunState, RunSummary
from vibe_llms.runs.surveying import (
    RESTS,
    STATES,
    fold_log,
    is_asked_again,
    is_over,
    require_run,
    summarize_run,
    survey_states,
)

_FOLDS: Final = 1_000
"""Of how many runs it is kept where they stand; of all others it is read again when asked for."""

_FRESH_SECONDS: Final = 1.0
"""How old may be what is known of runs in which only other processes say or do something."""

_SHARE: Final = 20
"""How many times as long as looking at all takes they are not looked at again."""

_Place: TypeAlias = tuple[datetime, str]
"""By what runs are in order: when something happened last, and the id."""


@define(eq=False)
class _Entry:
    """What is known of a run without having read it.

    Attributes:
        stamp: Of its log, when it was looked at.
        updated: When the last event was written.
        possible: In which states it may be, by the last event.
        is_part: Whether it is part of another; ``None`` as long as nobody wanted to know.
        owner: On whose behalf it is; the same.

    Where it stands in order is with those that are alike: a list passes over the others unseen.
    """

    identity: str
    stamp: object
    updated: datetime
    possible: frozenset[RunState]
    is_part: bool | None = None
    owner: str | None = None

    @property
    def place(self) -> _Place:
        """By what runs are in order."""
        return self.updated, self.identity

    @property
    def kind(self) -> tuple[bool, str | None, frozenset[RunState]]:
        """What those in one order have alike: whether they are parts, of whom, and states."""
        return self.is_part is True, self.owner, self.possible


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

    Attributes:
        tended: The ids of the runs that a host in this process is about to take up.

    Raises:
        StoreError: The store keeps no logs of runs.
    """

    def __init__(self, store: ConversationStore) -> None:
        require_logs(store)
        self.store = store
        self.tended: Container[str] = ()
        self._foldings: OrderedDict[str, _Folding] = OrderedDict()
        self._entries: dict[str, _Entry] = {}
        self._orders: defaultdict[tuple[bool, str | None, frozenset[RunState]], list[_Place]] = (
            defaultdict(list)
        )
        self._dirty: set[str] = set()
        self._due = float("-inf")
        self._lock = threading.RLock()

    # --- one run -----------------------------------------------------------------------------

    def read_summary(self, identity: str) -> RunSummary:
        """Returns where a run stands; see :func:`.surveying.read_summary`."""
        return require_run(self.store, identity, self._summarize(identity))

    def read_rest(self, identity: str) -> tuple[int, bool]:
        """Returns the number of the last event, and whether the run has come to rest by it.

        Raises:
            UnknownConversationError: There is no such run.
            StoreError: Its log does not read.
        """
        log = self.store.open_log(identity)
        last = log.read_last()
        if last is not None and is_over(log, last.event):
            return last.sequence, True
        summary = self.read_summary(identity)
        return summary.sequence, summary.state in RESTS

    def _summarize(self, identity: str) -> RunSummary | None:
        summary = summarize_run(self.store, identity, self._fold)
        if summary is not None and summary.state == "broken_off" and identity in self.tended:
            return attrs.evolve(summary, state="working")
        return summary

    def _fold(
        self, store: ConversationStore, identity: str
    ) -> tuple[RunSummary | None, tuple[str, ...]]:
        """Reads a log on from where it was read last; see :func:`.surveying.fold_log`."""
        stamp = store.open_log(identity).measure()
        with self._lock:
            known = self._foldings.get(identity)
            if known is None or not _goes_on(known.stamp, stamp):
                log = store.open_log(identity)
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
            all_of_them: Whether all others are, too; else if that was a second ago, or longer where
                there are so many that looking at them takes its time.
        """
        with self._lock:
            begun = time.monotonic()
            if not all_of_them and begun <= self._due:
                names, self._dirty = {*self._dirty, *also}, set()
                for identity in names:
                    self._look(identity)
                return
            self._dirty.clear()
            names = {*self.store.survey()}
            for gone in self._entries.keys() - names:
                self._remove(gone)
            for identity in names:
                self._look(identity)
            now = time.monotonic()
            self._due = now + max(_FRESH_SECONDS, _SHARE * (now - begun))

    def _look(self, identity: str) -> None:
        known = self._entries.get(identity)
        stamp = self.store.open_log(identity).measure()
        if known is not None and known.stamp == stamp and stamp is not None:
            return
        if known is not None:
            self._remove(identity)
        with suppress(StoreError):  # deleted meanwhile, or damaged
            last = None if stamp is None else self.store.open_log(identity).read_last()
            if last is not None:
                entry = _Entry(identity, stamp, last.timestamp, survey_states(last.event))
                if known is not None and _goes_on(known.stamp, stamp):
                    # Whose nobody had said may be somebody's by now.
                    entry.is_part, entry.owner = known.is_part, known.owner or None
                self._entries[identity] = entry
                insort(self._orders[entry.kind], entry.place)

    def _remove(self, identity: str) -> None:
        self._take_out(self._entries.pop(identity))

    def _take_out(self, entry: _Entry) -> None:
        order = self._orders[entry.kind]
        del order[bisect_left(order, entry.place)]
        if not order:
            del self._orders[entry.kind]

    @contextmanager
    def _changing(self, entry: _Entry) -> Iterator[None]:
        """Puts a run into the order in which it belongs after what is learned of it meanwhile."""
        with self._lock:
            is_kept = self._entries.get(entry.identity) is entry
            if is_kept:
                self._take_out(entry)
            try:
                yield
            finally:
                if is_kept:
                    insort(self._orders[entry.kind], entry.place)

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
        return [*islice(self.iterate(states, owner, after), limit)]

    def iterate(
        self,
        states: Collection[RunState],
        owner: str | None = None,
        after: str = "",
        *,
        parts: bool = False,
    ) -> Iterator[RunSummary]:
        """Yields what :meth:`survey` returns, each as late as it is wanted.

        Args:
            parts: Those, too, that are parts of others.
        """
        wanted = frozenset(states)
        for entry in self._walk(wanted, owner, after, parts=parts):
            with suppress(StoreError):
                if self._may_be(entry, wanted) and (parts or self._is_of(entry, owner)):
                    summary = self._summarize(entry.identity)
                    if summary is not None and summary.state in wanted:
                        yield summary

    def _walk(
        self, wanted: frozenset[RunState], owner: str | None, after: str, *, parts: bool
    ) -> Iterator[_Entry]:
        """Yields runs that may be wanted, the newest first, as they stand in order by now."""
        with self._lock:
            place: _Place | None = None
            if after:
                behind = self._entries.get(after)
                if behind is None or not self._is_of(behind, owner):
                    raise UnknownConversationError(identity=after)
                place = behind.place
            orders = [
                order[: None if place is None else bisect_left(order, place)]
                for (is_part, whose, possible), order in self._orders.items()
                if (parts or not is_part)
                and possible & wanted
                and (owner is None or whose in (owner, None))
            ]
        for _, identity in merge(*map(reversed, orders), reverse=True):
            entry = self._entries.get(identity)
            if entry is not None:  # else it was deleted meanwhile
                yield entry

    def _may_be(self, entry: _Entry, wanted: frozenset[RunState]) -> bool:
        possible = entry.possible
        # Most have come to rest: whether somebody has asked again while they worked is read once.
        if wanted & possible == {"queued"}:
            log = self.store.open_log(entry.identity)
            if not is_asked_again(log, possible):
                with self._changing(entry):
                    entry.possible = possible = possible - {"queued"}
        return bool(wanted & possible)

    def _is_of(self, entry: _Entry, owner: str | None) -> bool:
        if entry.is_part is None:
            found = is_part(self.store.read_metadata(entry.identity).tags)
            with self._changing(entry):
                entry.is_part = found
        if entry.is_part or owner is None:
            return not entry.is_part
        if entry.owner is None:
            whose = read_subject(self.store, entry.identity) or ""
            with self._changing(entry):
                entry.owner = whose
        return entry.owner == owner


def survey_runs(
    store: ConversationStore, *, states: Collection[RunState] = STATES, parts: bool = False
) -> Iterator[RunSummary]:
    """Yields where the runs of a store stand, the one in which something happened last first.

    The logs of those that cannot be in these states are not read, and of others as late as
    they are wanted. One that is damaged is passed over. Does file work.

    Args:
        states: In which of them they are to be.
        parts: Also those that are parts of others, such as the visits of a flow.

    Raises:
        StoreError: The store keeps no logs of runs.
    """
    index = RunIndex(store)
    index.refresh()
    yield from index.iterate(states, parts=parts)


def _goes_on(known: object, stamp: object) -> bool:
    """Tells whether a log is the one that it was, and may have grown."""
    if not (isinstance(known, tuple) and isinstance(stamp, tuple)):
        return False
    is_same: bool = known[0] == stamp[0] and known[1] <= stamp[1]
    return is_same
