"""Cached folds of logs: after the first time, only new lines are read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs

from vibe_llms.conversations.run_logs.log import LoggedEvent, LogTail
from vibe_llms.conversations.run_logs.log_lines import open_envelope, read_envelope
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import CodecError, CorruptionError
from vibe_llms.foundation.attrs_classes import define


class Fold(Protocol):
    """Value that is computed from the events of a log, fed oldest first."""

    def feed(self, logged: LoggedEvent) -> None:
        """Take the next event into account."""


FoldT = TypeVar("FoldT", bound=Fold)
_Value = TypeVar("_Value")


@define(eq=False)
class _Folding(Generic[FoldT]):
    """Fold of a log, up to the line that was read last."""

    fold: FoldT
    tail: LogTail
    stamp: object = None
    weight: int = 0
    lock: threading.Lock = attrs.field(factory=threading.Lock)


class LogFolds(Generic[FoldT]):
    """Folds of the logs that were used last. Thread-safe; does file work.

    Args:
        produce: Creates an empty fold for a run.
        max_weight: Maximum sum of the weights of cached folds; the last one used always stays.
        weigh: Weight of a fold.
    """

    def __init__(
        self,
        produce: Callable[[str], FoldT],
        max_weight: int,
        weigh: Callable[[FoldT], int] = lambda _: 1,
    ) -> None:
        self._produce = produce
        self._max_weight = max_weight
        self._weigh = weigh
        self._foldings: OrderedDict[str, _Folding[FoldT]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def read(
        self, store: ConversationStore, identity: str, extract: Callable[[FoldT], _Value]
    ) -> _Value:
        """Read the new lines of a log; return what a function takes from its fold.

        Raises:
            CorruptionError: The log cannot be read.
        """
        stamp = store.open_log(identity).measure()
        with self._lock:
            known = self._foldings.get(identity)
            if known is None or not is_same_log(known.stamp, stamp):
                self._drop(identity)
                tail = store.open_log(identity).tail()
                known = self._foldings[identity] = _Folding(self._produce(identity), tail)
            self._foldings.move_to_end(identity)
        with known.lock:
            fold = known.fold
            try:
                while (known.stamp != stamp or stamp is None) and (lines := known.tail.read()):
                    for line in lines:
                        fold.feed(open_envelope(read_envelope(line.data)))
                known.stamp = stamp
            except (CodecError, CorruptionError):
                with self._lock:
                    self._drop(identity)
                whole = self._produce(identity)
                for logged in store.open_log(identity).read():  # reports the damage and its place
                    whole.feed(logged)
                return extract(whole)
            value = extract(fold)
            weight = self._weigh(fold)
        self._keep(identity, known, weight)
        return value

    def _keep(self, identity: str, folding: _Folding[FoldT], weight: int) -> None:
        with self._lock:
            if self._foldings.get(identity) is folding:
                self._weight += weight - folding.weight
                folding.weight = weight
            while self._weight > self._max_weight and len(self._foldings) > 1:
                self._drop(next(iter(self._foldings)))

    def _drop(self, identity: str) -> None:
        dropped = self._foldings.pop(identity, None)
        if dropped is not None:
            self._weight -= dropped.weight


def is_same_log(known: object, stamp: object) -> bool:
    """Tell whether a log is still the same log, which may have grown."""
    if not (isinstance(known, tuple) and isinstance(stamp, tuple)):
        return False
    is_same: bool = known[0] == stamp[0] and known[1] <= stamp[1]
    return is_same
