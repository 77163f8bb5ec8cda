"""Index of the runs of a store, for callers that query their states repeatedly.

The index is in memory only, and each process builds it from the logs when it starts, so nothing
has to be kept in sync with them. The index checks the size of each log and reads new lines only.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Final, TypeAlias

import attrs

from vibe_llms.conversations.stores.defaults import require_logs
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import is_part
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.filtering import ALL_RUNS, RunFacts, RunFilter, read_facts
from vibe_llms.runs.folding import LogFolds, is_same_log
from vibe_llms.runs.owners import read_subject
from vibe_llms.runs.summaries import RunFold, RunState, RunSummary
from vibe_llms.runs.surveying import (
    RESTS,
    STATES,
    is_over,
    is_requested_again,
    require_run,
    summarize_run,
    survey_states,
)

_MAX_FOLDS: Final = 1_000
"""Number of runs whose folds are cached; the logs of all others are read again on request."""

_FRESH_SECONDS: Final = 1.0
"""Maximum age in seconds of data about runs that only other processes change."""

_PAUSE_FACTOR: Final = 20
"""Pause between checks of all runs, as a multiple of the duration of a check."""

_SortKey: TypeAlias = tuple[datetime, str]
"""Sort key of runs: time of the last event, and id."""


@define(eq=False)
class _Entry:
    """Index entry: facts about a run that are known without reading its log.

    Attributes:
        stamp: Stamp of its log at the last check.
        updated: Time of the last event.
        possible: Possible states, judged by the last event.
        is_part: Whether the run is part of another; ``None`` until it is looked up.
        owner: Owner of the run; also ``None`` until it is looked up.
        facts: Facts from the log, once it was read.

    Entries are ordered within their kind, so a list skips other kinds without looking at them.
    """

    identity: str
    stamp: object
    updated: datetime
    possible: frozenset[RunState]
    is_part: bool | None = None
    owner: str | None = None
    facts: RunFacts | None = None

    @property
    def sort_key(self) -> _SortKey:
        """Sort key of runs."""
        return self.updated, self.identity

    @property
    def kind(self) -> tuple[bool, str | None, frozenset[RunState]]:
        """Key of the entry's order: whether the entry is a part, the owner, and states."""
        return self.is_part is True, self.owner, self.possible


class RunIndex:
    """Index of the states of a store's runs. Thread-safe; all methods do file work.

    Args:
        store: Store of the runs.

    Attributes:
        active_ids: Ids of the runs that a worker in this process has taken on.

    Raises:
        StoreError: The store keeps no logs of runs.
    """

    def __init__(self, store: ConversationStore) -> None:
        require_logs(store)
        self.store = store
        self.active_ids: Container[str] = ()
        self._folds = LogFolds(RunFold, _MAX_FOLDS)
        self._entries: dict[str, _Entry] = {}
        self._orders: defaultdict[tuple[bool, str | None, frozenset[RunState]], list[_SortKey]] = (
            defaultdict(list)
        )
        self._dirty: set[str] = set()
        self._next_check = float("-inf")
        self._lock = threading.RLock()

    # --- one run -----------------------------------------------------------------------------

    def read_summary(self, identity: str) -> RunSummary:
        """Return the summary of a run; see :func:`.surveying.read_summary`."""
        return require_run(self.store, identity, self._summarize(identity))

    def read_rest(self, identity: str) -> tuple[int, bool]:
        """Return the number of the last event, and whether the run came to rest with it.

        A run that was asked to stop is at rest once its process has ended it, or is gone.

        Raises:
            UnknownConversationError: The run does not exist.
            StoreError: Its log cannot be read.
        """
        log = self.store.open_log(identity)
        last = log.read_last()
        if last is not None and is_over(log, last.event):
            return last.sequence, True
        summary = self.read_summary(identity)
        return summary.sequence, summary.state in RESTS and not summary.starts

    def _summarize(self, identity: str) -> RunSummary | None:
        summary = summarize_run(self.store, identity, self._fold)
        if summary is not None and summary.state == "broken_off" and identity in self.active_ids:
            return attrs.evolve(summary, state="working")
        return summary

    def _fold(
        self, store: ConversationStore, identity: str
    ) -> tuple[RunSummary | None, tuple[str, ...]]:
        """Read the new lines of a log and fold them; see :func:`.surveying.fold_log`."""
        return self._folds.read(store, identity, _extract)

    # --- all of them -------------------------------------------------------------------------

    def touch(self, identity: str) -> None:
        """Mark a run, so that its log is checked before the run is next listed."""
        with self._lock:
            self._dirty.add(identity)

    def refresh(self, always: Iterable[str] = (), *, check_all: bool = False) -> None:
        """Update the index from the logs.

        Args:
            always: Runs that are always checked.
            check_all: Check all other runs, too. Otherwise they are checked if the last check
                was a second ago, or longer if there are so many that a check takes long.
        """
        with self._lock:
            start = time.monotonic()
            if not check_all and start <= self._next_check:
                names, self._dirty = {*self._dirty, *always}, set()
                for identity in names:
                    self._update_entry(identity, self.store.open_log(identity).measure())
                return
            self._dirty.clear()
            stamps = self.store.measure_logs()
            for deleted in self._entries.keys() - stamps.keys():
                self._remove(deleted)
            for identity, stamp in stamps.items():
                entry = self._entries.get(identity)
                if entry is None or entry.stamp != stamp:
                    self._update_entry(identity, stamp)
            now = time.monotonic()
            self._next_check = now + max(_FRESH_SECONDS, _PAUSE_FACTOR * (now - start))

    def _update_entry(self, identity: str, stamp: object) -> None:
        known = self._entries.get(identity)
        if known is not None and known.stamp == stamp and stamp is not None:
            return
        if known is not None:
            self._remove(identity)
        with suppress(StoreError):  # deleted in the meantime, or damaged
            last = None if stamp is None else self.store.open_log(identity).read_last()
            if last is not None:
                entry = _Entry(identity, stamp, last.timestamp, survey_states(last.event))
                if known is not None and is_same_log(known.stamp, stamp):
                    # A run without an owner may have one by now.
                    entry.is_part, entry.owner = known.is_part, known.owner or None
                self._entries[identity] = entry
                insort(self._orders[entry.kind], entry.sort_key)

    def _remove(self, identity: str) -> None:
        self._take_out(self._entries.pop(identity))

    def _take_out(self, entry: _Entry) -> None:
        order = self._orders[entry.kind]
        del order[bisect_left(order, entry.sort_key)]
        if not order:
            del self._orders[entry.kind]

    @contextmanager
    def _changing(self, entry: _Entry) -> Iterator[None]:
        """Move an entry to its new position after the block has changed it."""
        with self._lock:
            is_kept = self._entries.get(entry.identity) is entry
            if is_kept:
                self._take_out(entry)
            try:
                yield
            finally:
                if is_kept:
                    insort(self._orders[entry.kind], entry.sort_key)

    def survey(
        self,
        *,
        states: Collection[RunState] = STATES,
        owner: str | None = None,
        after: str = "",
        limit: int | None = None,
        wanted: RunFilter = ALL_RUNS,
        accepts: Callable[[str], bool] = lambda _: True,
    ) -> list[RunSummary]:
        """Return summaries of runs, the most recently updated first.

        Reads the logs of returned runs, and of runs that were possible matches. Parts of other
        runs, such as the visits of a flow, are omitted.

        Args:
            states: States to include.
            owner: Owner of the runs; ``None`` for all.
            after: Id of the run behind which to begin.
            limit: Maximum number of runs.
            wanted: Conditions on time, kind, model and cost.
            accepts: Further condition, on the id of a run.

        Raises:
            UnknownConversationError: The run ``after`` does not exist.
        """
        found = self.iterate(states, owner, after, wanted=wanted, accepts=accepts)
        return [*islice(found, limit)]

    def iterate(
        self,
        states: Collection[RunState],
        owner: str | None = None,
        after: str = "",
        *,
        parts: bool = False,
        wanted: RunFilter = ALL_RUNS,
        accepts: Callable[[str], bool] = lambda _: True,
    ) -> Iterator[RunSummary]:
        """Yield what :meth:`survey` returns, lazily.

        Args:
            parts: Include runs that belong to another one, such as a flow's visits.
        """
        wanted_states = frozenset(states)
        for entry in self._walk(wanted_states, owner, after, parts=parts):
            if wanted.since is not None and entry.updated < wanted.since:
                return  # so are all later ones
            if not (_may_match(entry, wanted) and accepts(entry.identity)):
                continue
            with suppress(StoreError):
                if self._may_be(entry, wanted_states) and (parts or self._belongs_to(entry, owner)):
                    summary = self._summarize(entry.identity)
                    if summary is None or summary.state not in wanted_states:
                        continue
                    entry.facts = read_facts(summary)
                    if wanted.matches(entry.facts):
                        yield summary

    def _walk(
        self, wanted_states: frozenset[RunState], owner: str | None, after: str, *, parts: bool
    ) -> Iterator[_Entry]:
        """Yield possible matches, the newest first, in their current order."""
        with self._lock:
            place: _SortKey | None = None
            if after:
                previous = self._entries.get(after)
                if previous is None or not self._belongs_to(previous, owner):
                    raise UnknownConversationError(identity=after)
                place = previous.sort_key
            orders = [
                order[: None if place is None else bisect_left(order, place)]
                for (is_part, entry_owner, possible), order in self._orders.items()
                if (parts or not is_part)
                and possible & wanted_states
                and (owner is None or entry_owner in (owner, None))
            ]
        for _, identity in merge(*map(reversed, orders), reverse=True):
            entry = self._entries.get(identity)
            if entry is not None:  # otherwise it was deleted in the meantime
                yield entry

    def _may_be(self, entry: _Entry, wanted_states: frozenset[RunState]) -> bool:
        possible = entry.possible
        # Most have come to rest: whether they were requested again while they worked is read once.
        if wanted_states & possible == {"queued"}:
            log = self.store.open_log(entry.identity)
            if not is_requested_again(log, possible):
                with self._changing(entry):
                    entry.possible = possible = possible - {"queued"}
        return bool(wanted_states & possible)

    def _belongs_to(self, entry: _Entry, owner: str | None) -> bool:
        if entry.is_part is None:
            found = is_part(self.store.read_metadata(entry.identity).tags)
            with self._changing(entry):
                entry.is_part = found
        if entry.is_part or owner is None:
            return not entry.is_part
        if entry.owner is None:
            entry_owner = read_subject(self.store, entry.identity) or ""
            with self._changing(entry):
                entry.owner = entry_owner
        return entry.owner == owner


def _extract(fold: RunFold) -> tuple[RunSummary | None, tuple[str, ...]]:
    return (None if fold.is_empty else fold.summarize()), fold.visits


def _may_match(entry: _Entry, wanted: RunFilter) -> bool:
    facts = entry.facts
    return wanted.is_in_time(entry.updated) and (facts is None or wanted.matches(facts))


def survey_runs(
    store: ConversationStore, *, states: Collection[RunState] = STATES, parts: bool = False
) -> Iterator[RunSummary]:
    """Yield summaries of the runs of a store, the most recently updated first.

    Logs of runs that cannot be in these states are not read; others are read lazily. Damaged
    logs are skipped. Does file work.

    Args:
        states: States to include.
        parts: Include runs that belong to another one, such as a flow's visits.

    Raises:
        StoreError: The store keeps no logs of runs.
    """
    index = RunIndex(store)
    index.refresh()
    yield from index.iterate(states, parts=parts)
